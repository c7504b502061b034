/**
 * AlertLog: alerts in one order, between the detection and the outputs. In memory, or on disk (spool.ts).
 * Each output reads at its own pace. A full log drops its oldest alerts; each output counts those that it had not delivered.
 */
import { ReaderCursor } from './segments.js'
import { Notifier } from './spool-reader.js'

/** The alert log of an agent without a state folder: an alert is acknowledged as it is appended, and lost with the process. */
export function createMemoryLog({ maximumBytes }: { readonly maximumBytes: number }): AlertLog {
  return new MemoryLog(maximumBytes)
}

class MemoryLog implements AlertLog {
  readonly acknowledgement = new Notifier()
  readonly refused = 0
  readonly pending = 0
  readonly pendingBytes = 0
  readonly lost = 0
  readonly lastError = null
  acknowledged = 0
  readonly #maximumBytes: number
  readonly #cursors: ReaderCursor[] = []
  readonly #lines: Uint8Array[] = []
  /** For each of `lines`: bytes of all alerts up to its end, from the first one ever. */
  readonly #ends: number[] = []
  /** Sequence number of the first line. */
  #first = 0
  #bytes = 0
  #everBytes = 0

  constructor(maximumBytes: number) {
    this.#maximumBytes = maximumBytes
  }

  append(line: Uint8Array): boolean {
    this.#lines.push(line)
    this.#bytes += line.length
    this.#everBytes += line.length
    this.#ends.push(this.#everBytes)
    this.acknowledged++
    this.#makeRoom()
    this.acknowledgement.notify()
    return true
  }

  async reader(name: string): Promise<AlertReader> {
    const cursor = new ReaderCursor(this.#first)
    this.#cursors.push(cursor)
    const backlog = (): number => cursor.backlog(this.#first + this.#lines.length)
    const memoryBytes = (): number => {
      const at = cursor.committed - this.#first
      return at <= 0 ? this.#bytes : this.#everBytes - this.#ends[at - 1]
    }
    return {
      name,
      read: async (limit) => {
        if (cursor.hand !== null) return cursor.hand
        const from = cursor.next - this.#first
        return cursor.take({ first: cursor.next, lines: this.#lines.slice(from, from + limit) })
      },
      commit: async (next) => {
        cursor.commit(next)
        this.#forgetBefore(Math.min(...this.#cursors.map((other) => other.next)))
      },
      get dropped() {
        return cursor.dropped
      },
      get backlog() {
        return backlog()
      },
      get memoryBytes() {
        return memoryBytes()
      },
    }
  }

  async close(): Promise<void> {}

  #forgetBefore(next: number): void {
    const gone = this.#lines.splice(0, next - this.#first)
    this.#ends.splice(0, gone.length)
    for (const line of gone) this.#bytes -= line.length
    this.#first += gone.length
  }

  #makeRoom(): void {
    let next = this.#first
    const last = this.#first + this.#lines.length - 1
    for (let left = this.#bytes; left > this.#maximumBytes && next < last; next++)
      left -= this.#lines[next - this.#first].length
    if (next === this.#first) return
    for (const cursor of this.#cursors) cursor.forget(next)
    this.#forgetBefore(next)
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
