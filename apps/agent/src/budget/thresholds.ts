/**
 * Thresholds: which score is novel. The model's own for every flow, or an alert budget's.
 */
import type { FlowRecord } from '@oddflow/flows'
import type { BudgetReport } from './alert-budget.js'

export interface Thresholds {
  /** The threshold for a record with this score, which is novel iff it is not above it. Each record once. */
  judge(record: FlowRecord, score: number): number
  /** A flow of one packet was found new; no threshold decides on those. */
  noteOnePacketNovel(): void
  /** The packets' clock is at this time. */
  advance(nowMicros: number): void
  /** null where there is no budget. */
  report(): BudgetReport | null
  /** Keeps what is to be kept. */
  close(): Promise<void>
}

export function modelThresholds(value: number): Thresholds {
  return {
    judge: () => value,
    noteOnePacketNovel() {},
    advance() {},
    report: () => null,
    async close() {},
  }
}
