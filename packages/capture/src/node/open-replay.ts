/**
 * openReplay: a capture file as if it were recorded now (replay-frames.ts), on this machine's clock.
 */
import type { CaptureEnd } from '../capture-notes.js'
import type { FrameBatch } from '../packet-batch.js'
import { type ReplayClock, type ReplayOptions, replayFrames } from '../replay-frames.js'
import { type FrameSource, frameSource } from './frame-source.js'
import { MACHINE_CLOCK } from './machine-clock.js'
import { type OpenCaptureOptions, openCapture } from './open-capture.js'

/** Options of `openReplay`. */
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
