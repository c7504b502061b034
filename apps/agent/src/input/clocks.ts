/**
 * CaptureClock: what time it is in the traffic, when no packet says so.
 *
 * Flows end and windows close by the packets' own time. Live traffic may fall silent, and a verdict must not
 * wait for the next packet: then the time is the latest packet's plus what has passed since it came. Of a
 * recording nothing follows from how long it takes to read. An interface is live; a file is not; a pipe is
 * live if its packets are stamped with about the present time when they come.
 *
 * Recorders deliver packets a little out of order, so the clock is kept a moment behind.
 */
import { uptime } from 'node:os'
import type { Device, DeviceState } from '../devices/device.js'

/**
 * ClockWatch: whether the machine's clock was set, the machine was suspended, or this process did not run.
 *
 * Between two looks the three clocks tell them apart:
 *
 *                          wall    since boot    monotonic
 *     the clock was set     +S         0             0
 *     suspended for T       +T        +T             0
 *     stopped for T         +T        +T            +T     (SIGSTOP, a debugger, no processor; nobody looked meanwhile)
 *
 * Between two runs nobody looks; what was kept is compared with the first packet (stepSince).
 *
 * A clock that is slewed (ntpd, chrony) gains half a millisecond a second at most, and is never a step.
 */

interface ClockChange {
  /** By which the wall clock was set, forward or back; 0: it was not. */
  readonly setMicros: number
  /** 0: it was not. */
  readonly suspendedSeconds: number
  /** 0: it ran. */
  readonly stoppedSeconds: number
}

interface ClockWatch {
  /** To be called several times a second, and before packets are worked on. What has happened; null: nothing. */
  look(): ClockChange | null
  /** How often each has happened. */
  readonly counts: ClockCounts
}

interface ClockCounts {
  readonly set: number
  readonly suspended: number
  readonly stopped: number
}

/** Steps that are less are no step: what waits for packets waits longer. */
const LEAST_STEP_MILLIS = 500
const LEAST_SUSPEND_MILLIS = 1000
/** Looks are never so far apart while the process runs. */
const LEAST_STOP_MILLIS = 3000
/** Two clocks are read at the same time where that took no longer. */
const TOGETHER_MILLIS = 20
const ATTEMPTS = 5

export function createClockWatch(
  clock: Pick<Clock, 'wallMicros' | 'monotonicMillis' | 'bootMillis'>,
): ClockWatch {
  const counts = { set: 0, suspended: 0, stopped: 0 }
  /** Wall clock and monotonic clock at about the same time; null where the process was always interrupted. */
  const read = (): { wallMillis: number; millis: number } | null => {
    for (let i = 0; i < ATTEMPTS; i++) {
      const millis = clock.monotonicMillis()
      const wallMillis = clock.wallMicros() / 1000
      if (clock.monotonicMillis() - millis <= TOGETHER_MILLIS) return { wallMillis, millis }
    }
    return null
  }
  const suspendedMillis = (): number => clock.bootMillis() - clock.monotonicMillis()
  let last = read()
  let suspended = suspendedMillis()
  return {
    look() {
      const now = read()
      if (now === null) return null
      const before = last
      last = now
      if (before === null) return null
      const passed = now.millis - before.millis
      const stopped = passed >= LEAST_STOP_MILLIS ? passed : 0
      let step = now.wallMillis - before.wallMillis - passed
      let slept = 0
      if (Math.abs(step) >= LEAST_STEP_MILLIS) {
        const all = suspendedMillis()
        if (all - suspended >= LEAST_SUSPEND_MILLIS) {
          slept = all - suspended
          step -= slept
        }
        suspended = all
        if (Math.abs(step) < LEAST_STEP_MILLIS) step = 0
      } else step = 0
      if (step === 0 && slept === 0 && stopped === 0) return null
      if (step !== 0) counts.set++
      if (slept > 0) counts.suspended++
      if (stopped > 0) counts.stopped++
      return {
        setMicros: Math.round(1000 * step),
        suspendedSeconds: slept / 1000,
        stoppedSeconds: stopped / 1000,
      }
    },
    get counts() {
      return { ...counts }
    },
  }
}

/** Kept times that are later than this are of a clock that was set back since. */
const FUTURE_MICROS = 60_000_000
/** Longer without a packet is a clock that was set, or an agent that was not there (as for an alert budget). */
const LONGEST_SILENCE_MICROS = 3_600_000_000

/**
 * By how much kept times are to move when the first packet comes: all of them where they are in the future, so that nothing
 * waits until then; those of devices that learn where the last packet was long ago, so that nobody learns from a time in which
 * nothing was seen. null: they are right.
 */
export function stepSince(
  known: readonly Device[],
  nowMicros: number,
): { readonly byMicros: number; readonly state?: DeviceState } | null {
  const latest = known.reduce(
    (most, { lastSeenMicros }) => Math.max(most, lastSeenMicros),
    Number.NEGATIVE_INFINITY,
  )
  const passed = nowMicros - latest
  if (passed < -FUTURE_MICROS) return { byMicros: passed }
  if (passed > LONGEST_SILENCE_MICROS && known.length > 0) return { byMicros: passed, state: 'learning' }
  return null
}

/** For people: "1.5 s", "2 h". */
export function secondsText(exactSeconds: number): string {
  const seconds = Math.round(10 * exactSeconds) / 10
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`
}

/**
 * Clock: time and waiting, passed in, so that tests can let an hour pass in no time and make clocks jump.
 *
 * Three times are kept apart: `wallMicros` is what packets are stamped with and may jump; `monotonicMillis`
 * never runs backwards, and every waiting is measured by it; `bootMillis` does neither and runs on while the machine is suspended.
 */

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

export type Liveness = 'live' | 'recorded' | 'by-time'

const SLACK_MICROS = 250_000
/** A pipe whose packets are older than this is a recording. */
const PRESENT_MICROS = 60_000_000

export class CaptureClock {
  readonly #clock: Clock
  readonly #liveness: Liveness
  #latestMicros = Number.NEGATIVE_INFINITY
  #cameMillis = 0
  #isLive = false

  constructor(clock: Clock, liveness: Liveness) {
    this.#clock = clock
    this.#liveness = liveness
  }

  /** Packets up to this time have come. */
  note(latestMicros: number): void {
    if (latestMicros === this.#latestMicros || !Number.isFinite(latestMicros)) return
    this.#latestMicros = latestMicros
    this.#cameMillis = this.#clock.monotonicMillis()
    this.#isLive =
      this.#liveness === 'live' ||
      (this.#liveness === 'by-time' && Math.abs(this.#clock.wallMicros() - latestMicros) < PRESENT_MICROS)
  }

  /**
   * The process did not run for a while. What came meanwhile is still to be read, so time goes on from the latest packet
   * that was.
   */
  resume(): void {
    this.#cameMillis = this.#clock.monotonicMillis()
  }

  /** No packet older than this is to come; null where nobody knows. */
  nowMicros(): number | null {
    if (!this.#isLive) return null
    const passedMicros = Math.round(1000 * (this.#clock.monotonicMillis() - this.#cameMillis))
    return this.#latestMicros + Math.max(0, passedMicros) - SLACK_MICROS
  }

  /** How far the latest packet lies behind the present, 0 at least; null where the input is not live. */
  lagSeconds(): number | null {
    if (!this.#isLive) return null
    return Math.max(0, (this.#clock.wallMicros() - this.#latestMicros) / 1e6)
  }
}
