/**
 * AUC: the chance that a novel row scores below a normal one, ties one half (Mann and Whitney 1947; Hanley and McNeil,
 * Radiology 143, 1982). Counted in whole and half pairs, exact in float64 up to 2^53, then divided once.
 */

import { ArgumentError, log, type Rng } from '@oddflow/core'
import { groupByScore, missingClass, type NovelLabels, type RocCurve, type ScoreGroups } from './roc.js'

/** Standard normal quantiles, to 1 part in 10^16: Wichura, Algorithm AS 241, PPND16 (Applied Statistics 37, 1988). */
const CENTRE = [
  3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946, 45921.95393154987,
  67265.7709270087, 33430.57558358813, 2509.0809287301227,
]
const CENTRE_BELOW = [
  1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597, 39307.89580009271,
  28729.085735721943, 5226.495278852854,
]
const TAIL = [
  1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684,
  0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
]
const TAIL_BELOW = [
  1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008, 0.015198666563616457,
  0.0005475938084995345, 1.0507500716444169e-9,
]
const FAR = [
  6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124,
  0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7,
]
const FAR_BELOW = [
  1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133,
  1.8463183175100548e-5, 1.421511758316446e-7, 2.0442631033899397e-15,
]

/** z with P(Z ≤ z) = p for p in (0, 1). */
export function normalQuantile(p: number): number {
  const q = p - 0.5
  if (Math.abs(q) <= 0.425) {
    const r = 0.180625 - q * q
    return (q * polynomial(CENTRE, r)) / polynomial(CENTRE_BELOW, r)
  }
  const r = Math.sqrt(-log(q < 0 ? p : 1 - p))
  const z =
    r <= 5
      ? polynomial(TAIL, r - 1.6) / polynomial(TAIL_BELOW, r - 1.6)
      : polynomial(FAR, r - 5) / polynomial(FAR_BELOW, r - 5)
  return q < 0 ? -z : z
}

function polynomial(coefficients: readonly number[], x: number): number {
  let value = 0
  for (let i = coefficients.length - 1; i >= 0; i--) value = value * x + coefficients[i]!
  return value
}

/**
 * Partial AUC: the area where false alarms are few (McClish, Medical Decision Making 9, 1989). Her standardised value
 * maps guessing to ½ and perfection to 1 at any limit. Ties are crossed by straight lines, as in the full area.
 */
export type PartialAuc =
  | {
      /** Area from false-positive rate 0 to the limit, in [0, limit]. */
      readonly value: number
      /** (1 + (value − limit²/2) / (limit − limit²/2)) / 2: ½ for guessing, 1 for a perfect detector. */
      readonly standardised: number
    }
  | { readonly value: null; readonly standardised: null; readonly reason: string }

/** Throws ArgumentError unless 0 < limit ≤ 1. At 1 both values are the AUC. */
export function partialAuc(curve: RocCurve, limit: number): PartialAuc {
  if (!(limit > 0 && limit <= 1)) {
    throw new ArgumentError(
      `limit: expected a false-positive rate above 0, at most 1, found ${limit}`,
      'limit',
    )
  }
  const reason = missingClass(curve.novel, curve.normal)
  if (reason !== null) return { value: null, standardised: null, reason }
  const { falsePositiveRates: x, truePositiveRates: y } = curve
  let value = 0
  for (let i = 1; i < x.length && x[i - 1]! < limit; i++) {
    const right = Math.min(x[i]!, limit)
    const width = right - x[i - 1]!
    if (width === 0) continue
    const top = right === x[i] ? y[i]! : y[i - 1]! + ((y[i]! - y[i - 1]!) * width) / (x[i]! - x[i - 1]!)
    value += (width * (y[i - 1]! + top)) / 2
  }
  const guessing = (limit * limit) / 2
  return { value, standardised: (1 + (value - guessing) / (limit - guessing)) / 2 }
}

/** An area under a ROC curve with the rows of each class, or why there is none. */
export type Auc =
  | { readonly value: number; readonly novel: number; readonly normal: number }
  /** Undefined: a class is missing. */
  | { readonly value: null; readonly reason: string; readonly novel: number; readonly normal: number }

/** O(n log n). Throws ArgumentError as `rocCurve`. */
export function auc(scores: ArrayLike<number>, isNovel: NovelLabels): Auc {
  const groups = groupByScore(scores, isNovel)
  const { novelTotal: novel, normalTotal: normal } = groups
  const reason = missingClass(novel, normal)
  if (reason !== null) return { value: null, reason, novel, normal }
  return { value: areaOf(groups.novel, groups.normal, novel, normal), novel, normal }
}

/** AUC from counts per score, lowest score first; both totals positive. */
function areaOf(novel: Float64Array, normal: Float64Array, novelTotal: number, normalTotal: number): number {
  let halfPairs = 0
  let normalAbove = normalTotal
  for (let g = 0; g < novel.length; g++) {
    normalAbove -= normal[g]!
    halfPairs += novel[g]! * (2 * normalAbove + normal[g]!)
  }
  return halfPairs / (2 * novelTotal * normalTotal)
}

