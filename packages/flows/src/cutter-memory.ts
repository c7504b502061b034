/**
 * What a record cutter takes: a state for each flow, and chunks of entries, so many beside those of one whole row
 * that ending other flows always makes room for it.
 */
import { SUMS_STRIDE } from './feature-sets/flow-summary.js'
import type { RowMaker } from './feature-sets/row-maker.js'
import { ENTRIES_PER_CHUNK, type EntryLayout, packetPoolBytes } from './packet-pool.js'
import { STRIDE } from './record-state.js'

/** Bytes of a cutter for one flow. */
export function cutterBytesPerFlow(maker: RowMaker): number {
  return 8 * (STRIDE + (maker.keepsSums === true ? SUMS_STRIDE : 0))
}

/** Chunks that a cutter has beside those for one whole row, if not told how many. */
export const SPARE_CHUNKS = 64

/** Chunks that the longest record takes. */
export function longestRecordChunks(maker: Pick<RowMaker, 'maximumEntries'>): number {
  return Math.ceil(maker.maximumEntries / ENTRIES_PER_CHUNK)
}

/** Bytes of the pool of so many chunks beside those of one whole row. */
export function cutterPoolBytes(
  maker: EntryLayout & Pick<RowMaker, 'maximumEntries'>,
  chunks: number,
): number {
  return packetPoolBytes(maker, chunks + longestRecordChunks(maker))
}
