/**
 * TailTable: log p(v), p(v) = (count of training numbers ≤ v) / (n + 1), linear between knots, so different numbers
 * keep their order. At most MAXIMUM_KNOTS order statistics at ranks in geometric progression; equal numbers are one
 * knot.
 *
 * Below the smallest knot log p continues with the mean slope of the lowest 5 % (an exponential tail); above the
 * largest it approaches 0. Every input, even −Infinity, gives a number from LOWEST_LOG_TAIL to 0.
 *
 * Shape: K × 2, rows of (value, log p), both columns strictly ascending.
 */
import { createMatrix, exp, log, type Matrix } from '@oddflow/core'

/** The most rows of a tail table. */
export const MAXIMUM_KNOTS = 65

/** Keeps sums of logarithms finite. */
export const LOWEST_LOG_TAIL = -1e300

/** Share of the lower tail whose slope continues below the smallest knot. */
const SLOPE_SHARE = 0.05

/**
 * `values` (one or more) are those of the training rows; changed: sorted and kept from −Infinity.
 * @param first - rank of the lowest knot.
 */
export function fitTailTable(values: Float64Array, first = 1): Matrix {
  const n = values.length
  for (let i = 0; i < n; i++) values[i] = Math.max(values[i]!, LOWEST_LOG_TAIL)
  values.sort()
  const pairs: number[] = []
  let used = 0
  const steps = MAXIMUM_KNOTS - 1
  for (let t = 0; t <= steps; t++) {
    const rank = t === steps ? n : Math.round(first * exp((log(n / first) * t) / steps))
    if (rank <= used) continue
    const value = values[rank - 1]!
    used = rank
    while (used < n && values[used] === value) used++
    pairs.push(value, log(used / (n + 1)))
  }
  const table = createMatrix(pairs.length / 2, 2)
  table.data.set(pairs)
  return table
}

/**
 * The rank of the lowest knot among `count` training rows: above a hundredth and one more, which may be odd. Otherwise
 * a novel number could rank among odd rows, however low it is.
 */
export function firstOrdinaryRank(count: number): number {
  return count < LEAST_ROWS_WITH_ODD ? 1 : Math.floor(count / 100) + 2
}

/** Of fewer rows none can be spared. */
const LEAST_ROWS_WITH_ODD = 20

/** A table with what follows from it. */
export interface TailFunction {
  readonly count: number
  readonly values: Float64Array
  readonly logTails: Float64Array
  /** d log p / dv below the first knot, positive. */
  readonly lowerSlope: number
  /** Distance above the last knot at which log p halves. */
  readonly upperScale: number
}

export function createTailFunction({ rows: count, data }: Matrix): TailFunction {
  const values = Float64Array.from({ length: count }, (_, i) => data[2 * i]!)
  const logTails = Float64Array.from({ length: count }, (_, i) => data[2 * i + 1]!)
  if (count === 1) return { count, values, logTails, lowerSlope: 1, upperScale: 1 }
  let end = 1
  const share = log(SLOPE_SHARE)
  while (end + 1 < count && logTails[end]! < share) end++
  const slope = (logTails[end]! - logTails[0]!) / (values[end]! - values[0]!)
  return {
    count,
    values,
    logTails,
    lowerSlope: Math.min(slope, 1e300),
    upperScale: values[count - 1]! - values[0]!,
  }
}

/** log p(v); ascending in v. A value that is not a number, which only a forged model makes, counts as the lowest. */
export function logTail(
  { count, values, logTails, lowerSlope, upperScale }: TailFunction,
  asked: number,
): number {
  const value = Number.isNaN(asked) ? LOWEST_LOG_TAIL : Math.max(asked, LOWEST_LOG_TAIL)
  const last = count - 1
  if (!(value >= values[0]!)) {
    return Math.max(LOWEST_LOG_TAIL, logTails[0]! - (values[0]! - value) * lowerSlope)
  }
  if (value >= values[last]!) return logTails[last]! / (1 + (value - values[last]!) / upperScale)
  // the knot at or below the value: values[low] ≤ value < values[high]
  let low = 0
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (values[middle]! <= value) low = middle
    else high = middle
  }
  const from = logTails[low]!
  const to = logTails[high]!
  // rounding must not move it past the knot above
  return Math.min(to, from + (to - from) * ((value - values[low]!) / (values[high]! - values[low]!)))
}

/** `count` values, evenly spaced in probability, of those a table was fitted to. */
export function sampleTailTable(table: Matrix, count: number): Float64Array {
  const { count: knots, values, logTails, lowerSlope } = createTailFunction(table)
  return Float64Array.from({ length: count }, (_, i) => {
    const asked = log((i + 0.5) / count)
    if (asked <= logTails[0]!) {
      return Math.max(LOWEST_LOG_TAIL, values[0]! - (logTails[0]! - asked) / lowerSlope)
    }
    let high = 1
    while (high < knots - 1 && logTails[high]! < asked) high++
    if (knots === 1 || asked >= logTails[high]!) return values[knots - 1]!
    const share = (asked - logTails[high - 1]!) / (logTails[high]! - logTails[high - 1]!)
    return values[high - 1]! + share * (values[high]! - values[high - 1]!)
  })
}
