/**
 * Wall-clock time of repeated work. The clock comes from the caller: packages here know no time.
 *
 * A few runs before the first that counts let a just-in-time compiler and caches settle. All times are kept,
 * not a mean of them: what to make of outliers is for whoever reads them.
 */
import { ArgumentError } from '@oddflow/core'
import { mean } from './spread.js'

export interface TimingOptions {
  /** A monotonic clock in milliseconds, such as `() => performance.now()`. */
  readonly clock: () => number
  /** Runs that are timed, at least 1; the paper's is 20 (the default). */
  readonly runs?: number
  /** Runs before these that are not; default 2. */
  readonly warmUps?: number
}

/** Milliseconds of each timed run of `work`. Throws ArgumentError for counts out of range or a clock that runs back. */
export function timeRuns(work: () => void, { clock, runs = 20, warmUps = 2 }: TimingOptions): Float64Array {
  checkRuns('runs', runs, 1)
  checkRuns('warmUps', warmUps, 0)
  for (let i = 0; i < warmUps; i++) work()
  const times = new Float64Array(runs)
  for (let i = 0; i < runs; i++) {
    const started = clock()
    work()
    times[i] = clock() - started
    if (!(times[i]! >= 0)) throw new ArgumentError('clock: expected times that never fall', 'clock')
  }
  return times
}

/** The paper's unit, milliseconds per 100 rows, from the times of runs over `rows` rows each. */
export function millisPer100(millis: ArrayLike<number>, rows: number): number {
  return (mean(millis) * 100) / rows
}

function checkRuns(field: string, value: number, least: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > 1_000_000) {
    throw new ArgumentError(
      `${field}: expected a whole number from ${least} to 1000000, found ${value}`,
      field,
    )
  }
}
