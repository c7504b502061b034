/**
 * ROC curve: what each possible threshold would catch and what it would cost.
 *
 * One point for each different score, plus the corner (0, 0) where nothing is called novel. Point i belongs to
 * the rule "novel iff score ≤ thresholds[i]". Rows of equal score pass together, so the line between two
 * points over a tie is slanted and no threshold lies on it; measures at a rate therefore step, they do not
 * interpolate (Fawcett, Pattern Recognition Letters 27, 2006, section 5).
 */
import { ArgumentError } from '@oddflow/core'
import { groupByScore, missingClass, type NovelLabels } from './labels.js'

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

export type OperatingPoint =
  | {
      readonly value: number
      /** The rate that this point really has: at most the limit. */
      readonly falsePositiveRate: number
      /** Novel iff score ≤ threshold; −Infinity when only "never" is within the limit. */
      readonly threshold: number
    }
  | { readonly value: null; readonly reason: string }

/**
 * O(n log n), scores higher = more normal. Throws ArgumentError for a score that is NaN, a label that is
 * neither, or unequal lengths.
 */
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

/**
 * The largest true-positive rate of any threshold whose false-positive rate is at most `limit` (in [0, 1]):
 * a rate that can really be had, so never too good. Throws ArgumentError for a limit outside [0, 1].
 */
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
