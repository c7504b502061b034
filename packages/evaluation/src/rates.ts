/**
 * Rates at one threshold: what a detector as it is deployed gets right and wrong (novel iff score ≤ t).
 */
import { ArgumentError } from '@oddflow/core'
import { checkRows, type NovelLabels } from './labels.js'

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
