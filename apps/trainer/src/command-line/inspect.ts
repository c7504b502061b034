/** `inspect`. */
import { Argument, Command } from 'commander'
import { withFormat } from '../flags.js'

export function inspectCommand(): Command {
  return withFormat(
    new Command('inspect').description('show what a model file holds and its detection limits'),
    ['text', 'json'],
  )
    .addArgument(new Argument('<model>', 'a model file'))
    .addHelpText('after', '\nExample:\n  oddflow inspect camera.oddflow')
    .action(async (model: string, options) =>
      (await import('../commands/inspect.js')).inspect(model, options),
    )
}
