/** Clocks: those of the machine, whether they were set, and the time in the traffic. */
import { uptime } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Device, DeviceState } from '../devices/device.js'

export interface ClockChange {
  /** By which the wall clock was set, forward or back; 0: it was not. */
  readonly setMicros: number
  readonly suspendedSeconds: number
  readonly stoppedSeconds: number
}

/** Steps that are less are no step: what waits for packets waits longer. */
const LEAST_STEP_MILLIS = 500
const LEAST_SUSPEND_MILLIS = 1000
/** Looks are never so far apart while the process runs. */
const LEAST_STOP_MILLIS = 3000
/** Two clocks are read at the same time where that took no longer. */
const TOGETHER_MILLIS = 20
const ATTEMPTS = 5

/**
 * Whether the machine's clock was set, the machine was suspended, or this process did not run, by three clocks:
 *
 *                          wall    since boot    monotonic
 *     the clock was set     +S         0             0
 *     suspended for T       +T        +T             0
 *     stopped for T         +T        +T            +T     (SIGSTOP, a debugger, no processor)
 *
 * A clock that is slewed (ntpd, chrony) gains half a millisecond a second at most, and is never a step. Between two runs
 * stepSince compares what was kept with the first packet.
 */
export function createClockWatch(clock: Pick<Clock, 'wallMicros' | 'monotonicMillis' | 'bootMillis'>) {
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
    /** To be called several times a second, and before packets are worked on. null: nothing has happened. */
    look(): ClockChange | null {
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
      return {
        setMicros: Math.round(1000 * step),
        suspendedSeconds: slept / 1000,
        stoppedSeconds: stopped / 1000,
      }
    },
  }
}

/** Kept times that are later than this are of a clock that was set back since. */
const FUTURE_MICROS = 60_000_000
/** Longer without a packet is a clock that was set, or an agent that was not there (as for an alert budget). */
const LONGEST_SILENCE_MICROS = 3_600_000_000

/**
 * By how much kept times move when the first packet comes: all of them where they are in the future, so that nothing waits
 * until then; those of devices that learn where the last packet was long ago, since a time without packets teaches nothing.
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

/** Time and waiting, passed in, so that tests can let an hour pass in no time and make clocks jump. */
export interface Clock {
  /** Microseconds since 1970, as packets are stamped; may jump. */
  wallMicros(): number
  /** Milliseconds since some moment; never less than before. Every waiting is measured by it. */
  monotonicMillis(): number
  /** Milliseconds since the machine was started, to about ten; runs on while the machine is suspended. */
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
  sleep: (millis, signal) => sleep(millis * scale, undefined, { signal }).catch(() => undefined),
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

/**
 * What time it is in the traffic, when no packet says so: live traffic may fall silent, and a verdict must not wait for the
 * next packet, so the time is the latest packet's plus what has passed since. An interface is live; a file is not; a pipe is
 * if its packets have about the present time. Packets come a little out of order, so the clock is kept a moment behind.
 */
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

  /** The process did not run for a while. Packets of that time are still unread: time continues from the latest packet. */
  resume(): void {
    this.#cameMillis = this.#clock.monotonicMillis()
  }

  /** No packet older than this is to come; null where the input is not live. */
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
