/**
 * Space: where the columns of a flow table come from: the heap, or the one memory of a packet pass (packet-pass.ts).
 *
 * Columns are zero at first.
 */
import { type ColumnSource, HEAP_COLUMNS } from '@oddflow/capture'

export interface Space extends ColumnSource {
  int32(count: number): Int32Array
}

export const HEAP: Space = { ...HEAP_COLUMNS, int32: (count) => new Int32Array(count) }

/** Every column of a buffer begins at a multiple of it. */
const COLUMN_ALIGNMENT_BYTES = 64

/** Columns one behind the other in a buffer that is large enough; nothing is given back. */
export function spaceIn(buffer: ArrayBuffer): Space {
  let used = 0
  const take = (bytes: number): number => {
    const at = used
    used += COLUMN_ALIGNMENT_BYTES * Math.ceil(bytes / COLUMN_ALIGNMENT_BYTES)
    return at
  }
  return {
    uint8: (count) => new Uint8Array(buffer, take(count), count),
    uint16: (count) => new Uint16Array(buffer, take(2 * count), count),
    int32: (count) => new Int32Array(buffer, take(4 * count), count),
    uint32: (count) => new Uint32Array(buffer, take(4 * count), count),
    float64: (count) => new Float64Array(buffer, take(8 * count), count),
  }
}
