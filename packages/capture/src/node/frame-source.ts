/** A capture being read: batches to iterate once, and the end state afterwards. */
import type { CaptureEnd } from '../capture-end.js'
import type { FrameBatch } from '../frame-batch.js'

export interface FrameSource<End extends CaptureEnd = CaptureEnd> extends AsyncIterable<FrameBatch> {
  /** null until the iteration has run to its end. */
  readonly end: End | null
}

/**
 * Wraps a generator whose return value is the end state. No generator of its own: each that a batch passes through
 * costs a few turns of the queue of promises.
 */
export function frameSource<End extends CaptureEnd>(
  batches: AsyncGenerator<FrameBatch, End>,
): FrameSource<End> {
  let end: End | null = null
  const taken = (step: IteratorResult<FrameBatch, End>): IteratorResult<FrameBatch, undefined> => {
    if (step.done !== true) return step
    // a generator that is asked again, or left early, has nothing to say
    end = step.value ?? end
    return { done: true, value: undefined }
  }
  return {
    get end() {
      return end
    },
    [Symbol.asyncIterator]: () => ({
      next: () => batches.next().then(taken),
      return: async () => {
        await batches.return(undefined as unknown as End)
        return { done: true, value: undefined }
      },
    }),
  }
}
