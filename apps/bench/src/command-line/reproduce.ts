/** `reproduce`. */
import { Command } from 'commander'
import {
  names,
  TRIALS,
  whole,
  withData,
  withDatasets,
  withDetectors,
  withMachine,
  withRepeats,
  withTestRuns,
  withTrainRows,
  withTuning,
} from '../commands/options.js'

export function reproduceCommand(): Command {
  const command = withDatasets(withData(new Command('reproduce')))
    .description('run trials; a stopped run continues where it stopped')
    .option('--features <names>', 'iat-size, stats-header, samp-size (default: all that are present)', names)
  withTrainRows(withRepeats(withTuning(withDetectors(command)), 5)).option(
    '--workers <count>',
    'number of parallel trials (default: the number of CPUs minus one)',
    whole(1, 256),
  )
  return withMachine(withTestRuns(command))
    .option('--trials <file>', 'file for the trials', TRIALS)
    .addHelpText(
      'after',
      `
Examples:
  oddflow-bench reproduce --tuning none
  oddflow-bench reproduce --tuning minimal --datasets ctu-rows --detectors ocsvm,oc-kjl-qs --workers 1
  oddflow-bench reproduce --machine rspi --trials rspi.jsonl
  oddflow-bench reproduce --datasets ctu --train-rows 500 --trials ctu-500.jsonl

Times are wall-clock times: for a speed table, run with --workers 1 on an idle machine.`,
    )
    .action(async (options) => {
      const { reproduce } = await import('../commands/reproduce.js')
      process.exitCode = await reproduce(options)
    })
}
