/** `peers svm` and `peers speed`; without either, both. */
import { Argument, Command } from 'commander'
import {
  names,
  RESULTS,
  TRIALS,
  whole,
  withData,
  withRepeats,
  withTestRuns,
  withTuning,
} from '../commands/options.js'
import { refuseOptions } from '../commands/peers.js'

const COMPARISONS = ['svm', 'speed'] as const

export function peersCommand(): Command {
  const command = withData(new Command('peers'))
    .description('others on the same rows: scikit-learn, libsvm, numpy, C')
    .addArgument(
      new Argument(
        '[what]',
        "svm: AUC and times of others' one-class SVMs, over every data set, repeat and tuning (what is there is not run again); speed: scoring and training in turns beside numpy, scikit-learn and C; without it both",
      ).choices(COMPARISONS),
    )
    .option(
      '--datasets <names>',
      'of svm: these alone, separated by commas (default: all that are there)',
      names,
    )
  return withTestRuns(withRepeats(withTuning(command), 3))
    .option(
      '--trials <file>',
      'of svm: whose OCSVM says the tuned bandwidth; its AUC must come again',
      TRIALS,
    )
    .option('--dataset <name>', 'of speed: the data set that is trained on and scored', 'ctu-rows')
    .option('--rounds <count>', 'of speed: turns that each side takes', whole(1, 1000), 9)
    .option('--out <dir>', 'folder of peers.jsonl and peers-speed.jsonl', RESULTS)
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench peers
  oddflow-bench peers svm --datasets ctu-rows --tuning none
  oddflow-bench peers speed --rounds 3

A peer that is not installed is reported as absent. C is compiled with cc from a source that comes with this program.`,
    )
    .action(async (what: (typeof COMPARISONS)[number] | undefined, options, command: Command) => {
      if (what === 'svm') refuseOptions(command, ['dataset', 'rounds'], 'peers svm')
      if (what === 'speed') {
        const ofSvm = ['datasets', 'tuning', 'repeats', 'testRuns', 'trials']
        refuseOptions(command, ofSvm, 'peers speed')
      }
      if (what !== 'speed') {
        const { peers } = await import('../commands/peers.js')
        process.exitCode = await peers({ ...options, out: `${options.out}/peers.jsonl` })
      }
      if (what !== 'svm') {
        const { peerSpeed } = await import('../commands/peers.js')
        await peerSpeed({ ...options, out: `${options.out}/peers-speed.jsonl` })
      }
    })
}
