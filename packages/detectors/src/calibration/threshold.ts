/**
 * Threshold: from a tolerated share of false alarms to a number that scores are compared with.
 *
 * Split-conformal calibration (Vovk, Gammerman and Shafer 2005; for outliers Bates et al., Annals of Statistics 51,
 * 2023): score n normal rows that the fit has not seen, and flag a row whose score is below the r-th smallest, r =
 * floor(fpr · (n + 1)). If the next normal row is exchangeable with those n, the chance of a false alarm is at most r /
 * (n + 1), ties included. The threshold is the largest float64 below that score, so that copies of the row are not
 * flagged. With fewer than 1/fpr − 1 rows r is 1, and the record says that the promise does not hold.
 *
 * Held-out inputs (held-out.ts): the threshold flags at most the tolerated share of the rows, without odd ones, and is
 * at most what an exponential tail over their lowest tenth gives. The record has the flagged share of all rows and of
 * the worst input: of g + 1 exchangeable inputs, the next is no worse than the worst with a chance of g / (g + 1).
 */
import { ArgumentError, DataError, log } from '@oddflow/core'
import { failField, fieldsAt, finiteAt, refuseOtherFields, wholeAt } from '../fields.js'
import { type HeldOutScores, quantileOf, rowNumbers, TAIL_SHARE } from './held-out.js'

/** How a threshold was calibrated, and the false-positive rate to expect. */
export type ThresholdCalibration = SplitConformalCalibration | HeldOutCalibration

interface CalibrationPromise {
  /** n, the rows that calibrated it. */
  readonly rows: number
  /** The largest false-positive rate to expect. */
  readonly bound: number
  /** Whether the bound is within the requested tolerance, which needs enough rows. */
  readonly guaranteed: boolean
  /** The fewest rows with which it can be. */
  readonly rowsNeeded: number
}

/** A threshold's calibration by rows that were kept from the fit. */
export interface SplitConformalCalibration extends CalibrationPromise {
  readonly method: 'split-conformal'
  /** r, counted from the smallest score; at least 1. The bound is r / (n + 1). */
  readonly rank: number
}

/** A threshold's calibration by rows whose inputs were held out of the fit in turn. */
export interface HeldOutCalibration extends CalibrationPromise {
  readonly method: 'held-out-inputs'
  /** From which the rows came. */
  readonly inputs: number
  /** Rows unlike all others, which are not part of `rows`. */
  readonly oddRows: number
  /** Rows flagged while held out. The bound is (flagged + 1) / (n + 1). */
  readonly flaggedRows: number
  /** Flagged share of the worst input. */
  readonly worstInputRate: number
}

/** The score at or below which a row is novel, and how it was calibrated. */
export interface Threshold<Calibration extends ThresholdCalibration = ThresholdCalibration> {
  /** Novel iff score ≤ value. */
  readonly value: number
  /** The requested tolerance, from 1e-9 to below 1. */
  readonly falsePositiveRate: number
  readonly calibration: Calibration
}

/**
 * Sets a threshold from the scores (higher = more normal) of normal rows that were not used to fit. Throws
 * ArgumentError for a rate outside [1e-9, 1), DataError without scores or for one that is not finite.
 */
export function calibrateThreshold(
  scores: Float64Array,
  falsePositiveRate: number,
): Threshold<SplitConformalCalibration> {
  checkRate(falsePositiveRate)
  if (scores.length === 0) throw new DataError('threshold: expected at least one calibration row, found none')
  for (let i = 0; i < scores.length; i++) {
    // the lowest float64 has no threshold below it
    if (!(scores[i]! > -Number.MAX_VALUE && scores[i]! < Number.POSITIVE_INFINITY)) {
      throw new DataError(`threshold: expected finite scores, found ${scores[i]} in calibration row ${i}`)
    }
  }
  const sorted = scores.slice().sort()
  const rank = Math.max(1, conformalRank(scores.length, falsePositiveRate))
  return {
    value: nextDown(sorted[rank - 1]!),
    falsePositiveRate,
    calibration: describeCalibration(scores.length, rank, falsePositiveRate),
  }
}

/**
 * The threshold of a detector that held its training rows out. Throws ArgumentError for a rate outside [1e-9, 1),
 * DataError if no row is left or a score is not finite.
 */
