/**
 * Messages: one line each on standard error, with control characters shown.
 *
 * A journal adds the time, and takes a line's priority from its prefix (sd-daemon(3)): `<3>` error, `<4>` warning,
 * `<6>` information. Only a journal gets it: systemd names the device and inode of the journal's own stream.
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

/** @param stream - "DEVICE:INODE", as systemd sets it; standard error may go elsewhere by now. */
function goesToJournal(stream: string | undefined): boolean {
  if (stream === undefined) return false
  try {
    const { dev, ino } = fstatSync(STANDARD_ERROR, { bigint: true })
    return stream === `${dev}:${ino}`
  } catch {
    return false
  }
}
