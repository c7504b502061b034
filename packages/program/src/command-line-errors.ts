/**
 * commander's own complaints (an unknown option, a missing argument) as every other error of the programs is:
 * one line, with the program's name before it and what to try after it.
 */
import { printable } from './printable.js'

/** What commander's configureOutput takes of it. */
export interface ErrorOutput {
  outputError(text: string, write: (line: string) => void): void
}

/** @param help the command that prints the help in question; its first word is the program's name. */
export function oneLineErrors(help: string): ErrorOutput {
  const program = help.split(' ', 1)[0]
  return {
    outputError: (text, write) => {
      const message = text
        .trim()
        .replace(/^error: /, '')
        .replace(/\.$/, '')
        .replace(/\n(\(Did you mean [^\n]*\))$/, ' $1')
      write(`${program}: ${printable(message)}; try: ${help}\n`)
    },
  }
}
