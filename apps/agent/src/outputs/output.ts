/** Output: somewhere that alerts go to. */
import type { AlertBatch } from '../spool/alert-log.js'

export interface Output {
  readonly name: string
  /** Where to, for messages: without anything secret. */
  readonly target: string
  /** Alerts that it takes at a time, at most; some hundreds where it does not say. */
  readonly batch?: number
  /** Resolves when all are delivered. When it rejects none may count as delivered, and all come again. */
  deliver(batch: AlertBatch, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}
