/**
 * extractorMemory: how a number of bytes is shared out between open flows and the entries of their rows.
 *
 * A flow needs its columns and, while its row is not complete, chunks of entries: one for a short flow, more
 * for a longer one. Two chunks a flow, and enough beside them for the longest row that the contract allows, so
 * that ending other flows always makes room for it. Both have their full length from the start: nothing is
 * copied while traffic grows, so the bytes are a bound at every moment, and what was never used takes no
 * memory. (The slots of the hash table alone grow; they are counted with those they replace.)
 */
import type { RowMaker } from './feature-sets/row-maker.js'
import { trackerBytes } from './flow-tracker.js'
import { CUTTER_BYTES_PER_FLOW, cutterPoolBytes } from './record-cutter.js'

const CHUNKS_PER_FLOW = 2
/** The smallest table. */
const MINIMUM_FLOWS = 64
const MAXIMUM_FLOWS = 16_777_216

export interface ExtractorMemory {
  readonly flows: number
  readonly chunks: number
  readonly bytes: number
}

/** The most flows that fit into `memoryBytes`; fewer than MINIMUM_FLOWS never, then `bytes` is more. */
export function extractorMemory(maker: RowMaker, memoryBytes: number): ExtractorMemory {
  let low = MINIMUM_FLOWS
  let high = MAXIMUM_FLOWS
  while (low < high) {
    const middle = (low + high + 1) >>> 1
    if (bytesOf(maker, middle) <= memoryBytes) low = middle
    else high = middle - 1
  }
  return { flows: low, chunks: CHUNKS_PER_FLOW * low, bytes: bytesOf(maker, low) }
}

function bytesOf(maker: RowMaker, flows: number): number {
  return trackerBytes(flows, CUTTER_BYTES_PER_FLOW) + cutterPoolBytes(maker, CHUNKS_PER_FLOW * flows)
}
