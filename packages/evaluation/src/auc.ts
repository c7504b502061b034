/**
 * AUC: the chance that a novel row scores below a normal one, ties counted one half (Mann and Whitney 1947;
 * Hanley and McNeil, Radiology 143, 1982). Equal to the area under the ROC curve by trapezoids.
 *
 * Counted in whole and half pairs, which float64 holds exactly up to 2^53 of them, then divided once.
 */
import { groupByScore, missingClass, type NovelLabels } from './labels.js'

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
export function areaOf(
  novel: Float64Array,
  normal: Float64Array,
  novelTotal: number,
  normalTotal: number,
): number {
  let halfPairs = 0
  let normalAbove = normalTotal
  for (let g = 0; g < novel.length; g++) {
    normalAbove -= normal[g]!
    halfPairs += novel[g]! * (2 * normalAbove + normal[g]!)
  }
  return halfPairs / (2 * novelTotal * normalTotal)
}
