/** `replay`. */
import { Argument, Command } from 'commander'
import { whole, withFormat } from '../flags.js'

export function replayCommand(): Command {
  const command = new Command('replay')
    .description("replay an update's journal on the model before the update, to check or to undo it")
    .addArgument(new Argument('<model>', 'the model that oddflow update --journal started from'))
    .addArgument(new Argument('<journal>', 'the journal'))
    .requiredOption('-o, --output <model>', 'the model file to write')
    .option('--steps <count>', 'replay only this many steps, from the first (default: all)', whole)
  return withFormat(command, ['text', 'json'])
    .addHelpText(
      'after',
      `
Examples:
  oddflow replay camera.oddflow may-3.jsonl -o again.oddflow
  oddflow replay camera.oddflow may-3.jsonl -o undone.oddflow --steps 12`,
    )
    .action(async (model: string, journal: string, options) =>
      (await import('../commands/replay.js')).replay(model, journal, options),
    )
}
