/** `replay`. */
import { Argument, Command } from 'commander'
import { whole } from '../option-values.js'
import { withFormat } from './shared-options.js'

export function replayCommand(): Command {
  const command = new Command('replay')
    .description("repeat a journal's steps on the model that they began with, to check or to undo")
    .addArgument(new Argument('<model>', 'the model that oddflow update --journal began with'))
    .addArgument(new Argument('<journal>', 'the journal'))
    .requiredOption('-o, --output <model>', 'the model file to write')
    .option('--steps <count>', 'only the first so many (default: all)', whole)
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
