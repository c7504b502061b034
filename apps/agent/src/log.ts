/** Messages: one line each on standard error, with control characters shown. A journal adds the time. */
import { printable } from '@oddflow/program'

export interface Log {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

export const standardErrorLog: Log = {
  info: (message) => write(message),
  warn: (message) => write(`warning: ${message}`),
  error: (message) => write(message),
}

function write(message: string): void {
  process.stderr.write(`oddflow-agent: ${printable(message)}\n`)
}
