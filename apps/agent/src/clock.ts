/**
 * Clock: time and waiting, passed in, so that tests can let an hour pass in no time and make clocks jump.
 *
 * Three times are kept apart: `wallMicros` is what packets are stamped with and may jump; `monotonicMillis`
 * never runs backwards, and every waiting is measured by it; `bootMillis` does neither and runs on while the machine is suspended.
 */
import { uptime } from 'node:os'

export interface Clock {
  /** Microseconds since 1970. */
  wallMicros(): number
  /** Milliseconds since some moment; never less than before. */
  monotonicMillis(): number
  /** Milliseconds since the machine was started, to about ten; those in which it was suspended count. */
  bootMillis(): number
  /** Resolves after so long, or at once when `signal` is aborted. Never rejects. */
  sleep(millis: number, signal?: AbortSignal): Promise<void>
  /** Calls `work` again and again; returns what stops it. */
  every(millis: number, work: () => void): () => void
}

/** Waiting takes `scale` of its time: what gives up, tries again or ticks does so sooner. Times stay what they are. */
export const createSystemClock = (scale = 1): Clock => ({
  wallMicros: () => Date.now() * 1000,
  monotonicMillis: () => performance.now(),
  bootMillis: () => 1000 * uptime(),
  sleep: (millis, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) {
        resolve()
        return
      }
      const done = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, millis * scale)
      signal?.addEventListener('abort', done)
    }),
  every: (millis, work) => {
    const timer = setInterval(work, millis * scale)
    return () => clearInterval(timer)
  },
})

export const systemClock = createSystemClock()
