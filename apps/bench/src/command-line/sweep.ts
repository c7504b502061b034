/** `sweep nu`, `sweep scaler`, `sweep rows`. */
import { Argument, Command } from 'commander'
import {
  RESULTS,
  whole,
  withData,
  withDatasets,
  withDetectors,
  withMachine,
  withRepeats,
  withTestRuns,
} from '../commands/options.js'
import { SWEEP_DATASETS, SWEEP_NAMES, type SweepName } from '../commands/sweep.js'

export function sweepCommand(): Command {
  const command = withDatasets(withData(new Command('sweep')), SWEEP_DATASETS.join(','))
    .description('run untuned trials over a range of settings; a stopped sweep continues where it stopped')
    .addArgument(
      new Argument(
        '<what>',
        'nu: OCSVM over nu, compared with OC-KJL and OC-Nystrom over m, d, k; scaler: scalers × bandwidths × detectors; rows: training rows × detectors',
      ).choices(SWEEP_NAMES),
    )
  withRepeats(withDetectors(command), 3).option(
    '--workers <count>',
    'number of parallel trials; for valid times use 1 on an idle machine',
    whole(1, 256),
    1,
  )
  return withMachine(withTestRuns(command))
    .option('--trials <file>', 'file for the trials (default: sweep-WHAT.jsonl in docs/results)')
    .addHelpText(
      'after',
      '\nExamples:\n  oddflow-bench sweep nu\n  oddflow-bench sweep rows --datasets unb-rows',
    )
    .action(async (what: SweepName, options) => {
      const { sweep } = await import('../commands/sweep.js')
      const trials = options.trials ?? `${RESULTS}/sweep-${what}.jsonl`
      process.exitCode = await sweep(what, { ...options, trials })
    })
}
