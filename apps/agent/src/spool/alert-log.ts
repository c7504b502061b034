/**
 * AlertLog: alerts in one order, between the detection and the outputs. In memory, or on disk (spool.ts).
 * Each output reads at its own pace. A full log drops its oldest alerts; each output counts those that it had not delivered.
 */
import { bytesOf, ReaderCursor } from './segments.js'
import { Notifier } from './spool-reader.js'

/** The alert log of an agent without a state folder: an alert is acknowledged as it is appended, and lost with the process. */
export function createMemoryLog({ maximumBytes }: { readonly maximumBytes: number }): AlertLog {
  const acknowledgement = new Notifier()
  const cursors: ReaderCursor[] = []
  const lines: Uint8Array[] = []
  /** Sequence number of the first line. */
  let first = 0
  let bytes = 0
  const forgetBefore = (next: number): void => {
    const gone = lines.splice(0, next - first)
    bytes -= bytesOf(gone)
    first += gone.length
  }
  const makeRoom = (): void => {
    let next = first
    for (let left = bytes; left > maximumBytes && next < first + lines.length - 1; next++)
      left -= lines[next - first].length
    if (next === first) return
    for (const cursor of cursors) cursor.forget(next)
    forgetBefore(next)
  }
  return {
    acknowledgement,
    get acknowledged() {
      return first + lines.length
    },
    refused: 0,
    pending: 0,
    pendingBytes: 0,
    lost: 0,
    lastError: null,
    append(line) {
      lines.push(line)
      bytes += line.length
      makeRoom()
      acknowledgement.notify()
      return true
    },
    async reader(name) {
      const cursor = new ReaderCursor(first)
      cursors.push(cursor)
      return {
        name,
        read: async (limit) => {
          const from = cursor.next - first
          return cursor.hand ?? cursor.take({ first: cursor.next, lines: lines.slice(from, from + limit) })
        },
        commit: async (next) => {
          cursor.commit(next)
          forgetBefore(Math.min(...cursors.map((other) => other.next)))
        },
        get dropped() {
          return cursor.dropped
        },
        get backlog() {
          return cursor.backlog(first + lines.length)
        },
        get memoryBytes() {
          return bytesOf(lines.slice(Math.max(0, cursor.committed - first)))
        },
      }
    },
    close: async () => undefined,
  }
}

export interface AlertBatch {
  /** Sequence number of the first line. */
  readonly first: number
  /** Each is one JSON text without a line feed. */
  readonly lines: readonly Uint8Array[]
}

export interface AlertReader {
  readonly name: string
  /** At most this many alerts after the last commit; empty if there are none. Repeated calls give the same. */
  read(limit: number): Promise<AlertBatch>
  /** Everything before `next` is delivered. Rejects with FileError if the cursor cannot be written; call it again then. */
  commit(next: number): Promise<void>
  /** Alerts dropped from a full log, or damaged on disk, before this output delivered them; on disk in earlier runs too. */
  readonly dropped: number
  /** Alerts not delivered yet. */
  readonly backlog: number
  /** Bytes of alerts that are held in memory for this output. */
  readonly memoryBytes: number
}

export interface AlertLog {
  /** False if there is no room: the alert is counted in `refused`. */
  append(line: Uint8Array): boolean
  /** An output's cursor. Asked for once for each name, before the first append. */
  reader(name: string): Promise<AlertReader>
  /** Notified when there is more to read. */
  readonly acknowledgement: Notifier
  /** Alerts acknowledged in this run. */
  readonly acknowledged: number
  /** Alerts not taken. */
  readonly refused: number
  /** Alerts appended and not acknowledged. */
  readonly pending: number
  readonly pendingBytes: number
  /** Alerts that were pending when the log was closed. */
  readonly lost: number
  /** Why alerts are not acknowledged; null if they are. */
  readonly lastError: Error | null
  close(): Promise<void>
}

/** Resolves when nothing is pending, or the signal is aborted. */
export async function acknowledgedAll(log: AlertLog, signal: AbortSignal): Promise<void> {
  while (log.pending > 0 && !signal.aborted) {
    await log.acknowledgement.wait(log.acknowledgement.count, signal)
  }
}