/** Options of `aucInterval`. */
export interface AucIntervalOptions {
  /** Probability that the interval is meant to hold, in (0, 1); default 0.95. */
  readonly level?: number
  /** Resamples, 100 … 100,000; default 1,000. */
  readonly resamples?: number
}

/** A confidence interval of an AUC, or why there is none. */
export type AucInterval =
  | { readonly low: number; readonly high: number }
  | { readonly low: null; readonly high: null; readonly reason: string }

/**
 * Percentile bootstrap over the scored rows (Efron and Tibshirani 1993, chapter 13), drawn within each class. It covers
 * the sampling of test rows alone, not that of training rows. O(n log n + resamples · n). Throws ArgumentError as
 * `auc`, and for options out of range.
 */
export function aucInterval(
  scores: ArrayLike<number>,
  isNovel: NovelLabels,
  rng: Rng,
  { level = 0.95, resamples = 1000 }: AucIntervalOptions = {},
): AucInterval {
  if (!(level > 0 && level < 1)) {
    throw new ArgumentError(`level: expected a number between 0 and 1, found ${level}`, 'level')
  }
  if (!Number.isSafeInteger(resamples) || resamples < 100 || resamples > 100_000) {
    throw new ArgumentError(
      `resamples: expected a whole number from 100 to 100000, found ${resamples}`,
      'resamples',
    )
  }
  const groups = groupByScore(scores, isNovel)
  const { novelTotal, normalTotal } = groups
  const reason = missingClass(novelTotal, normalTotal)
  if (reason !== null) return { low: null, high: null, reason }
  const novelOwner = ownersOf(groups.novel, novelTotal)
  const normalOwner = ownersOf(groups.normal, normalTotal)
  const novel = new Float64Array(groups.novel.length)
  const normal = new Float64Array(groups.normal.length)
  const areas = new Float64Array(resamples)
  for (let b = 0; b < resamples; b++) {
    resample(novelOwner, novel, rng)
    resample(normalOwner, normal, rng)
    areas[b] = areaOf(novel, normal, novelTotal, normalTotal)
  }
  areas.sort()
  // ranks outwards, so that the interval is not narrower than asked for
  const skip = Math.floor(((1 - level) / 2) * resamples)
  return { low: areas[skip]!, high: areas[resamples - 1 - skip]! }
}

/** For every row of a class, the score group that it belongs to. */
function ownersOf(counts: Float64Array, total: number): Uint32Array {
  const owners = new Uint32Array(total)
  let at = 0
  for (let g = 0; g < counts.length; g++) {
    owners.fill(g, at, at + counts[g]!)
    at += counts[g]!
  }
  return owners
}

function resample(owners: Uint32Array, counts: Float64Array, rng: Rng): void {
  counts.fill(0)
  for (let i = 0; i < owners.length; i++) counts[owners[rng.nextBelow(owners.length)]!]!++
}

/**
 * DeLong's variance of an AUC from one sample (Biometrics 44, 1988), by sorted groups (Sun and Xu, IEEE Signal
 * Processing Letters 21, 2014). The interval is normal, cut at 0 and 1; near 1 with few rows `aucInterval` is better.
 */
export type DeLongInterval =
  | { readonly value: number; readonly variance: number; readonly low: number; readonly high: number }
  | { readonly value: null; readonly reason: string }

/** O(n log n). Throws ArgumentError as `auc`; null with a reason when a class has fewer than two rows. */
export function delongInterval(
  scores: ArrayLike<number>,
  isNovel: NovelLabels,
  { level = 0.95 }: { readonly level?: number } = {},
): DeLongInterval {
  if (!(level > 0 && level < 1)) {
    throw new ArgumentError(`level: expected a number between 0 and 1, found ${level}`, 'level')
  }
  const groups = groupByScore(scores, isNovel)
  const { novelTotal, normalTotal } = groups
  const reason = missingClass(novelTotal, normalTotal)
  if (reason !== null) return { value: null, reason }
  if (novelTotal < 2 || normalTotal < 2) {
    const few = novelTotal < 2 ? 'novel' : 'normal'
    return { value: null, reason: `there is one ${few} row, and a variance needs two` }
  }
  const value = areaOf(groups.novel, groups.normal, novelTotal, normalTotal)
  const variance = varianceOf(groups, value)
  const margin = normalQuantile((1 + level) / 2) * Math.sqrt(variance)
  return { value, variance, low: Math.max(0, value - margin), high: Math.min(1, value + margin) }
}

function varianceOf({ novel, normal, novelTotal, normalTotal }: ScoreGroups, value: number): number {
  let ofNovel = 0
  let ofNormal = 0
  let novelBelow = 0
  let normalAbove = normalTotal
  for (let g = 0; g < novel.length; g++) {
    normalAbove -= normal[g]!
    const novelDeviation = (normalAbove + normal[g]! / 2) / normalTotal - value
    const normalDeviation = (novelBelow + novel[g]! / 2) / novelTotal - value
    ofNovel += novel[g]! * novelDeviation * novelDeviation
    ofNormal += normal[g]! * normalDeviation * normalDeviation
    novelBelow += novel[g]!
  }
  return ofNovel / (novelTotal - 1) / novelTotal + ofNormal / (normalTotal - 1) / normalTotal
}
