/**
 * Thresholds: which score is novel. The model's own for every flow, or an alert budget's.
 */
import type { SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { type Rarity, scoreRarity } from '@oddflow/program'
import type { BudgetReport } from './alert-budget.js'

export interface Thresholds {
  /** The threshold for a record with this score, which is novel iff it is not above it. Each record once. */
  judge(record: FlowRecord, score: number): number
  /** The threshold that `judge` would give now for records of a device, by its key; counts nothing. */
  of(device: string): number
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

export function modelThresholds(saved: Pick<SavedModel, 'threshold' | 'groups'>): Thresholds {
  return {
    judge: () => saved.threshold.value,
    of: () => saved.threshold.value,
    rarity: (score) => scoreRarity(saved, score),
    noteOnePacketNovel() {},
    advance() {},
    report: () => null,
    async close() {},
  }
}

/** Of an agent whose models each bring their own: nothing here decides. */
export const ownThresholds: Thresholds = {
  judge: () => Number.NaN,
  of: () => Number.NaN,
  rarity: () => ({ atMost: 1, flows: 0 }),
  noteOnePacketNovel() {},
  advance() {},
  report: () => null,
  async close() {},
}
