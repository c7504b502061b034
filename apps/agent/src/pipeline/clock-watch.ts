/**
 * ClockWatch: whether the machine's clock was set, the machine was suspended, or this process did not run.
 *
 * Between two looks the three clocks (clock.ts) tell them apart:
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
import type { Clock } from '../clock.js'
import type { Device, DeviceState } from '../devices/device.js'

export interface ClockChange {
  /** By which the wall clock was set, forward or back; 0: it was not. */
  readonly setMicros: number
  /** 0: it was not. */
  readonly suspendedSeconds: number
  /** 0: it ran. */
  readonly stoppedSeconds: number
}

export interface ClockWatch {
  /** To be called every quarter of a second, and before packets are worked on. What has happened; null: nothing. */
  look(): ClockChange | null
  /** How often each has happened. */
  readonly counts: ClockCounts
}

export interface ClockCounts {
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
