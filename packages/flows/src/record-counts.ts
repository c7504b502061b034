/**
 * RecordCounts: records by what became of them. records = rows + the other four kinds, exactly.
 */
import type { FlowRecord } from './flow-record.js'

export interface RecordCounts {
  records: number
  rows: number
  onePacketFlows: number
  shortRecords: number
  remainders: number
  remainderPackets: number
  lastPieces: number
}

export function createRecordCounts(): RecordCounts {
  return {
    records: 0,
    rows: 0,
    onePacketFlows: 0,
    shortRecords: 0,
    remainders: 0,
    remainderPackets: 0,
    lastPieces: 0,
  }
}

/** Counts a record that has ended. */
export function countRecord(counts: RecordCounts, record: FlowRecord): void {
  counts.records++
  switch (record.noRowReason) {
    case null:
      counts.rows++
      return
    case 'one-packet':
      counts.onePacketFlows++
      return
    case 'too-few-packets':
      counts.shortRecords++
      return
    case 'remainder':
      counts.remainders++
      counts.remainderPackets += record.packets
      return
    case 'last-piece':
      counts.lastPieces++
      return
  }
}
