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
    .description('compare with other programs on the same rows: scikit-learn, libsvm, numpy, C')
    .addArgument(
      new Argument(
        '[what]',
        'svm: AUC and times of other one-class SVMs, for every data set, repeat and tuning (existing results are not run again); speed: scoring and training, in turns with numpy, scikit-learn and C (default: both)',
      ).choices(COMPARISONS),
    )
    .option(
      '--datasets <names>',
      'for svm: only these data sets, separated by commas (default: all that are present)',
      names,
    )
  return withTestRuns(withRepeats(withTuning(command), 3))
    .option(
      '--trials <file>',
      'for svm: trials whose OCSVM gives the tuned bandwidth; its AUC must be reproduced',
      TRIALS,
    )
    .option('--dataset <name>', 'for speed: the data set to train on and score', 'ctu-rows')
    .option('--rounds <count>', 'for speed: number of turns for each program', whole(1, 1000), 9)
    .option('--out <dir>', 'folder for peers.jsonl and peers-speed.jsonl', RESULTS)
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench peers
  oddflow-bench peers svm --datasets ctu-rows --tuning none
  oddflow-bench peers speed --rounds 3

A peer that is not installed is reported as absent. The C program is compiled with cc from source that comes with oddflow-bench.`,
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
