/** CutRule: where a contract cuts a flow into records, and which records have no row. */
import type { FlowRecord, NoRowReason } from './flow-record.js'

/** How a contract cuts; durationMicros may be Infinity here. */
export interface CutRule {
  /** Whether a new record begins after durationMicros, or the row leaves out the rest. */
  readonly split: boolean
  readonly durationMicros: number
  readonly activeTimeoutMicros: number | null
  readonly minimumPackets: number
}

/**
 * Why a record, other than a last piece, has no row; null if it has one. @param goesOn the flow continues in another
 * record
 */
export function noRowReason(record: FlowRecord, minimumPackets: number, goesOn: boolean): NoRowReason | null {
  if (record.rowPackets >= minimumPackets) return null
  if (goesOn) return 'too-few-packets'
  if (record.pieceIndex > 0 && record.packets < minimumPackets) return 'remainder'
  return record.packets === 1 ? 'one-packet' : 'too-few-packets'
}
