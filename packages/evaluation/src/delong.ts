/**
 * DeLong's variance of an AUC: how much it would change on other test rows, from one sample, without
 * resampling (DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988).
 *
 * Each novel row has a placement, the share of normal rows that score above it (ties one half), each normal row
 * the share of novel rows below it; the AUC is the mean of either, and its variance the sum of their sample
 * variances over their numbers. Rows of equal score have equal placements, so sorted groups are enough and
 * the cost is a sort (Sun and Xu, IEEE Signal Processing Letters 21, 2014).
 *
 * The interval is normal and cut at 0 and 1. Near 1 with few rows the bootstrap (`aucInterval`) is the better
 * one: the variance of a perfect separation is 0 here, which says nothing of its certainty.
 */
import { ArgumentError } from '@oddflow/core'
import { areaOf } from './auc.js'
import { groupByScore, missingClass, type NovelLabels, type ScoreGroups } from './labels.js'
import { normalQuantile } from './normal-quantile.js'

export type DeLongInterval =
  | { readonly value: number; readonly variance: number; readonly low: number; readonly high: number }
  | { readonly value: null; readonly reason: string }

/**
 * AUC with variance and interval at `level` in (0, 1), default 0.95. O(n log n). Throws ArgumentError as `auc`;
 * null with a reason when either class has fewer than two rows, which no variance can be had from.
 */
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
