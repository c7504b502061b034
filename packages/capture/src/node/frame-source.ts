/** A capture being read: batches to iterate once, and the end state afterwards. */
import type { CaptureEnd } from '../capture-end.js'
import type { FrameBatch } from '../frame-batch.js'

export interface FrameSource extends AsyncIterable<FrameBatch> {
  /** null until the iteration has run to its end. */
  readonly end: CaptureEnd | null
}

/** Wraps a generator whose return value is the end state. */
export function frameSource(batches: AsyncGenerator<FrameBatch, CaptureEnd>): FrameSource {
  let end: CaptureEnd | null = null
  return {
    get end() {
      return end
    },
    async *[Symbol.asyncIterator]() {
      end = yield* batches
    },
  }
}
