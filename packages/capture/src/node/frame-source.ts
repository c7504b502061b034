/** A capture being read: batches to iterate once, and the end state afterwards. */
import type { CaptureEnd } from '../capture-end.js'
import type { FrameBatch } from '../frame-batch.js'

export interface FrameSource<End extends CaptureEnd = CaptureEnd> extends AsyncIterable<FrameBatch> {
  /** null until the iteration has run to its end. */
  readonly end: End | null
}

/** Wraps a generator whose return value is the end state. */
export function frameSource<End extends CaptureEnd>(
  batches: AsyncGenerator<FrameBatch, End>,
): FrameSource<End> {
  let end: End | null = null
  return {
    get end() {
      return end
    },
    async *[Symbol.asyncIterator]() {
      end = yield* batches
    },
  }
}
