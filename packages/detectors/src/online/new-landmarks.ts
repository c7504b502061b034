/**
 * Rows that become landmarks: drawn at random of those learnt since the last change and of those that wait to be learnt.
 *
 * What waits is what the embedding sees least of, so it comes first, for up to half of the places; the rest stands for
 * what has become of the traffic that the embedding knows. A row that equals a landmark adds nothing, and one that
 * the model's precision cannot hold is none.
 *
 * A landmark vouches for whatever comes near it: there the support is as high as it can be, and the embedding has a
 * direction of its own. One stray row may be learnt, as a component of one row's weight; as a landmark it would open the
 * whole of its surroundings. So a row becomes one only where it has its like, as many as confirm a row on hold.
 */
import { type Matrix, type Rng, shuffleInPlace, takeRows } from '@oddflow/core'
import { LARGEST_FLOAT32, type Precision, squaredDistance } from '@oddflow/linalg'
import type { EmbeddedMixtureModel } from '../model.js'
import { likeReach } from './held-rows.js'
import type { LearningWork } from './learning-work.js'

/** At most `wanted` rows, scaled and rounded as landmarks are kept; none twice. */
export function newLandmarks(work: LearningWork, wanted: number, rng: Rng): Matrix {
  const candidates = work.landmarkCandidates()
  const { landmarks } = work.sketch!.embedding
  const { precision } = (work.model as EmbeddedMixtureModel).parameters
  const { cols } = candidates
  const waiting = work.pending.count
  const draw = rng.fork('candidates')
  const shuffled = (from: number, to: number): number[] => [
    ...shuffleInPlace(
      Uint32Array.from({ length: to - from }, (_, i) => from + i),
      draw,
    ),
  ]
  const like = haveTheirLike(work, candidates)
  const first = shuffled(0, waiting).filter((row) => like[row] === 1)
  const rest = shuffled(waiting, candidates.rows).filter((row) => like[row] === 1)
  const half = Math.min(first.length, Math.max(Math.ceil(wanted / 2), wanted - rest.length))
  const order = [...first.slice(0, half), ...rest, ...first.slice(half)]
  const chosen: number[] = []
  const isNew = (row: number): boolean => {
    for (let c = 0; c < cols; c++) {
      if (precision === 'f32' && Math.abs(candidates.data[row * cols + c]!) > LARGEST_FLOAT32) return false
    }
    for (let j = 0; j < landmarks.rows; j++) {
      if (squaredDistance(candidates.data, row * cols, landmarks.data, j * cols, cols) === 0) return false
    }
    return chosen.every(
      (other) => squaredDistance(candidates.data, row * cols, candidates.data, other * cols, cols) > 0,
    )
  }
  for (const row of order) {
    if (chosen.length === wanted) break
    if (isNew(row)) chosen.push(row)
  }
  return roundedTo(precision, takeRows(candidates, chosen))
}

/** As landmarks of that precision are kept. */
function roundedTo(precision: Precision, rows: Matrix): Matrix {
  return precision === 'f64' ? rows : { ...rows, data: rows.data.map(Math.fround) }
}

/** For each of the rows, 1 where enough rows like it, with itself, are among them and in the reservoir; one in both counts twice. */
export function haveTheirLike(work: LearningWork, rows: Matrix): Uint8Array {
  const { reservoir, options } = work
  const { bandwidth } = work.sketch!.embedding
  const reach = likeReach(bandwidth)
  const { cols, data } = rows
  const isLike = (i: number, of: Float64Array, j: number): boolean =>
    squaredDistance(data, i * cols, of, j * cols, cols) <= reach
  return Uint8Array.from({ length: rows.rows }, (_, i) => {
    let count = 0
    for (let j = 0; j < rows.rows && count < options.confirmRows; j++) if (isLike(i, data, j)) count++
    for (let j = 0; j < reservoir.count && count < options.confirmRows; j++) {
      if (isLike(i, reservoir.data, j)) count++
    }
    return Number(count >= options.confirmRows)
  })
}
