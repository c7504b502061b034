/**
 * FrameRate: how fast frames came, by their own time stamps, over the last SPAN_SECONDS to twice as many.
 *
 * A single batch says little: a recorder hands over a thousand frames that lay together in a burst of a few milliseconds, and such
 * a burst is no flood. The pause before a batch belongs to it. There is no rate before SPAN_SECONDS of frames have been
 * seen, and time never runs backwards.
 */
const SPAN_SECONDS = 0.04

export interface FrameRate {
  /** @returns frames a second; 0 where too little was seen. */
  note(frames: number, newestSeconds: number): number
}

export function createFrameRate(): FrameRate {
  let earlier = { frames: 0, seconds: 0 }
  let current = { frames: 0, seconds: 0 }
  let newest = Number.NaN
  return {
    note(frames, newestSeconds) {
      const passed = newestSeconds - newest
      newest = newestSeconds
      if (!(passed >= 0)) return 0
      if (current.seconds >= SPAN_SECONDS) {
        earlier = current
        current = { frames: 0, seconds: 0 }
      }
      current.frames += frames
      current.seconds += passed
      const seconds = earlier.seconds + current.seconds
      return seconds < SPAN_SECONDS ? 0 : (earlier.frames + current.frames) / seconds
    },
  }
}
