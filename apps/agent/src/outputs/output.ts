/** Output: somewhere that alerts go to. */
import type { AlertBatch } from '../spool/alert-log.js'

/** The receiver is there and refuses what it was sent. The same alerts again would be refused again. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

export interface Output {
  readonly name: string
  /** Where to, for messages: without anything secret. */
  readonly target: string
  /** Alerts that it takes at a time, at most; some hundreds where it does not say. */
  readonly batch?: number
  /** Resolves when all are delivered. When it rejects none may count as delivered, and all come again. Rejects with RefusedError
   * where the receiver takes in other alerts, or fewer at a time, and not these. */
  deliver(batch: AlertBatch, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}
