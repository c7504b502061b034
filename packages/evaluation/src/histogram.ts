/**
 * Histogram: how scores are distributed, for a picture.
 *
 * Log-densities have a few values far below all others; bins that reached them would put everything else
 * into one bar. So the edges may leave out a share of the values at each end, and what lies beyond is
 * counted, not dropped: counts, below and above together are all values.
 */
import { ArgumentError } from '@oddflow/core'

export interface Histogram {
  /** Ascending, one more than there are bins; bin i is [edges[i], edges[i + 1]), the last one closed. */
  readonly edges: Float64Array
  readonly counts: Float64Array
  readonly below: number
  readonly above: number
}

/**
 * Edges of `bins` equal bins over the values but for `tail` of them at each end (a share in [0, 0.5)).
 * Infinite values lie beyond the edges. Equal values give bins around them. Throws ArgumentError for NaN or
 * when no value is finite.
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
