/**
 * Whether the traffic has moved away from the landmarks while the model went on finding it normal.
 *
 * A gradual change is learnt row by row: the mixture follows, and nothing is ever new enough to be held or confirmed. The
 * landmarks stay where the traffic was. Then all rows are a good way from the nearest of them, the support guard's
 * reaches grow until they do not mind, and novel rows that are no farther away pass with them.
 *
 * Landmarks are rows of the traffic themselves. So rows that have not moved lie as near to their nearest landmark as
 * landmarks lie to the nearest other one. The signal is by how much too few do: Kolmogorov's D⁺ between the two,
 *
 *     D⁺ = max over x of  F(x) − G(x),     F of the landmarks' squared distances, G of the rows' learnt lately
 *
 * It speaks beyond the effect that drift signals speak of (drift-signals.ts) and beyond Smirnov's bound for samples of these
 * sizes; a poisoner of fewer rows than that share cannot make it speak. It falls silent by itself, as rows become
 * landmarks. Only rows that could become one are asked (new-landmarks.ts), or it would be others that are too far.
 */
import { log, type Matrix, takeRows } from '@oddflow/core'
import { COMMON_SHARE } from '../support-guard.js'
import { DRIFT_BOUNDS } from './drift-signals.js'
import { nearestLandmarks } from './guard-update.js'
import type { LearningWork } from './learning-work.js'
import { haveTheirLike } from './new-landmarks.js'

/** Probability of a larger D⁺ where nothing has moved. */
const FALSE_ALARM = 0.001

export function rowsHaveMoved(work: LearningWork): boolean {
  const { landmarks } = work.sketch!.embedding
  const own = nearestSquares(landmarks, landmarks)
  const { rows } = work.fresh.entries()
  // those that could not become landmarks are left out only when it matters: they take the most time to find
  if (!isFarther(nearestSquares(landmarks, rows), own)) return false
  const like = haveTheirLike(work, rows)
  const chosen = Array.from(like.keys()).filter((i) => like[i] === 1)
  return isFarther(nearestSquares(landmarks, takeRows(rows, chosen)), own)
}

/** Squared distances to the nearest landmark, ascending; of a landmark, to the nearest other one. */
function nearestSquares(landmarks: Matrix, { rows, data }: Matrix): Float64Array {
  const kept = { count: rows, rows: data, weights: new Float64Array(0) }
  return nearestLandmarks(landmarks, kept).squares.sort()
}

function isFarther(rows: Float64Array, landmarks: Float64Array): boolean {
  if (rows.length === 0) return false
  const bound = Math.sqrt((-log(FALSE_ALARM) / 2) * (1 / rows.length + 1 / landmarks.length))
  return excessOf(landmarks, rows) > Math.max(DRIFT_BOUNDS.distance, bound)
}

/**
 * D⁺ of two ascending lists: the largest share by which more of the first than of the second are up to a number. What is
 * equal but for the last digits counts as equal: a thousandth of the first's mean is neglected.
 */
export function excessOf(first: Float64Array, second: Float64Array): number {
  let mean = 0
  for (const value of first) mean += value / first.length
  const slack = COMMON_SHARE * mean
  let excess = 0
  let upTo = 0
  for (let i = 0; i < first.length; i++) {
    while (upTo < second.length && second[upTo]! <= first[i]! + slack) upTo++
    excess = Math.max(excess, (i + 1) / first.length - upTo / second.length)
  }
  return excess
}
