/** Frames from the input to whoever works on them, until it ends or the agent is to stop. */
import type { FrameBatch } from '@oddflow/capture'
import type { Settings } from '../settings.js'
import { ABORTED, orAborted, withinMillis } from './abortable.js'
import type { AgentEnvironment } from './environment.js'
import { type FrameInput, recordedInput } from './frame-input.js'
import { liveInput } from './live-input.js'

/** What the recorder has still to hand over when the agent is to stop. */
const DRAIN_MILLIS = 300

export function openInput(settings: Settings, { clock, log }: AgentEnvironment): FrameInput {
  const { input } = settings
  return input.kind === 'recorded' ? recordedInput(input.path) : liveInput({ ...input, clock, log })
}

/**
 * Parts of a batch, each of at most so much time, and the first frame after a longer silence by itself: what is due by then
 * can be done before the next. Borrowed as the batch is.
 */
export function* partsByTime(frames: FrameBatch, micros: number): Iterable<FrameBatch> {
  const { count, timestampMicros } = frames
  let from = 0
  let isAfterSilence = false
  for (let i = 1; i <= count; i++) {
    const isSilence = i < count && timestampMicros[i] - timestampMicros[i - 1] >= micros
    const isOver = i < count && timestampMicros[i] - timestampMicros[from] >= micros
    if (i < count && !isSilence && !isOver && !isAfterSilence) continue
    isAfterSilence = isSilence
    yield from === 0 && i === count ? frames : partOf(frames, from, i)
    from = i
  }
}

function partOf(frames: FrameBatch, from: number, to: number): FrameBatch {
  return {
    count: to - from,
    firstFrame: frames.firstFrame + from,
    data: frames.data,
    offset: frames.offset.subarray(from, to),
    capturedBytes: frames.capturedBytes.subarray(from, to),
    wireBytes: frames.wireBytes.subarray(from, to),
    timestampMicros: frames.timestampMicros.subarray(from, to),
    timestampSubNanos: frames.timestampSubNanos.subarray(from, to),
    linkType: frames.linkType.subarray(from, to),
  }
}

/** Reads until the input ends or the signal comes; what an interface has given by then is still taken. */
export async function readFrames(
  input: FrameInput,
  { clock, stop }: AgentEnvironment,
  onFrames: (frames: FrameBatch) => Promise<void>,
): Promise<void> {
  const iterator = input.frames[Symbol.asyncIterator]()
  let next = iterator.next()
  const takeUntil = async (signal: AbortSignal): Promise<boolean> => {
    for (;;) {
      const result = await orAborted(next, signal)
      if (result === ABORTED) return false
      if (result.done === true) return true
      await onFrames(result.value)
      next = iterator.next()
    }
  }
  if (await takeUntil(stop)) return
  // what comes of it later is nobody's concern
  next.catch(() => undefined)
  input.stop()
  if (input.drains) await withinMillis(clock, DRAIN_MILLIS, null, takeUntil)
}
