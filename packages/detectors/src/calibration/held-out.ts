/**
 * Held-out rows: scores of training rows under models made without their own input, because rows of one input resemble
 * each other more than future rows. A *view* is a number that is larger for more unusual rows.
 *
 * The surprise of a value s among n held-out values, with u their 0.9-quantile: up to u, −log of (1 + #{c ≥ s}) / (n +
 * 1), linear between values; beyond u, −log 0.1 + (s − u) / (mean excess over u), at most 30. Surprises of views are
 * added.
 */
import { createMatrix, log, type Matrix } from '@oddflow/core'
import { failField, fieldsAt, finiteAt, matrixAt, sizeUpTo } from '../fields.js'

/** The scores of training rows, each from when its input was held out of the fit. */
export interface HeldOutScores {
  /** For each training row in order: its score while its input was held out; higher = more normal. */
  readonly scores: Float64Array
  /** Which input each row came from. */
  readonly inputs: Uint32Array
  /** 1 for a row unlike all others: the model was fitted without it, and thresholds should not count it. */
  readonly odd: Uint8Array
}

// ---- folds

const MOST_FOLDS = 10
/** Of rows that come from one input, and so cannot be told apart by it. */
const FOLDS_OF_ONE_INPUT = 4
/** With fewer rows there are too few to compare others with. */
const LEAST_FIT_ROWS = 13

export interface Folds {
  /** The fold of each row, 0 … count − 1. */
  readonly of: Uint8Array
  readonly count: number
  /** Least number of rows in the other folds, needed to hold one fold out. */
  readonly leastFitRows: number
}

/** Whole inputs, dealt round robin; with one input, row i is in fold i mod 4. */
export function dealFolds(inputs: Uint32Array): Folds {
  const distinct = Uint32Array.from(new Set(inputs)).sort()
  if (distinct.length < 2) return interleavedFolds(inputs.length)
  const count = Math.min(distinct.length, MOST_FOLDS)
  const foldOf = new Map(Array.from(distinct, (input, i) => [input, i % count]))
  const sizes = new Uint32Array(count)
  const of = new Uint8Array(inputs.length)
  inputs.forEach((input, i) => {
    of[i] = foldOf.get(input)!
    sizes[of[i]!]!++
  })
  // if one input has nearly all rows, no fold leaves enough others
  return sizes.some((size) => inputs.length - size >= LEAST_FIT_ROWS)
    ? { of, count, leastFitRows: LEAST_FIT_ROWS }
    : interleavedFolds(inputs.length)
}

function interleavedFolds(rows: number): Folds {
  const count = Math.min(FOLDS_OF_ONE_INPUT, rows)
  return { of: Uint8Array.from({ length: rows }, (_, i) => i % count), count, leastFitRows: 1 }
}

/**
 * Numbers of the rows a fold is compared with (without odd ones), and of the held-out rows; null if too few are left.
 */
export function foldRows(
  { of, leastFitRows }: Folds,
  fold: number,
  odd: Uint8Array,
): { readonly fit: Uint32Array; readonly held: Uint32Array } | null {
  const fit = rowNumbers(of.length, (i) => of[i] !== fold && odd[i] === 0)
  return fit.length < leastFitRows ? null : { fit, held: rowNumbers(of.length, (i) => of[i] === fold) }
}

/** Numbers of the chosen rows out of `rows`, ascending. */
export function rowNumbers(rows: number, isChosen: (row: number) => boolean): Uint32Array {
  const numbers = new Uint32Array(rows)
  let count = 0
  for (let i = 0; i < rows; i++) if (isChosen(i)) numbers[count++] = i
  return numbers.slice(0, count)
}

/** NaN, the value of a row that could not be held out, becomes the median of the others. */
export function fillWithMedian(values: Float64Array): void {
  const known = values.filter((v) => !Number.isNaN(v))
  if (known.length === values.length) return
  const middle = quantileOf(known.sort(), 0.5)
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i]!)) values[i] = middle
}

// ---- surprise curves

/** How surprising each value of a view is: −log of its tail probability among held-out rows. */
export interface SurpriseCurve {
  /** K × 2, K ≤ 64: a value and its surprise, both ascending. The tail begins after the last. */
  readonly body: Matrix
  /** Positive: the mean excess of held-out values over the last knot. */
  readonly meanExcess: number
}

export const MAXIMUM_KNOTS = 64
/** The values to which the tail is fitted. */
export const TAIL_SHARE = 0.1
/** −log 0.1: where the tail begins. */
export const TAIL_SURPRISE = -log(TAIL_SHARE)
export const HIGHEST_SURPRISE = 30
/** If no value exceeds the quantile, every later one that does has the highest surprise. */
const LEAST_MEAN_EXCESS = 1e-9
/** Steps of −log p from 0 to TAIL_SURPRISE, each of which keeps one knot if there are too many. */
const LEVELS = MAXIMUM_KNOTS - 2

/** Of one or more finite values, larger = more unusual. */
export function fitSurpriseCurve(values: Float64Array): SurpriseCurve {
  const sorted = values.slice().sort()
  const n = sorted.length
  const start = quantileOf(sorted, 1 - TAIL_SHARE)
  const knots: [value: number, surprise: number][] = []
  let beyond = n
  for (let i = 0; i < n; i++) {
    if (sorted[i]! > start) {
      beyond = i
      break
    }
    // + 0: −0 and 0 are one number
    if (i === 0 || sorted[i] !== sorted[i - 1]) knots.push([sorted[i]! + 0, log((n + 1) / (1 + n - i))])
  }
  if (knots[knots.length - 1]![0] < start) knots.push([start, TAIL_SURPRISE])
  let excess = 0
  // summed in parts, because the sum itself may overflow
  for (let i = beyond; i < n; i++) excess += (sorted[i]! - start) / (n - beyond)
  const kept =
    knots.length <= MAXIMUM_KNOTS
      ? knots
      : knots.filter(([, surprise], i) => {
          const next = knots[i + 1]
          return i === 0 || next === undefined || levelOf(next[1]) > levelOf(surprise)
        })
  const body = createMatrix(kept.length, 2)
  body.data.set(kept.flat())
  return { body, meanExcess: Math.min(excess + LEAST_MEAN_EXCESS, Number.MAX_VALUE) }
}

