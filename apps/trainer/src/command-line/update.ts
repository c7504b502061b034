/** `update`. */
import { Argument, Command, Option } from 'commander'
import { OPEN_FLOWS, withCaptureFlags, withFlowMemory } from '../capture-flags.js'
import { number, whole } from '../option-values.js'
import { INPUT_HELP, inputs, withFormat } from './shared-options.js'

export function updateCommand(): Command {
  const command = new Command('update')
    .description('let a model learn on from more traffic')
    .addArgument(new Argument('<model>', 'a model file'))
    .addArgument(inputs())
    .requiredOption('-o, --output <model>', 'the model file to write; may be the one that is read')
    .option('--assume-normal', 'every row is normal, also where the model finds it new')
    .addOption(
      new Option(
        '--method <number>',
        '1: EM to convergence each round, 2: after each batch too (default: 1)',
      ).choices(['1', '2']),
    )
    .option('--round-rows <count>', 'rows after which the model is settled and guarded (default: 100)', whole)
    .option('--reservoir-rows <count>', 'rows kept for convergence (default: 1000)', whole)
    .option('--half-life <rows>', 'a row counts half after so many more (default: none is forgotten)', number)
    .option('--window <rows>', 'only the last so many rows count', whole)
    .addOption(
      new Option('--novel <policy>', 'what becomes of novel rows (default: hold)').choices([
        'disregard',
        'hold',
        'learn',
      ]),
    )
    .option(
      '--confirm <inputs>',
      'held rows are learnt once their like came in so many inputs, and every second one (default: never)',
      whole,
    )
    .option('--confirm-rows <count>', 'and were so many (default: 10)', whole)
    .option(
      '--maximum-components <count>',
      'Gaussians that there may be, those that there are aside (default: 20)',
      whole,
    )
    .addOption(
      new Option('--sketch <policy>', 'landmarks when something new is learnt (default: grow)').choices([
        'keep',
        'grow',
        'replace',
      ]),
    )
    .option('--sketch-rows <count>', 'landmarks that come at a time (default: 10)', whole)
    .option('--re-estimate-bandwidth', 'with new landmarks, if the quantile moved by over a tenth')
    .option('--no-guard', 'learn whatever comes')
    .option('--guard-lifted <share>', 'known-novel rows that may come to pass (default: 0.02)', number)
    .option('--guard-moved <share>', 'known-normal rows that may come to be novel (default: 0.1)', number)
    .option('--shadow-agrees', 'learn only what the model as it was trained finds normal too')
    .option('--defaults', 'take the defaults where the model remembers options of earlier updates')
    .option('--known-novel <rows>', 'feature rows that must stay novel, beside made ones')
    .option('--journal <file>', 'write every step, for oddflow replay; a new file each time')
    .option('--seed <number>', 'seed of all randomness, for a first update (default: 1)', whole)
  return withFlowMemory(withCaptureFlags(withFormat(command, ['text', 'json']), true), OPEN_FLOWS)
    .addHelpText(
      'after',
      `
${INPUT_HELP}

Rows that the model finds normal are learnt. Novel ones are held: they are learnt when their like comes back in
other inputs (--confirm), or when you say that all is normal (--assume-normal). An update that would have rows
pass that must stay novel is undone. What learning needs is kept in the model, so updates can follow each other,
and so are the options but --assume-normal, --known-novel and --journal: --no-guard too, until --defaults.

Examples:
  oddflow update camera.oddflow today.pcap -o camera.oddflow
  oddflow update camera.oddflow after-upgrade.pcap -o camera-2.oddflow --assume-normal
  oddflow update camera.oddflow day-*.pcap -o camera.oddflow --confirm 3 --half-life 20000 --journal may-3.jsonl`,
    )
    .action(async (model: string, files: string[], options) =>
      (await import('../commands/update.js')).update(model, files, givenGuard(options)),
    )
}

/** commander says true where --no-guard is not given; that says nothing. */
function givenGuard<T extends { guard?: boolean }>(options: T): T {
  return options.guard === false ? options : { ...options, guard: undefined }
}
