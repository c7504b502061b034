/**
 * Aggregates of 802.11 (A-MSDU): one frame that holds several packets, given as several frames.
 *
 * The first subframe stays with its frame, radio header and all. Each of the others is a frame as Ethernet has them
 * (two addresses, a length, LLC), and is given as one of LINKTYPE_ETHERNET with the time of the whole, where it lies.
 */
import { createFrameBatch, type FrameBatch } from './frame-batch.js'
import { aggregateAt } from './radio-headers.js'

const LINKTYPE_ETHERNET = 1
const SUBFRAME_HEADER_BYTES = 14

export interface AggregateSplitter {
  /** The batch, or the first part of it where it holds aggregates. */
  split(batch: FrameBatch): FrameBatch
  /** The next part; null where there is none. */
  next(): FrameBatch | null
}

export function createAggregateSplitter(capacity: number): AggregateSplitter {
  let out: FrameBatch | null = null
  let source: FrameBatch | null = null
  /** The next frame of the source, and where the next subframe of the one before it begins; 0 for none. */
  let frame = 0
  let subframe = 0

  const copy = (from: FrameBatch, i: number, to: FrameBatch): number => {
    const n = to.count++
    to.offset[n] = from.offset[i]!
    to.capturedBytes[n] = from.capturedBytes[i]!
    to.wireBytes[n] = from.wireBytes[i]!
    to.timestampMicros[n] = from.timestampMicros[i]!
    to.timestampSubNanos[n] = from.timestampSubNanos[i]!
    to.linkType[n] = from.linkType[i]!
    return n
  }

  const next = (): FrameBatch | null => {
    if (source === null) return null
    const from = source
    out ??= createFrameBatch(capacity)
    out.count = 0
    out.data = from.data
    while (out.count < capacity) {
      if (subframe > 0) {
        const of = frame - 1
        const end = from.offset[of]! + from.capturedBytes[of]!
        const n = copy(from, of, out)
        const bytes = subframeBytes(from.data, subframe)
        out.offset[n] = subframe
        out.capturedBytes[n] = Math.min(bytes, end - subframe)
        out.wireBytes[n] = bytes
        out.linkType[n] = LINKTYPE_ETHERNET
        subframe = behind(from.data, subframe, end)
      } else if (frame < from.count) {
        copy(from, frame, out)
        const at = from.offset[frame]!
        const end = at + from.capturedBytes[frame]!
        const first = aggregateAt(from.linkType[frame]!, from.data, at, end)
        if (first >= 0) subframe = behind(from.data, first, end)
        frame++
      } else {
        source = null
        break
      }
    }
    return out.count > 0 ? out : null
  }

  return {
    split(batch) {
      if (!holdsSeveral(batch)) return batch
      source = batch
      frame = 0
      subframe = 0
      return next()!
    },
    next,
  }
}

function holdsSeveral({ count, linkType, data, offset, capturedBytes }: FrameBatch): boolean {
  for (let i = 0; i < count; i++) {
    if (linkType[i] === LINKTYPE_ETHERNET) continue
    const at = offset[i]!
    const end = at + capturedBytes[i]!
    const first = aggregateAt(linkType[i]!, data, at, end)
    if (first >= 0 && behind(data, first, end) > 0) return true
  }
  return false
}

function subframeBytes(data: Uint8Array, at: number): number {
  return SUBFRAME_HEADER_BYTES + ((data[at + 12]! << 8) | data[at + 13]!)
}

/** Where the subframe behind the one at `at` begins, each at a multiple of four from the first; 0 where there is none. */
function behind(data: Uint8Array, at: number, end: number): number {
  const next = at + ((subframeBytes(data, at) + 3) & ~3)
  return end - next < SUBFRAME_HEADER_BYTES || subframeBytes(data, next) === SUBFRAME_HEADER_BYTES ? 0 : next
}
