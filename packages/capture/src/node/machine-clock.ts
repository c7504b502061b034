/**
 * The clock of this machine, for replays. Nothing that a replay gives depends on it but when it is given.
 */
import { performance } from 'node:perf_hooks'
import { setTimeout as sleepMillis } from 'node:timers/promises'
import type { ReplayClock } from '../replay-frames.js'

/** Longest single sleep: Node's timers hold 24 days at most. */
const LONGEST_SLEEP_MILLIS = 3_600_000

export const MACHINE_CLOCK: ReplayClock = {
  nowMicros: () => 1000 * performance.now(),
  async sleep(micros, signal) {
    const millis = Math.min(micros / 1000, LONGEST_SLEEP_MILLIS)
    await sleepMillis(millis, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  },
}
