/** Means and standard deviations, times of repeated work, histograms of scores. */
import { ArgumentError } from '@oddflow/core'

/** Mean and sample standard deviation (n − 1) in two passes. */
export interface Spread {
  readonly mean: number
  /** null for a single value. */
  readonly sd: number | null
  readonly n: number
}

/** The arithmetic mean; NaN for no values. */
export function mean(values: ArrayLike<number>): number {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]!
  return sum / values.length
}

/** null when there are no values. */
export function spread(values: ArrayLike<number>): Spread | null {
  const n = values.length
  if (n === 0) return null
  const centre = mean(values)
  let squares = 0
  for (let i = 0; i < n; i++) squares += (values[i]! - centre) * (values[i]! - centre)
  return { mean: centre, sd: n === 1 ? null : Math.sqrt(squares / (n - 1)), n }
}

/** Options of `timeRuns`. */
export interface TimingOptions {
  /** A monotonic clock in milliseconds, such as `() => performance.now()`. */
  readonly clock: () => number
  /** Runs that are timed, at least 1; the paper's is 20 (the default). */
  readonly runs?: number
  /** Runs before these that are not; default 2. */
  readonly warmUps?: number
}

/**
 * Wall-clock times of repeated work, all of them, after a few runs to warm up. The caller gives the clock. Milliseconds
 * of each timed run of `work`. Throws ArgumentError for counts out of range or a clock that runs back.
 */
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

/**
 * Histogram of scores. A few log-densities lie far below all others, so edges may leave out a share at each end;
 * counts, below and above together are all values.
 */
export interface Histogram {
  /** Ascending, one more than there are bins; bin i is [edges[i], edges[i + 1]), the last one closed. */
  readonly edges: Float64Array
  readonly counts: Float64Array
  readonly below: number
  readonly above: number
}

/**
 * Edges of `bins` equal bins, without a share `tail` of the values at each end (in [0, 0.5)). Equal values get bins
 * around them. Throws ArgumentError for NaN, or when no value is finite.
 */
export function histogramEdges(values: ArrayLike<number>, bins: number, tail = 0): Float64Array {
  if (!Number.isSafeInteger(bins) || bins < 1 || bins > 10_000) {
    throw new ArgumentError(`bins: expected a whole number from 1 to 10000, found ${bins}`, 'bins')
  }
  if (!(tail >= 0 && tail < 0.5)) {
    throw new ArgumentError(`tail: expected a share from 0 to below 0.5, found ${tail}`, 'tail')
  }
  checkNumbers(values)
  const sorted = Float64Array.from(values).filter(Number.isFinite).sort()
  if (sorted.length === 0) throw new ArgumentError('values: expected at least one finite number', 'values')
  const cut = Math.floor(tail * (sorted.length - 1))
  let low = sorted[cut]!
  let high = sorted[sorted.length - 1 - cut]!
  if (low === high) {
    const margin = Math.max(Math.abs(low) / 1024, 0.5)
    low = Math.max(low - margin, -Number.MAX_VALUE)
    high = Math.min(high + margin, Number.MAX_VALUE)
  }
  // halves first: the difference of two finite numbers may not be finite
  const step = (high / 2 - low / 2) / bins
  const edges = new Float64Array(bins + 1)
  for (let i = 0; i <= bins; i++) edges[i] = i === bins ? high : Math.min(low + step * i + step * i, high)
  return edges
}

/** Counts values between given edges, O(n log bins). Throws ArgumentError for NaN or edges out of order. */
export function histogram(values: ArrayLike<number>, edges: Float64Array): Histogram {
  if (edges.length < 2) throw new ArgumentError('edges: expected at least two', 'edges')
  for (let i = 1; i < edges.length; i++) {
    if (!(edges[i - 1]! <= edges[i]!))
      throw new ArgumentError(`edges[${i}]: expected ascending edges`, 'edges')
  }
  checkNumbers(values)
  const counts = new Float64Array(edges.length - 1)
  let below = 0
  let above = 0
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!
    if (value < edges[0]!) below++
    else if (value > edges[counts.length]!) above++
    else counts[binOf(value, edges)]!++
  }
  return { edges, counts, below, above }
}

/** The last bin whose lower edge is at most `value`. */
function binOf(value: number, edges: Float64Array): number {
  let low = 0
  let high = edges.length - 2
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (edges[middle]! <= value) low = middle
    else high = middle - 1
  }
  return low
}

function checkNumbers(values: ArrayLike<number>): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    if (typeof value !== 'number' || Number.isNaN(value)) {
      throw new ArgumentError(`values[${i}]: expected a number, found ${value}`, 'values')
    }
  }
}
