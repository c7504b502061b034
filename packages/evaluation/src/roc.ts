/**
 * ROC curve: one point for each different score, and (0, 0). Point i is the rule "novel iff score ≤ thresholds[i]".
 * Rows of equal score pass together, so rates step and are not interpolated (Fawcett, Pattern Recognition Letters 27,
 * 2006).
 */
import { ArgumentError } from '@oddflow/core'

/** Scores and labels, checked and sorted once. Higher is more normal, novel the positive class, equal scores count together. */

/** One entry a row: true or 1 = novel, false or 0 = normal. */
export type NovelLabels = ArrayLike<boolean | number>

/** Rows grouped by score, lowest (most novel) first. */
export interface ScoreGroups {
  /** The different scores, ascending. */
  readonly scores: Float64Array
  /** Novel and normal rows that have each score. */
  readonly novel: Float64Array
  readonly normal: Float64Array
  readonly novelTotal: number
  readonly normalTotal: number
}

/** O(n log n). Throws ArgumentError for unequal lengths, a score that is NaN, a label that is neither. */
export function groupByScore(scores: ArrayLike<number>, isNovel: NovelLabels): ScoreGroups {
  const n = checkRows(scores, isNovel)
  const novelScores = new Float64Array(n)
  const normalScores = new Float64Array(n)
  let novelTotal = 0
  let normalTotal = 0
  for (let i = 0; i < n; i++) {
    // + 0 makes negative zero positive: the two are one score
    if (isNovel[i]) novelScores[novelTotal++] = scores[i]! + 0
    else normalScores[normalTotal++] = scores[i]! + 0
  }
  const a = novelScores.subarray(0, novelTotal).sort()
  const b = normalScores.subarray(0, normalTotal).sort()
  const different = new Float64Array(n)
  const novel = new Float64Array(n)
  const normal = new Float64Array(n)
  let groups = 0
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    const score = j === b.length || (i < a.length && a[i]! < b[j]!) ? a[i]! : b[j]!
    different[groups] = score
    while (i < a.length && a[i] === score) {
      novel[groups]!++
      i++
    }
    while (j < b.length && b[j] === score) {
      normal[groups]!++
      j++
    }
    groups++
  }
  return {
    scores: different.slice(0, groups),
    novel: novel.slice(0, groups),
    normal: normal.slice(0, groups),
    novelTotal,
    normalTotal,
  }
}

/** The number of rows. */
function checkRows(scores: ArrayLike<number>, isNovel: NovelLabels): number {
  const n = scores.length
  if (isNovel.length !== n) {
    throw new ArgumentError(`isNovel: expected ${n} labels, one a score, found ${isNovel.length}`, 'isNovel')
  }
  for (let i = 0; i < n; i++) {
    const score = scores[i]
    if (typeof score !== 'number' || Number.isNaN(score)) {
      throw new ArgumentError(`scores[${i}]: expected a number, found ${score}`, 'scores')
    }
    const label = isNovel[i]
    if (label !== true && label !== false && label !== 0 && label !== 1) {
      throw new ArgumentError(`isNovel[${i}]: expected true, false, 1 or 0, found ${label}`, 'isNovel')
    }
  }
  return n
}

/** Why a measure that compares two classes is undefined, or null when both are there. */
export function missingClass(novelTotal: number, normalTotal: number): string | null {
  if (novelTotal === 0 && normalTotal === 0) return 'there are no rows'
  if (novelTotal === 0) return 'there are no novel rows'
  return normalTotal === 0 ? 'there are no normal rows' : null
}

/** What a detector at one threshold gets right and wrong (novel iff score ≤ threshold). */
export interface Rates {
  readonly truePositives: number
  readonly falsePositives: number
  readonly trueNegatives: number
  readonly falseNegatives: number
  /** Share of novel rows called novel; null without novel rows. */
  readonly truePositiveRate: number | null
  /** Share of normal rows called novel; null without normal rows. */
  readonly falsePositiveRate: number | null
  /** Share of the rows called novel that are; null when none is. */
  readonly precision: number | null
}

/** O(n). Throws ArgumentError as `rocCurve`, and for a threshold that is NaN. */
export function ratesAtThreshold(scores: ArrayLike<number>, isNovel: NovelLabels, threshold: number): Rates {
  if (Number.isNaN(threshold)) throw new ArgumentError('threshold: expected a number, found NaN', 'threshold')
  const n = checkRows(scores, isNovel)
  let truePositives = 0
  let falsePositives = 0
  let novel = 0
  for (let i = 0; i < n; i++) {
    const called = scores[i]! <= threshold
    if (isNovel[i]) {
      novel++
      if (called) truePositives++
    } else if (called) falsePositives++
  }
  const share = (part: number, of: number): number | null => (of === 0 ? null : part / of)
  return {
    truePositives,
    falsePositives,
    trueNegatives: n - novel - falsePositives,
    falseNegatives: novel - truePositives,
    truePositiveRate: share(truePositives, novel),
    falsePositiveRate: share(falsePositives, n - novel),
    precision: share(truePositives, truePositives + falsePositives),
  }
}

/**
 * Precision and recall depend on the share of novel rows, so samples of different make-up do not compare (Davis and
 * Goadrich, ICML 2006). Average precision sums steps without interpolation, which would promise precision that no
 * threshold has.
 */
