/**
 * Log messages: one line each on standard error, with control characters escaped.
 *
 * If standard error is the journal, each line has a prefix with its priority (sd-daemon(3)): `<3>` error, `<4>` warning, `<6>`
 * information. systemd sets JOURNAL_STREAM to the device and inode of the journal's stream.
 */
import { fstatSync } from 'node:fs'
import { printable } from '@oddflow/program'

export interface Log {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

const STANDARD_ERROR = 2
const isJournal = goesToJournal(process.env.JOURNAL_STREAM)

export const standardErrorLog: Log = {
  info: (message) => write(6, message),
  warn: (message) => write(4, `warning: ${message}`),
  error: (message) => write(3, message),
}

function write(priority: number, message: string): void {
  process.stderr.write(`${isJournal ? `<${priority}>` : ''}oddflow-agent: ${printable(message)}\n`)
}

/** @param stream - "DEVICE:INODE"; standard error may be redirected since. */
function goesToJournal(stream: string | undefined): boolean {
  if (stream === undefined) return false
  try {
    const { dev, ino } = fstatSync(STANDARD_ERROR, { bigint: true })
    return stream === `${dev}:${ino}`
  } catch {
    return false
  }
}
