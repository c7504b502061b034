/**
 * extractorMemory: how a number of bytes is shared out between open flows and the entries of their rows.
 *
 * A flow needs its columns and, while its row is not complete, chunks of entries, if its row is made of entries: one for a short flow, more
 * for a longer one. Half as many chunks a flow as its longest record takes, but from two to eight, and enough
 * beside them for one longest record, so that ending other flows always makes room for it. Both have their full length from the start: nothing is
 * copied while traffic grows, so the bytes are a bound at every moment, and what was never used takes no
 * memory. (The slots of the hash table alone grow; they are counted with those they replace.)
 */

import { cutterBytesPerFlow, cutterPoolBytes, longestRecordChunks } from './cutter-memory.js'
import type { RowMaker } from './feature-sets/row-maker.js'
import { trackerBytes } from './flow-tracker.js'

const MINIMUM_CHUNKS_PER_FLOW = 2
const MAXIMUM_CHUNKS_PER_FLOW = 8
/** The smallest table. */
const MINIMUM_FLOWS = 64
const MAXIMUM_FLOWS = 16_777_216
/** One part in so many is left for what code, batch and buffers take beside the columns. */
const BESIDE_COLUMNS = 32

export interface ExtractorMemory {
  readonly flows: number
  readonly chunks: number
  readonly bytes: number
}

/** The most flows that fit into `memoryBytes`; fewer than MINIMUM_FLOWS never, then `bytes` is more. */
export function extractorMemory(maker: RowMaker, memoryBytes: number, endOnClose: boolean): ExtractorMemory {
  const columnBytes = memoryBytes - memoryBytes / BESIDE_COLUMNS
  let low = MINIMUM_FLOWS
  let high = MAXIMUM_FLOWS
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (bytesOf(maker, middle, endOnClose) <= columnBytes) low = middle
    else high = middle - 1
  }
  return { flows: low, chunks: chunksPerFlow(maker) * low, bytes: bytesOf(maker, low, endOnClose) }
}

function bytesOf(maker: RowMaker, flows: number, endOnClose: boolean): number {
  const columns = trackerBytes(flows, cutterBytesPerFlow(maker), endOnClose)
  return columns + cutterPoolBytes(maker, chunksPerFlow(maker) * flows)
}

function chunksPerFlow(maker: RowMaker): number {
  if (maker.maximumEntries === 0) return 0
  const half = Math.ceil(longestRecordChunks(maker) / 2)
  return Math.max(MINIMUM_CHUNKS_PER_FLOW, Math.min(MAXIMUM_CHUNKS_PER_FLOW, half))
}
