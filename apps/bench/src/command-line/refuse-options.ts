/** An option that does nothing for what was asked is refused by name, not passed over. */
import type { Command } from 'commander'
import { UsageError } from '../errors.js'

/** `names`: as the command's options are called in code. Throws UsageError for the first that was given. */
export function refuseOptions(command: Command, names: readonly string[], what: string): void {
  for (const option of command.options) {
    const name = option.attributeName()
    if (names.includes(name) && command.getOptionValueSource(name) === 'cli') {
      throw new UsageError(`${option.long}: does not apply to ${what}`)
    }
  }
}
