/** `peers`. */
import { Command } from 'commander'
import { RESULTS, withData, withDatasets, withRepeats, withTestRuns } from './shared-options.js'

export function peersCommand(): Command {
  return withTestRuns(withRepeats(withDatasets(withData(new Command('peers'))), 3))
    .description(
      "others' one-class SVMs on the same rows: scikit-learn, libsvm; what is there is not run again",
    )
    .option('--out <file>', 'where results are kept', `${RESULTS}/peers.jsonl`)
    .addHelpText(
      'after',
      '\nExample:\n  oddflow-bench peers --datasets ctu-rows\n\nA peer that is not installed is reported as absent.',
    )
    .action(async (options) => {
      const { peers } = await import('../commands/peers.js')
      process.exitCode = await peers(options)
    })
}