export interface PrecisionRecallCurve {
  /** Ascending; point i belongs to the rule "novel iff score ≤ thresholds[i]". */
  readonly thresholds: Float64Array
  /** Share of the rows called novel that are. */
  readonly precisions: Float64Array
  /** Share of the novel rows called novel, rising to 1; all NaN when there are no novel rows. */
  readonly recalls: Float64Array
  readonly novel: number
  readonly normal: number
}

/** An average precision, or why there is none. */
export type AveragePrecision =
  /** `guessing`: the share of novel rows, which is what scores without meaning give on average. */
  { readonly value: number; readonly guessing: number } | { readonly value: null; readonly reason: string }

/** O(n log n). Throws ArgumentError as `rocCurve`. */
export function precisionRecallCurve(scores: ArrayLike<number>, isNovel: NovelLabels): PrecisionRecallCurve {
  const groups = groupByScore(scores, isNovel)
  const points = groups.scores.length
  const precisions = new Float64Array(points)
  const recalls = new Float64Array(points)
  let truePositives = 0
  let called = 0
  for (let i = 0; i < points; i++) {
    truePositives += groups.novel[i]!
    called += groups.novel[i]! + groups.normal[i]!
    precisions[i] = truePositives / called
    recalls[i] = truePositives / groups.novelTotal
  }
  return {
    thresholds: groups.scores,
    precisions,
    recalls,
    novel: groups.novelTotal,
    normal: groups.normalTotal,
  }
}

/** O(n log n), in (0, 1]; equal to scikit-learn's `average_precision_score`. Throws ArgumentError as `rocCurve`. */
export function averagePrecision(scores: ArrayLike<number>, isNovel: NovelLabels): AveragePrecision {
  const { precisions, recalls, novel, normal } = precisionRecallCurve(scores, isNovel)
  const reason = missingClass(novel, normal)
  if (reason !== null && novel === 0) return { value: null, reason }
  let value = 0
  let before = 0
  for (let i = 0; i < recalls.length; i++) {
    value += precisions[i]! * (recalls[i]! - before)
    before = recalls[i]!
  }
  return { value, guessing: novel / (novel + normal) }
}

/** The points of a ROC curve, in arrays of one length. */
export interface RocCurve {
  /** Ascending; the first is −Infinity. */
  readonly thresholds: Float64Array
  /** Share of normal rows called novel, from 0 to 1; all NaN when there are no normal rows. */
  readonly falsePositiveRates: Float64Array
  /** Share of novel rows called novel, from 0 to 1; all NaN when there are no novel rows. */
  readonly truePositiveRates: Float64Array
  readonly novel: number
  readonly normal: number
}

/** The true-positive rate at a false-positive rate, and its threshold; or why there is none. */
export type OperatingPoint =
  | {
      readonly value: number
      /** The rate that this point really has: at most the limit. */
      readonly falsePositiveRate: number
      /** Novel iff score ≤ threshold; −Infinity when only "never" is within the limit. */
      readonly threshold: number
    }
  | { readonly value: null; readonly reason: string }

/** O(n log n). Throws ArgumentError for a score that is NaN, a label that is neither, or unequal lengths. */
export function rocCurve(scores: ArrayLike<number>, isNovel: NovelLabels): RocCurve {
  const groups = groupByScore(scores, isNovel)
  const points = groups.scores.length + 1
  const thresholds = new Float64Array(points)
  const falsePositiveRates = new Float64Array(points)
  const truePositiveRates = new Float64Array(points)
  thresholds[0] = Number.NEGATIVE_INFINITY
  let falsePositives = 0
  let truePositives = 0
  for (let i = 0; i < points; i++) {
    if (i > 0) {
      thresholds[i] = groups.scores[i - 1]!
      falsePositives += groups.normal[i - 1]!
      truePositives += groups.novel[i - 1]!
    }
    falsePositiveRates[i] = falsePositives / groups.normalTotal
    truePositiveRates[i] = truePositives / groups.novelTotal
  }
  return {
    thresholds,
    falsePositiveRates,
    truePositiveRates,
    novel: groups.novelTotal,
    normal: groups.normalTotal,
  }
}

/** The largest true-positive rate with a false-positive rate of at most `limit`. Throws ArgumentError outside [0, 1]. */
export function tprAtFpr(curve: RocCurve, limit: number): OperatingPoint {
  if (!(limit >= 0 && limit <= 1)) {
    throw new ArgumentError(`limit: expected a false-positive rate from 0 to 1, found ${limit}`, 'limit')
  }
  const reason = missingClass(curve.novel, curve.normal)
  if (reason !== null) return { value: null, reason }
  // both rates rise with the threshold: the last point within the limit is the best one
  let low = 0
  let high = curve.thresholds.length - 1
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (curve.falsePositiveRates[middle]! <= limit) low = middle
    else high = middle - 1
  }
  // of several points with this true-positive rate, the one with the fewest false alarms
  while (low > 0 && curve.truePositiveRates[low - 1] === curve.truePositiveRates[low]) low--
  return {
    value: curve.truePositiveRates[low]!,
    falsePositiveRate: curve.falsePositiveRates[low]!,
    threshold: curve.thresholds[low]!,
  }
}
