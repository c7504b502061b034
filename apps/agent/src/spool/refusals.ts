/**
 * Refusals: alerts that a log had no room for, counted, and told of in stretches: once when a stretch begins, and how many they
 * were when it is over. A stretch is over with the first alert that is taken after ten seconds without a refusal, so however
 * often a disk falls behind there are two lines in ten seconds at most.
 */
import type { Log } from '../log.js'

export interface Refusals {
  readonly count: number
  refuse(): void
  /** An alert was taken. */
  accept(): void
  /** No more come. */
  end(): void
}

const QUIET_MILLIS = 10_000

/** @param folder - where there was no room. */
export function createRefusals(
  folder: string,
  monotonicMillis: () => number,
  log: Pick<Log, 'warn'>,
): Refusals {
  let count = 0
  /** Of this stretch. */
  let ofThese = 0
  let lastMillis = 0
  const end = (): void => {
    if (ofThese > 0)
      log.warn(`${folder}: ${ofThese === 1 ? 'an alert was' : `${ofThese} alerts were`} refused`)
    ofThese = 0
  }
  return {
    get count() {
      return count
    },
    refuse() {
      count++
      lastMillis = monotonicMillis()
      if (ofThese++ > 0) return
      log.warn(
        `${folder}: takes alerts more slowly than they come, and memory has room for no more; some are refused`,
      )
    },
    accept() {
      if (ofThese > 0 && monotonicMillis() - lastMillis >= QUIET_MILLIS) end()
    },
    end,
  }
}
