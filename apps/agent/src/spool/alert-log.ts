/**
 * AlertLog: alerts in one order, between what raises them and the outputs that carry them on.
 *
 * Each output reads at its own pace and says how far it has got; one that is down for an hour holds up no
 * other. A log is bounded in bytes: when it is full its oldest alerts go, and each output that had not
 * delivered them yet counts exactly how many it lost. One order for all is also the order of every device.
 *
 * Two kinds: in memory (memory-log.ts) and on disk (spool.ts).
 */
import type { Bell } from './bell.js'

export interface AlertBatch {
  /** Sequence number of the first line. */
  readonly first: number
  /** Each is one JSON text without a line feed. */
  readonly lines: readonly Uint8Array[]
}

export interface AlertReader {
  readonly name: string
  /** Alerts from the last commit on, at most so many; none where there is nothing new. Again gives the same. */
  read(limit: number): Promise<AlertBatch>
  /**
   * Everything before `next` is delivered and is not read again (on disk: after a restart either). Rejects with FileError where
   * the place could not be written; the same call again tries it again.
   */
  commit(next: number): Promise<void>
  /** Alerts that went for want of room, or were damaged on disk, before this output had delivered them (on disk: in
   * earlier runs too). */
  readonly dropped: number
  /** Alerts that wait for this output. */
  readonly backlog: number
  /** Bytes of alerts that are held in memory for this output. */
  readonly memoryBytes: number
}

export interface AlertLog {
  /** False where there is no room: the alert is not taken, and is counted in `refused`. */
  append(line: Uint8Array): boolean
  /** An output's place. Asked for once for each name, before the first append. */
  reader(name: string): Promise<AlertReader>
  /** Rings when there is more to read. */
  readonly acknowledgement: Bell
  /** Alerts acknowledged in this run. */
  readonly acknowledged: number
  /** Alerts not taken. */
  readonly refused: number
  /** Alerts that are appended and not acknowledged yet. */
  readonly pending: number
  /** Bytes of those. */
  readonly pendingBytes: number
  /** Alerts that were appended and never acknowledged: what was pending when the log was closed. */
  readonly lost: number
  /** What keeps alerts from being acknowledged; null where nothing does. */
  readonly trouble: Error | null
  close(): Promise<void>
}

/** Resolves when nothing is pending, or the signal is aborted. */
export async function acknowledgedAll(log: AlertLog, signal: AbortSignal): Promise<void> {
  while (log.pending > 0 && !signal.aborted) {
    await log.acknowledgement.wait(log.acknowledgement.rings, signal)
  }
}
