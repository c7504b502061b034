/**
 * openReplay: a capture file as if it were recorded now (replay-frames.ts), on this machine's clock.
 */
import { performance } from 'node:perf_hooks'
import { setTimeout as sleepMillis } from 'node:timers/promises'
import type { CaptureEnd } from '../capture-end.js'
import type { FrameBatch } from '../frame-batch.js'
import { type ReplayClock, type ReplayOptions, replayFrames } from '../replay-frames.js'
import { type FrameSource, frameSource } from './frame-source.js'
import { type OpenCaptureOptions, openCapture } from './open-capture.js'

/** Longest single sleep: Node's timers hold 24 days at most. */
const LONGEST_SLEEP_MILLIS = 3_600_000

export const MACHINE_CLOCK: ReplayClock = {
  nowMicros: () => 1000 * performance.now(),
  async sleep(micros, signal) {
    const millis = Math.min(micros / 1000, LONGEST_SLEEP_MILLIS)
    await sleepMillis(millis, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  },
}

export interface OpenReplayOptions extends OpenCaptureOptions, ReplayOptions {
  /** This machine's, where it is left out. */
  readonly clock?: ReplayClock
}

/**
 * @param file as for openCapture.
 * The end state is that of the capture; null where the replay was ended by its signal. Errors as openCapture.
 */
export function openReplay(file: string, options: OpenReplayOptions = {}): FrameSource {
  const source = openCapture(file, options)
  const frames = replayFrames(source, options.clock ?? MACHINE_CLOCK, options)
  return frameSource(withEnd(frames, source))
}

async function* withEnd(
  frames: AsyncGenerator<FrameBatch, void>,
  source: FrameSource,
): AsyncGenerator<FrameBatch, CaptureEnd> {
  yield* frames
  return source.end!
}
