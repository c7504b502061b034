/**
 * Precision and recall: of the rows called novel, how many are; of the novel rows, how many are called so.
 *
 * Unlike the ROC curve these depend on how many novel rows there are, so figures from samples of different
 * make-up do not compare (Davis and Goadrich, "The relationship between precision-recall and ROC curves", ICML
 * 2006). One point for each different score, since rows of equal score are called alike; average precision is
 * the sum of precision times the step in recall over these points, with no interpolation, which would promise
 * precision that no threshold has.
 */
import { groupByScore, missingClass, type NovelLabels } from './labels.js'

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