export function thresholdOfHeldOut(
  { scores, inputs, odd }: HeldOutScores,
  falsePositiveRate: number,
): Threshold<HeldOutCalibration> {
  checkRate(falsePositiveRate)
  const rows = rowNumbers(scores.length, (i) => odd[i] === 0)
  const n = rows.length
  if (n === 0) throw new DataError('threshold: expected at least one held-out row, found none')
  const anomalies = Float64Array.from(rows, (i) => -scores[i]!)
  if (!anomalies.every((a) => Math.abs(a) < Number.MAX_VALUE)) {
    throw new DataError('threshold: expected finite scores of held-out rows')
  }
  anomalies.sort()
  const quantile = anomalies[n - Math.max(1, conformalRank(n, falsePositiveRate))]!
  const value = nextDown(-Math.max(quantile, tailQuantile(anomalies, falsePositiveRate)))
  return {
    value,
    falsePositiveRate,
    calibration: describeHeldOut(
      {
        rows: n,
        oddRows: scores.length - n,
        ...flaggedByInput(scores, inputs, rows, value),
      },
      falsePositiveRate,
    ),
  }
}

/**
 * The record of a threshold with more held-out rows added: `value` covers all of them, `scores` and `inputs` the new
 * ones without odd rows.
 */
export function joinHeldOut(
  value: number,
  rate: number,
  before: HeldOutCalibration,
  { scores, inputs, oddRows }: Pick<HeldOutScores, 'scores' | 'inputs'> & { readonly oddRows: number },
): Threshold<HeldOutCalibration> {
  const found = flaggedByInput(
    scores,
    inputs,
    rowNumbers(scores.length, () => true),
    value,
  )
  return {
    value,
    falsePositiveRate: rate,
    calibration: describeHeldOut(
      {
        rows: before.rows + scores.length,
        inputs: before.inputs + found.inputs,
        oddRows: before.oddRows + oddRows,
        flaggedRows: before.flaggedRows + found.flaggedRows,
        worstInputRate: Math.max(before.worstInputRate, found.worstInputRate),
      },
      rate,
    ),
  }
}

function flaggedByInput(
  scores: Float64Array,
  inputs: Uint32Array,
  rows: Uint32Array,
  value: number,
): Pick<HeldOutCalibration, 'inputs' | 'flaggedRows' | 'worstInputRate'> {
  const flaggedOf = new Map<number, { rows: number; flagged: number }>()
  let flaggedRows = 0
  for (const i of rows) {
    const of = flaggedOf.get(inputs[i]!) ?? { rows: 0, flagged: 0 }
    flaggedOf.set(inputs[i]!, of)
    of.rows++
    if (scores[i]! > value) continue
    of.flagged++
    flaggedRows++
  }
  const worstInputRate = [...flaggedOf.values()].reduce((most, of) => Math.max(most, of.flagged / of.rows), 0)
  return { inputs: flaggedOf.size, flaggedRows, worstInputRate }
}

/** Where an exponential tail over the highest tenth of ascending values reaches the rate; −Infinity above a tenth. */
function tailQuantile(ascending: Float64Array, rate: number): number {
  if (!(rate < TAIL_SHARE)) return Number.NEGATIVE_INFINITY
  const start = quantileOf(ascending, 1 - TAIL_SHARE)
  let beyond = ascending.length
  while (beyond > 0 && ascending[beyond - 1]! > start) beyond--
  let excess = 0
  const count = ascending.length - beyond
  for (let i = beyond; i < ascending.length; i++) excess += (ascending[i]! - start) / count
  return start + excess * log(TAIL_SHARE / rate)
}

function describeHeldOut(
  found: Pick<HeldOutCalibration, 'rows' | 'inputs' | 'oddRows' | 'flaggedRows' | 'worstInputRate'>,
  rate: number,
): HeldOutCalibration {
  const bound = (found.flaggedRows + 1) / (found.rows + 1)
  return {
    method: 'held-out-inputs',
    ...found,
    bound,
    guaranteed: bound <= rate,
    rowsNeeded: rowsNeeded(rate),
  }
}

/**
 * decision = score − threshold: above 0 is normal. The sign is exact, because different float64 numbers have a non-zero
 * difference.
 */
export function decisionFunction(score: number, threshold: Threshold): number {
  return score - threshold.value
}

/** Novel iff score ≤ threshold; NaN is novel. */
export function isNovel(score: number, threshold: Threshold): boolean {
  return !(score > threshold.value)
}

/** +1 normal, −1 novel. */
export function predict(score: number, threshold: Threshold): 1 | -1 {
  return isNovel(score, threshold) ? -1 : 1
}

