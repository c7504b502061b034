/** Messages: one line each on standard error, with control characters shown. */
import { printable } from '@oddflow/program'

export function warn(message: string): void {
  process.stderr.write(`oddflow: warning: ${printable(message)}\n`)
}

/** An error that the command goes on after, or ends with. */
export function complain(message: string): void {
  process.stderr.write(`oddflow: ${printable(message)}\n`)
}

/** A summary for a person, on standard error so that standard output stays data. */
export function note(message: string): void {
  process.stderr.write(`${printable(message)}\n`)
}
