/**
 * FrameBatch: what a capture reader hands on, many frames at a time, as parallel arrays.
 *
 * An object per packet costs ten times what the bytes cost, so a reader fills these arrays and the frames'
 * bytes stay where they were read. Everything in a batch is borrowed: it is valid until the reader is asked
 * for the next one.
 */
export interface FrameBatch {
  /** Frames in this batch; the arrays may be longer. */
  count: number
  /** Number of the batch's first frame in its input, from 0. */
  firstFrame: number
  /** The block that holds the frames' bytes. */
  data: Uint8Array
  /** Where frame i begins in `data`. */
  readonly offset: Uint32Array
  /** Bytes of frame i that the capture holds. */
  readonly capturedBytes: Uint32Array
  /** Bytes that frame i had on the wire. */
  readonly wireBytes: Uint32Array
  /**
   * Whole microseconds since 1970, rounded down; NaN where the record has no time (pcapng SPB) or one that is
   * not within ±(2^53 − 1) µs.
   */
  readonly timestampMicros: Float64Array
  /** What lies below the microsecond, 0 … 999 ns. */
  readonly timestampSubNanos: Uint16Array
  /** LINKTYPE_ value of tcpdump.org for frame i. */
  readonly linkType: Uint16Array
}

export function createFrameBatch(capacity: number): FrameBatch {
  return {
    count: 0,
    firstFrame: 0,
    data: new Uint8Array(0),
    offset: new Uint32Array(capacity),
    capturedBytes: new Uint32Array(capacity),
    wireBytes: new Uint32Array(capacity),
    timestampMicros: new Float64Array(capacity),
    timestampSubNanos: new Uint16Array(capacity),
    linkType: new Uint16Array(capacity),
  }
}
