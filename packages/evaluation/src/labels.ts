/**
 * Scores and labels, checked once and sorted once: what every measure here starts from.
 *
 * Scores are OddFlow's: higher = more normal. Novel is the positive class. A row is called novel at
 * threshold t when its score ≤ t, so rows of equal score are called alike and can only be counted together.
 */
import { ArgumentError } from '@oddflow/core'

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
export function checkRows(scores: ArrayLike<number>, isNovel: NovelLabels): number {
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
