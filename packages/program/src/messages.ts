/** Messages of a program: one line each on standard error, with control characters shown. */
import { printable } from './printable.js'

export interface Messages {
  warn(message: string): void
  /** An error that the command goes on after, or ends with. */
  complain(message: string): void
  /** A summary for a person, on standard error so that standard output stays data. */
  note(message: string): void
}

/** `program` stands before warnings and errors. */
export function createMessages(program: string): Messages {
  const say = (line: string): void => {
    process.stderr.write(`${line}\n`)
  }
  return {
    warn: (message) => say(`${program}: warning: ${printable(message)}`),
    complain: (message) => say(`${program}: ${printable(message)}`),
    note: (message) => say(printable(message)),
  }
}
