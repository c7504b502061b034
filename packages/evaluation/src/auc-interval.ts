/**
 * How sure an AUC is: a percentile bootstrap over the rows that were scored (Efron and Tibshirani, "An
 * Introduction to the Bootstrap", 1993, chapter 13), drawn within each class so that both keep their size.
 *
 * It speaks of the sampling of test rows alone. A model fitted to other rows would differ too; that takes
 * repeated fits.
 */
import { ArgumentError, type Rng } from '@oddflow/core'
import { areaOf } from './auc.js'
import { groupByScore, missingClass, type NovelLabels } from './labels.js'

export interface AucIntervalOptions {
  /** Probability that the interval is meant to hold, in (0, 1); default 0.95. */
  readonly level?: number
  /** Resamples, 100 … 100,000; default 1,000. */
  readonly resamples?: number
}

export type AucInterval =
  | { readonly low: number; readonly high: number }
  | { readonly low: null; readonly high: null; readonly reason: string }

/** O(n log n + resamples · n). Throws ArgumentError as `auc`, and for options out of range. */
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
