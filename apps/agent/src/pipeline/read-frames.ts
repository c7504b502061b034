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