function levelOf(surprise: number): number {
  return Math.min(LEVELS - 1, Math.floor((surprise / TAIL_SURPRISE) * LEVELS))
}

/** Weights of the surprise up to the tail and beyond. */
export interface SurpriseWeights {
  readonly body: number
  readonly tail: number
}

/** The surprise of a value, weighted; 0 … 30 where both weights are 1. */
export function surpriseOf(
  { body, meanExcess }: SurpriseCurve,
  value: number,
  weights: SurpriseWeights,
): number {
  const { rows: count, data } = body
  const last = count - 1
  if (value > data[2 * last]!) {
    const tail = (value - data[2 * last]!) / meanExcess
    return weights.body * TAIL_SURPRISE + weights.tail * Math.min(tail, HIGHEST_SURPRISE - TAIL_SURPRISE)
  }
  if (!(value > data[0]!)) return weights.body * data[1]!
  // the knots that it lies between: low < value ≤ high
  let low = 0
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (data[2 * middle]! < value) low = middle
    else high = middle
  }
  const share = shareBetween(data[2 * low]!, data[2 * high]!, value)
  const from = data[2 * low + 1]!
  return weights.body * (from + (data[2 * high + 1]! - from) * Math.min(share, 1))
}

/** `count` values, evenly spaced in probability, of those a curve was fitted to. */
export function sampleSurpriseCurve({ body, meanExcess }: SurpriseCurve, count: number): Float64Array {
  const { rows: knots, data } = body
  const last = knots - 1
  return Float64Array.from({ length: count }, (_, i) => {
    const surprise = -log((i + 0.5) / count)
    if (surprise > TAIL_SURPRISE) return data[2 * last]! + (surprise - TAIL_SURPRISE) * meanExcess
    let high = 0
    while (high < last && data[2 * high + 1]! < surprise) high++
    if (high === 0) return data[0]!
    const from = data[2 * high - 1]!
    const share = Math.min(1, (surprise - from) / (data[2 * high + 1]! - from))
    return data[2 * high - 2]! * (1 - share) + data[2 * high]! * share
  })
}

function shareBetween(low: number, high: number, value: number): number {
  const range = high - low
  // uses halves if the difference overflows
  return range < Number.POSITIVE_INFINITY
    ? (value - low) / range
    : (value / 2 - low / 2) / (high / 2 - low / 2)
}

/** Throws ArgumentError with the path of the fault; arrays are not copied. */
export function checkSurpriseCurve(value: unknown, path: string): SurpriseCurve {
  const curve = fieldsAt(value, path)
  const body = matrixAt(curve.body, `${path}.body`)
  sizeUpTo(body.rows, MAXIMUM_KNOTS, `${path}.body.rows`)
  if (body.cols !== 2) failField(`${path}.body`, '2 columns', body.cols)
  for (let i = 0; i < body.rows; i++) {
    const surprise = body.data[2 * i + 1]!
    if (!(surprise >= 0 && surprise <= TAIL_SURPRISE)) {
      failField(`${path}.body`, `surprises from 0 to ${TAIL_SURPRISE}`, surprise)
    }
    if (i === 0) continue
    if (!(body.data[2 * i]! > body.data[2 * i - 2]!))
      failField(`${path}.body`, 'ascending values', body.data[2 * i])
    if (!(surprise > body.data[2 * i - 1]!)) failField(`${path}.body`, 'ascending surprises', surprise)
  }
  const meanExcess = finiteAt(curve.meanExcess, `${path}.meanExcess`)
  if (!(meanExcess >= LEAST_MEAN_EXCESS)) {
    failField(`${path}.meanExcess`, `${LEAST_MEAN_EXCESS} or more`, meanExcess)
  }
  return { body, meanExcess }
}

/** The quantile of ascending values, linear between two of them. */
export function quantileOf(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1)
  const low = Math.floor(at)
  const from = sorted[low]!
  const to = sorted[Math.min(low + 1, sorted.length - 1)]!
  const part = at - low
  if (!Number.isFinite(to - from)) return from * (1 - part) + to * part
  // from the nearer end, so that both ends are met
  return part < 0.5 ? from + (to - from) * part : to - (to - from) * (1 - part)
}

// ---- odd rows

/** Odd rows exceed all others by this many nats, and score above ODD_SURPRISE. */
const ODD_GAP = 6
const ODD_SURPRISE = 12
/** Maximum share of odd rows; one row is always allowed. */
const ODD_SHARE = 0.01

/**
 * Marks rows unlike those of any other input: those above the lowest gap of 6 nats among the most surprising 1 %.
 * `sums` are their held-out surprises.
 */
export function findOddRows(sums: Float64Array): Uint8Array {
  const n = sums.length
  const descending = sums.slice().sort().reverse()
  const most = Math.min(Math.max(1, Math.ceil(ODD_SHARE * n)), n - 1)
  const odd = new Uint8Array(n)
  for (let i = most; i >= 1; i--) {
    if (descending[i - 1]! > ODD_SURPRISE && descending[i - 1]! - descending[i]! >= ODD_GAP) {
      const least = descending[i - 1]!
      for (let row = 0; row < n; row++) if (sums[row]! >= least) odd[row] = 1
      break
    }
  }
  return odd
}
