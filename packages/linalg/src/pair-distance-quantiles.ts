/**
 * Quantiles of the Euclidean distances between all pairs of rows: the rule of thumb for a bandwidth.
 *
 * `pairs` ranks the n(n−1)/2 distances between different rows (the paper's text). `authors` ranks the full
 * n × n matrix, both triangles and the zero diagonal (the authors' code). Both interpolate linearly between
 * the two neighbouring ranks, as numpy.quantile does.
 *
 * Exact, and without keeping 12.5 million distances for n = 5,000. A regular sample of pairs gives a bracket
 * for each rank that is wanted; one pass over all pairs counts what lies below each bracket and keeps what
 * lies inside it (a few percent); a rank that its bracket missed widens it and costs one more pass. Values
 * equal to a bracket's edge are only counted, so repeated rows cost no memory. Everything is done on squared
 * distances; the root is taken of the ranks found.
 */
import { ArgumentError, type Matrix, type Rng, sampleWithoutReplacement, takeRows } from '@oddflow/core'
import { forEachPairRun } from './pair-runs.js'
import { RankBrackets } from './rank-brackets.js'
import { squaredDistances } from './squared-distances.js'

/** Unless asked otherwise, above so many rows the distances of a random sample of so many are ranked instead. */
export const MAXIMUM_PAIR_ROWS = 5000

export type QuantileRule = 'pairs' | 'authors'

export interface PairDistanceQuantiles {
  /** One distance for each q asked. */
  readonly quantiles: Float64Array
  /** Rows whose pairs were ranked: n, or `maximumRows` when n is larger. */
  readonly rowsUsed: number
}

/**
 * Quantiles q ∈ [0, 1] of the pair distances of `rows` (n × D, n ≥ 2). `rng` is drawn from only when there
 * are more than `maximumRows` rows. Time grows with the square of the rows ranked. Throws ArgumentError.
 */
export function pairDistanceQuantiles(
  rows: Matrix,
  q: ArrayLike<number>,
  rng: Rng,
  rule: QuantileRule = 'pairs',
  maximumRows = MAXIMUM_PAIR_ROWS,
): PairDistanceQuantiles {
  if (rows.rows < 2) throw new ArgumentError(`rows: expected at least 2, found ${rows.rows}`, 'rows')
  if (!(Number.isSafeInteger(maximumRows) && maximumRows >= 2)) {
    throw new ArgumentError(
      `maximumRows: expected a whole number of 2 or more, found ${maximumRows}`,
      'maximumRows',
    )
  }
  const used = boundedRows(rows, rng, maximumRows)
  const n = used.rows
  const pairs = (n * (n - 1)) / 2
  const total = rule === 'pairs' ? pairs : n * n
  // ranks in the sorted pair distances; −1 stands for a zero of the diagonal
  const pairRank = (rank: number) => (rule === 'pairs' ? rank : rank < n ? -1 : Math.floor((rank - n) / 2))
  const positions = Array.from(q, (value, i) => {
    if (!(value >= 0 && value <= 1)) {
      throw new ArgumentError(`q[${i}]: expected a number from 0 to 1, found ${value}`, 'q')
    }
    const position = value * (total - 1)
    const low = Math.floor(position)
    return { low: pairRank(low), high: pairRank(Math.min(low + 1, total - 1)), fraction: position - low }
  })
  const ranks = new Set<number>()
  for (const { low, high } of positions) {
    if (low >= 0) ranks.add(low)
    if (high >= 0) ranks.add(high)
  }
  const found = selectPairRanks(
    used,
    [...ranks].sort((a, b) => a - b),
  )
  const at = (rank: number) => (rank < 0 ? 0 : Math.sqrt(found.get(rank)!))
  const quantiles = Float64Array.from(positions, ({ low, high, fraction }) => {
    const a = at(low)
    const b = at(high)
    // infinite ones have no difference, and no product with 0
    return a === b || fraction === 0 ? a : a + (b - a) * fraction
  })
  return { quantiles, rowsUsed: n }
}

/**
 * Share of the n(n−1)/2 pairs of rows that are equal, number by number: a distance may be 0 because its square is too
 * small for float64. The sample rule of `pairDistanceQuantiles` applies.
 */
export function equalPairShare(rows: Matrix, rng: Rng, maximumRows = MAXIMUM_PAIR_ROWS): number {
  const { rows: n, cols, data } = boundedRows(rows, rng, maximumRows)
  const compare = (a: number, b: number): number => {
    for (let j = 0; j < cols; j++) {
      const difference = data[a * cols + j]! - data[b * cols + j]!
      if (difference !== 0) return difference
    }
    return 0
  }
  const order = Uint32Array.from({ length: n }, (_, i) => i).sort(compare)
  let equal = 0
  for (let i = 1, before = 0; i < n; i++) {
    before = compare(order[i - 1]!, order[i]!) === 0 ? before + 1 : 0
    equal += before
  }
  return equal / ((n * (n - 1)) / 2)
}

/** The rows themselves, or a random sample of `maximumRows` of them in their order. */
function boundedRows(rows: Matrix, rng: Rng, maximumRows: number): Matrix {
  if (rows.rows <= maximumRows) return rows
  return takeRows(rows, sampleWithoutReplacement(rows.rows, maximumRows, rng).sort())
}

/** Squared distances that hold the given ascending ranks (0 = the smallest) among all pairs. */
function selectPairRanks(rows: Matrix, ranks: readonly number[]): Map<number, number> {
  const pairs = (rows.rows * (rows.rows - 1)) / 2
  const brackets = new RankBrackets(ranks, pairs, samplePairs(rows))
  while (!brackets.settled) {
    brackets.beginPass()
    forEachPairRun(rows, (values, start, count) => brackets.add(values, start, count))
    brackets.endPass()
  }
  return brackets.values()
}

/** Sorted squared distances of about 32,768 pairs, spread evenly over all of them. */
function samplePairs(rows: Matrix): Float64Array {
  const { rows: n, cols, data } = rows
  const pairs = (n * (n - 1)) / 2
  const size = Math.min(pairs, SAMPLE_PAIRS)
  const out = new Float64Array(size)
  const distance = new Float64Array(1)
  // pair p of the list (0,1), (0,2) … (n−2,n−1); `first` is the list's position of row i's first pair
  let i = 0
  let first = 0
  for (let s = 0; s < size; s++) {
    const p = Math.floor((s * pairs) / size)
    while (p >= first + (n - 1 - i)) {
      first += n - 1 - i
      i++
    }
    const j = i + 1 + (p - first)
    squaredDistances(data, i * cols, data, j * cols, 1, cols, distance, 0)
    out[s] = distance[0]!
  }
  return out.sort()
}

const SAMPLE_PAIRS = 32768
