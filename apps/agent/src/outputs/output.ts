/** Output: somewhere that alerts go to. */
import type { AlertBatch } from '../spool/alert-log.js'

export interface Output {
  readonly name: string
  /** Resolves when all are delivered. When it rejects none may count as delivered, and all come again. */
  deliver(batch: AlertBatch, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}
