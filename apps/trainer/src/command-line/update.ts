/** `update`. */
import { Argument, Command, Option } from 'commander'
import {
  INPUT_HELP,
  inputs,
  number,
  OPEN_FLOWS,
  whole,
  withCaptureFlags,
  withFlowMemory,
  withFormat,
} from '../flags.js'

export function updateCommand(): Command {
  const command = new Command('update')
    .description('update a model with more traffic')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; may be the one that is read')
    .option('--assume-normal', 'treat every row as normal, even if the model finds it novel')
    .addOption(
      new Option(
        '--method <number>',
        '1: EM runs to convergence after each round, 2: after each batch too (default: 1)',
      ).choices(['1', '2']),
    )
    .option(
      '--half-life <rows>',
      'halve the weight of a row after this many later rows (default: no forgetting)',
      number,
    )
    .addOption(
      new Option(
        '--novel <policy>',
        'how to treat novel rows: disregard them, hold them until confirmed, or learn them (default: hold)',
      ).choices(['disregard', 'hold', 'learn']),
    )
    .option(
      '--confirm <inputs>',
      'learn held rows once similar rows appear in this many inputs, and in every second input since the first (default: never)',
      whole,
    )
    .addOption(
      new Option(
        '--sketch <policy>',
        'what to do with the landmarks when a new component is learned (default: grow)',
      ).choices(['keep', 'grow', 'replace']),
    )
    .option('--no-guard', 'accept every round without checking it')
    .option('--shadow-agrees', 'learn only rows that the model as first trained finds normal too')
    .option('--defaults', 'use the defaults instead of the options of earlier updates')
    .option('--known-novel <rows>', 'feature rows that must stay novel, in addition to generated ones')
    .option('--journal <file>', 'write every step to a new file, for oddflow replay')
    .option('--seed <number>', 'seed of all randomness, for a first update (default: 1)', whole)
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP}

An ensemble, the default detector, learns only with --assume-normal and takes none of the other learning options.

A mixture learns rows that the model finds normal. It holds novel rows until similar rows appear in other inputs
(--confirm), or until you say that all rows are normal (--assume-normal). The guard undoes a round if rows
that must stay novel would become normal. The model file keeps what the next update needs, and the options except
--assume-normal, --known-novel and --journal. --defaults resets these options, including --no-guard.

Examples:
  oddflow update camera.oddflow after-upgrade.pcap -o camera-2.oddflow --assume-normal
  oddflow update mixture.oddflow today.pcap -o mixture.oddflow
  oddflow update mixture.oddflow day-*.pcap -o mixture.oddflow --confirm 3 --half-life 20000 --journal may-3.jsonl`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('../commands/update.js')).update(model, files, givenGuard(options)),
    )
}

/** commander says true where --no-guard is not given; that says nothing. */
function givenGuard<T extends { guard?: boolean }>(options: T): T {
  return options.guard === false ? options : { ...options, guard: undefined }
}