/** −score: higher = more novel, for tools that expect this order. */
export function anomalyScore(score: number): number {
  return -score
}

/** Checks a threshold from a file, including its arithmetic. Throws ArgumentError with the field. */
export function checkThreshold(value: unknown): Threshold {
  const t = fieldsAt(value, 'threshold')
  refuseOtherFields(t, 'threshold', ['value', 'falsePositiveRate', 'calibration'])
  const at = 'threshold.calibration'
  const c = fieldsAt(t.calibration, at)
  const { method, worstInputRate } = c
  if (method !== 'split-conformal' && method !== 'held-out-inputs') {
    return failField(`${at}.method`, 'split-conformal or held-out-inputs', method)
  }
  refuseOtherFields(c, at, CALIBRATION_FIELDS[method])
  const threshold = finiteAt(t.value, 'threshold.value')
  const rate = finiteAt(t.falsePositiveRate, 'threshold.falsePositiveRate')
  if (!isRate(rate)) failField('threshold.falsePositiveRate', 'a number from 1e-9 to below 1', rate)
  const rows = wholeAt(c.rows, `${at}.rows`, 1)
  let calibration: ThresholdCalibration
  if (method === 'split-conformal') {
    calibration = describeCalibration(rows, Math.max(1, conformalRank(rows, rate)), rate)
  } else {
    const inputs = wholeAt(c.inputs, `${at}.inputs`, 1, rows)
    const oddRows = wholeAt(c.oddRows, `${at}.oddRows`)
    const flaggedRows = wholeAt(c.flaggedRows, `${at}.flaggedRows`, 0, rows)
    // the worst input has at least the rate of all rows together
    const least = flaggedRows / rows
    if (typeof worstInputRate !== 'number' || !(worstInputRate >= least && worstInputRate <= 1)) {
      return failField(`${at}.worstInputRate`, `a number from ${least} to 1`, worstInputRate)
    }
    calibration = describeHeldOut({ rows, inputs, oddRows, flaggedRows, worstInputRate }, rate)
  }
  for (const [key, expected] of Object.entries(calibration)) {
    if (c[key] !== expected) failField(`${at}.${key}`, String(expected), c[key])
  }
  return { value: threshold, falsePositiveRate: rate, calibration }
}

const PROMISE_FIELDS = ['method', 'rows', 'bound', 'guaranteed', 'rowsNeeded']
const CALIBRATION_FIELDS: Readonly<Record<ThresholdCalibration['method'], readonly string[]>> = {
  'split-conformal': [...PROMISE_FIELDS, 'rank'],
  'held-out-inputs': [...PROMISE_FIELDS, 'inputs', 'oddRows', 'flaggedRows', 'worstInputRate'],
}

function describeCalibration(rows: number, rank: number, rate: number): SplitConformalCalibration {
  const bound = rank / (rows + 1)
  return {
    method: 'split-conformal',
    rows,
    rank,
    bound,
    guaranteed: bound <= rate,
    rowsNeeded: rowsNeeded(rate),
  }
}

/** The largest r with r / (n + 1) ≤ rate. The product alone would lose one to rounding: 0.29 · 100 < 29. */
export function conformalRank(rows: number, rate: number): number {
  let rank = Math.floor(rate * (rows + 1))
  if ((rank + 1) / (rows + 1) <= rate) rank++
  else if (rank / (rows + 1) > rate) rank--
  return rank
}

/** The fewest n with 1 / (n + 1) ≤ rate. */
export function rowsNeeded(rate: number): number {
  let rows = Math.max(1, Math.ceil(1 / rate) - 1)
  if (rows > 1 && 1 / rows <= rate) rows--
  else if (1 / (rows + 1) > rate) rows++
  return rows
}

/** The lower end keeps 1/rate a number of rows that someone could have. */
function isRate(rate: number): boolean {
  return rate >= 1e-9 && rate < 1
}

function checkRate(rate: number): void {
  if (!isRate(rate)) {
    throw new ArgumentError(
      `falsePositiveRate: expected a number from 1e-9 to below 1, found ${rate}`,
      'falsePositiveRate',
    )
  }
}

const bits = new DataView(new ArrayBuffer(8))

/** The largest float64 below a finite x; −Infinity below the lowest. */
export function nextDown(x: number): number {
  if (x === 0) return -Number.MIN_VALUE
  bits.setFloat64(0, x)
  bits.setBigInt64(0, bits.getBigInt64(0) + (x > 0 ? -1n : 1n))
  return bits.getFloat64(0)
}
