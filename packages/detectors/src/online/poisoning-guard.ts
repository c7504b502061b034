/**
 * The guard against poisoning: what an update must not do, whatever it was fed.
 *
 * Whoever can send traffic can teach a model that learns by itself, a little at a time. So the model keeps two lists
 * from its beginning, and what the frozen model said of them: rows known to be novel (given by the caller, or
 * points made far from the normal ones) and rows known to be normal. An update that has more than a bound of the
 * first pass for normal, or more than a bound of the second for novel, is refused and undone. The bounds are
 * against the frozen model, not against the last update: many small steps count as the one that they add up to.
 * What passes is judged by the known-normal rows, not by the threshold, which depends on the lowest few of the rows
 * that it was calibrated with: a known-novel row passes when it scores above the lowest twentieth of them.
 *
 * Points are made in three ways from rows that are normal, and those kept that the frozen model finds novel: each
 * number from another row (every number is normal, their combination is not); on the line through two rows,
 * beyond them; and between two rows.
 */
import { createMatrix, type Matrix, type Rng, takeRows } from '@oddflow/core'

export const MAXIMUM_REFERENCE_ROWS = 300

/** Candidates for far points, from rows (n × D, n ≥ 2) that are normal: three for each of `count`. */
export function farPoints({ rows: n, cols, data }: Matrix, count: number, rng: Rng): Matrix {
  const out = createMatrix(3 * count, cols)
  for (let i = 0; i < count; i++) {
    const a = rng.nextBelow(n)
    const b = rng.nextBelow(n)
    const beyond = 1.5 + 2.5 * rng.nextFloat()
    const between = 0.25 + 0.5 * rng.nextFloat()
    for (let c = 0; c < cols; c++) {
      const from = data[a * cols + c]!
      const to = data[b * cols + c]!
      out.data[3 * i * cols + c] = data[rng.nextBelow(n) * cols + c]!
      out.data[(3 * i + 1) * cols + c] = from + beyond * (to - from)
      out.data[(3 * i + 2) * cols + c] = from + between * (to - from)
    }
  }
  return out
}

/** The rows whose score is above the threshold (`normal`), or is not; the first MAXIMUM_REFERENCE_ROWS of them. */
export function rowsThatAre(normal: boolean, rows: Matrix, scores: Float64Array, threshold: number): Matrix {
  const chosen: number[] = []
  for (let i = 0; i < rows.rows && chosen.length < MAXIMUM_REFERENCE_ROWS; i++) {
    if (scores[i]! > threshold === normal) chosen.push(i)
  }
  return takeRows(rows, chosen)
}

/** The score that a known-novel row must not be above: of the known-normal rows a twentieth has no more. */
export function passingScore(knownNormal: Float64Array): number {
  if (knownNormal.length === 0) return Number.NEGATIVE_INFINITY
  return knownNormal.slice().sort()[Math.floor(PASSING_SHARE * (knownNormal.length - 1))]!
}

const PASSING_SHARE = 0.05

/** Share of scores above the threshold (`normal`), or not above it; 0 of none. */
export function shareThatIs(normal: boolean, scores: Float64Array, threshold: number): number {
  if (scores.length === 0) return 0
  let count = 0
  for (const score of scores) if (score > threshold === normal) count++
  return count / scores.length
}
