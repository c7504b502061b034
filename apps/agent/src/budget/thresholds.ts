/**
 * Thresholds: which score is novel. The model's own for every flow, or an alert budget's.
 */
import type { Threshold } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import type { BudgetReport } from './alert-budget.js'

/** The conformal p-value of a score, or a bound on it. */
export interface Rarity {
  /** At most this share of normal flows has a score as low. */
  readonly atMost: number
  /** Normal flows that say so. */
  readonly flows: number
}

export interface Thresholds {
  /** The threshold for a record with this score, which is novel iff it is not above it. Each record once. */
  judge(record: FlowRecord, score: number): number
  /** How rare a score is that is not above its threshold. */
  rarity(score: number): Rarity
  /** A flow of one packet was found new; no threshold decides on those. */
  noteOnePacketNovel(): void
  /** The packets' clock is at this time. */
  advance(nowMicros: number): void
  /** null where there is no budget. */
  report(): BudgetReport | null
  /** Keeps what is to be kept. */
  close(): Promise<void>
}

export function modelThresholds(threshold: Threshold): Thresholds {
  const rarity = modelRarity(threshold)
  return {
    judge: () => threshold.value,
    rarity: () => rarity,
    noteOnePacketNovel() {},
    advance() {},
    report: () => null,
    async close() {},
  }
}

/** Of an agent whose models each bring their own: nothing here decides. */
export const ownThresholds: Thresholds = {
  judge: () => Number.NaN,
  rarity: () => ({ atMost: 1, flows: 0 }),
  noteOnePacketNovel() {},
  advance() {},
  report: () => null,
  async close() {},
}

/** Of a model no more is kept than the threshold, so all that is not above it is as rare as that. */
export function modelRarity({ calibration: { bound, rows } }: Threshold): Rarity {
  return { atMost: bound, flows: rows }
}
