/**
 * Threshold: from "I can bear this share of false alarms" to a number that scores are compared with.
 *
 * Split-conformal calibration (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005;
 * for outliers Bates et al., Annals of Statistics 51, 2023): score n normal rows that the fit has not seen,
 * let r = floor(fpr · (n + 1)), and call a row novel when its score lies below the r-th smallest of theirs.
 * If the next normal row is exchangeable with those n, the chance of a false alarm is at most
 * r / (n + 1) ≤ fpr: for every n, whatever the detector, and for any distribution of scores, ties included.
 * The chance is over calibration rows and next row together; one calibration set can be lucky or unlucky, by
 * about √(fpr / n).
 *
 * Verdicts are `novel iff score ≤ threshold`, so the value kept is the largest float64 below the r-th
 * smallest score. That one step matters: traffic repeats itself, equal rows have bit-equal scores, and a
 * threshold at the score itself would flag every copy of it, beyond the tolerance. For the same reason no
 * more than r − 1 of the calibration rows lie at or below the value, however many scores are tied.
 *
 * With fewer than 1/fpr − 1 rows r is 0 and only "never" keeps the promise. A watcher that never speaks is
 * of no use, so the lowest score is taken (r = 1) and the record says that the promise does not hold and how
 * many rows it needs.
 */
import { ArgumentError, DataError, FormatError } from '@oddflow/core'
import { describeValue } from './model-fields.js'

export interface ThresholdCalibration {
  readonly method: 'split-conformal'
  /** n, the rows that calibrated it; none of them was used in the fit. */
  readonly rows: number
  /** r, counted from the smallest score; at least 1. */
  readonly rank: number
  /** r / (n + 1): the bound on the false-positive rate. */
  readonly bound: number
  /** Whether the bound is within the tolerance asked for. */
  readonly guaranteed: boolean
  /** The fewest rows with which it would be. */
  readonly rowsNeeded: number
}

export interface Threshold {
  /** Novel iff score ≤ value. */
  readonly value: number
  /** The tolerance that was asked for, from 1e-9 to below 1. */
  readonly falsePositiveRate: number
  readonly calibration: ThresholdCalibration
}

/**
 * Learns a threshold from the scores (higher = more normal) of normal rows that were not used to fit.
 * Throws ArgumentError for a rate outside [1e-9, 1), DataError for no scores or one that is not finite.
 */
export function calibrateThreshold(scores: Float64Array, falsePositiveRate: number): Threshold {
  checkRate(falsePositiveRate)
  if (scores.length === 0) throw new DataError('threshold: expected at least one calibration row, found none')
  for (let i = 0; i < scores.length; i++) {
    // the lowest float64 of all has no threshold below it
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

/** decision = score − threshold: above 0 normal. The sign is exact, since unequal float64 differ by non-zero. */
export function decisionFunction(score: number, threshold: Threshold): number {
  return score - threshold.value
}

/** Novel iff score ≤ threshold; a score that is not a number is novel. */
export function isNovel(score: number, threshold: Threshold): boolean {
  return !(score > threshold.value)
}

/** +1 normal, −1 novel. */
export function predict(score: number, threshold: Threshold): 1 | -1 {
  return isNovel(score, threshold) ? -1 : 1
}

/** −score: higher = more novel, for tools that expect it so. */
export function anomalyScore(score: number): number {
  return -score
}

/** Checks a threshold that was read from a file, down to its arithmetic. Throws FormatError with the field. */
export function checkThreshold(value: unknown): Threshold {
  const fail = (field: string, expected: string, found: unknown): never => {
    const name = field === '' ? 'threshold' : `threshold.${field}`
    throw new FormatError('model-file', `${name}: expected ${expected}, found ${describeValue(found)}`, {
      field: name,
    })
  }
  const record = (of: unknown, field: string, keys: readonly string[]): Record<string, unknown> => {
    if (of === null || typeof of !== 'object' || Array.isArray(of)) return fail(field, 'an object', of)
    for (const key of Object.keys(of)) {
      if (!keys.includes(key)) return fail(field === '' ? key : `${field}.${key}`, 'no such field', 1)
    }
    return of as Record<string, unknown>
  }
  const t = record(value, '', ['value', 'falsePositiveRate', 'calibration'])
  const c = record(t.calibration, 'calibration', Object.keys(CALIBRATION_FIELDS))
  const threshold = t.value
  if (typeof threshold !== 'number' || !Number.isFinite(threshold))
    return fail('value', 'a number', threshold)
  const rate = t.falsePositiveRate
  if (typeof rate !== 'number' || !isRate(rate)) {
    return fail('falsePositiveRate', 'a number from 1e-9 to below 1', rate)
  }
  if (c.method !== 'split-conformal') return fail('calibration.method', 'split-conformal', c.method)
  const rows = c.rows
  if (typeof rows !== 'number' || !Number.isSafeInteger(rows) || rows < 1) {
    return fail('calibration.rows', 'a whole number of 1 or more', rows)
  }
  const calibration = describeCalibration(rows, Math.max(1, conformalRank(rows, rate)), rate)
  for (const key of ['rank', 'bound', 'guaranteed', 'rowsNeeded'] as const) {
    if (c[key] !== calibration[key]) return fail(`calibration.${key}`, String(calibration[key]), c[key])
  }
  return { value: threshold, falsePositiveRate: rate, calibration }
}

const CALIBRATION_FIELDS: Record<keyof ThresholdCalibration, true> = {
  method: true,
  rows: true,
  rank: true,
  bound: true,
  guaranteed: true,
  rowsNeeded: true,
}

function describeCalibration(rows: number, rank: number, rate: number): ThresholdCalibration {
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

/** The lower end keeps 1/rate a whole number of rows that somebody could have. */
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
