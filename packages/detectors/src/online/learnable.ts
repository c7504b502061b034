/**
 * What can be learnt: numbers whose squares, and sums of squares over all rows there will ever be, are finite.
 *
 * A mixture's statistics are sums of squared differences. One row of 10¹⁶⁰ makes a sum infinite, the covariance behind it
 * has no Cholesky factor, and nothing that is learnt afterwards mends it. So a row with a number beyond
 * LARGEST_LEARNABLE, or whose point in the embedding has one, teaches nothing: it is judged as all rows are, and then
 * disregarded, whatever was said of it. With 2⁵³ rows of that size a scatter is below 10²⁹⁷.
 *
 * What is read from a file may be a little larger: the guard's made rows lie up to four times as far out as the rows
 * that they were made of.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import { mixtureCovariances } from '../gaussian-mixture.js'
import { typedMixtureCovariances } from '../mixture-types/by-covariance-type.js'
import type { LearningModel } from './learned-state.js'
import type { LearningMixture } from './mixture-statistics.js'

export const LARGEST_LEARNABLE = 1e140
/** Of rows, means and points that a model comes with. */
export const LARGEST_KEPT = 10 * LARGEST_LEARNABLE
/** Of rows that a number may stand for, and of a sum of masses. */
export const LARGEST_MASS = Number.MAX_SAFE_INTEGER

/** Whether none of the `count` numbers from `start` on is larger than `most`, or no number. */
export function areUpTo(most: number, numbers: Float64Array, start = 0, count = numbers.length): boolean {
  for (let i = start; i < start + count; i++) if (!(Math.abs(numbers[i]!) <= most)) return false
  return true
}

/** Throws ArgumentError for the first row with a number that cannot be learnt from, by its number. */
export function checkLearnable({ rows, cols, data }: Matrix, name: string): void {
  for (let i = 0; i < rows; i++) {
    if (!areUpTo(LARGEST_LEARNABLE, data, i * cols, cols)) {
      throw new ArgumentError(
        `${name}: row ${i}: expected numbers of up to ${LARGEST_LEARNABLE} once scaled`,
        name,
      )
    }
  }
}

/** Throws ArgumentError where the model's own numbers are too large to go on from. */
export function checkLearnableModel(model: LearningModel): void {
  const mixture = model.mixture as LearningMixture
  checkUpTo(LARGEST_KEPT, mixture.means.data, 'mixture.means')
  const covariances =
    mixture.covarianceType === 'full' ? mixtureCovariances(mixture) : typedMixtureCovariances(mixture)
  checkUpTo(LARGEST_KEPT * LARGEST_KEPT, covariances, 'mixture.precisionCholesky')
  if (!('embedding' in model)) return
  const { landmarks, projection } = model.embedding
  checkUpTo(LARGEST_KEPT, landmarks.data, 'embedding.landmarks')
  // kernel values are at most 1, so a point is at most the sum
  for (let r = 0; r < projection.rows; r++) {
    let sum = 0
    for (let j = 0; j < projection.cols; j++) sum += Math.abs(projection.data[r * projection.cols + j]!)
    checkUpTo(LARGEST_KEPT, Float64Array.of(sum), 'embedding.projection')
  }
}

function checkUpTo(most: number, numbers: Float64Array, field: string): void {
  if (!areUpTo(most, numbers)) {
    throw new ArgumentError(`${field}: too large to learn on from: expected sizes of up to ${most}`, field)
  }
}
