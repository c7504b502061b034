/**
 * The paper's protocol as pools allow it. A pool with fewer than 375 novel rows (the paper's DWSHR has 335) leaves fewer
 * than 75 to validate on, and those are taken. n = 5,000 unless the manifest or the command line states another number.
 */
import { PAPER_PROTOCOL, type ProtocolCounts } from '@oddflow/evaluation'
import type { CapturesManifest } from './manifest.js'

export interface PoolSizes {
  readonly normal: number
  readonly novel: number
}

/** n. `stated`: on the command line. */
export function trainRowsOf(manifest: CapturesManifest, stated?: number): number {
  return stated ?? manifest.trainRows ?? PAPER_PROTOCOL.train
}

export function countsFor(pool: PoolSizes, trainRows: number): ProtocolCounts {
  const { test, validation } = PAPER_PROTOCOL
  const novel = Math.min(validation.novel, Math.max(0, pool.novel - test.novel))
  return { ...PAPER_PROTOCOL, train: trainRows, validation: { ...validation, novel } }
}

/** What the pools lack of the protocol, by how much, and what may be done; null when they will do. */
export function whatIsMissing(pool: PoolSizes, trainRows: number): string | null {
  const { test, validation } = PAPER_PROTOCOL
  const kept = test.normal + validation.normal
  if (pool.normal < kept + trainRows) {
    const few = pool.normal - kept
    const lack = `too few normal rows: the protocol needs ${kept + trainRows} (${trainRows} to train on, ${test.normal} + ${validation.normal}), found ${pool.normal}, ${kept + trainRows - pool.normal} too few`
    return few < 1 ? lack : `${lack}; to train on fewer: --train-rows ${few}, or trainRows in the manifest`
  }
  if (pool.novel > test.novel) return null
  return `too few novel rows: the protocol needs more than ${test.novel}, found ${pool.novel}, ${test.novel + 1 - pool.novel} too few`
}
