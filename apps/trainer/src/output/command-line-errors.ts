/**
 * commander's own complaints (an unknown option, a missing argument) as every other error of the program is:
 * one line, with the program's name before it and what to try after it.
 */
import type { OutputConfiguration } from 'commander'
import { printable } from './stdout.js'

/** @param help the command that prints the help in question. */
export function oneLineErrors(help: string): OutputConfiguration {
  return {
    outputError: (text, write) => {
      const message = text
        .trim()
        .replace(/^error: /, '')
        .replace(/\.$/, '')
        .replace(/\n(\(Did you mean [^\n]*\))$/, ' $1')
      write(`oddflow: ${printable(message)}; try: ${help}\n`)
    },
  }
}
