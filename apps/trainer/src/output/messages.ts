/** Warnings: one line each on standard error, with control characters shown. */
import { printable } from './stdout.js'

export function warn(message: string): void {
  process.stderr.write(`oddflow: warning: ${printable(message)}\n`)
}

/** A summary for a person, on standard error so that standard output stays data. */
export function note(message: string): void {
  process.stderr.write(`${printable(message)}\n`)
}
