/**
 * Mixtures of any covariance type, where the caller does not know which it has.
 */
import { type Matrix, matrixOf } from '@oddflow/core'
import { maximiseFull } from './full-covariances.js'
import {
  mixtureOf,
  momentsOf,
  packTypedMixture,
  typedLogDensitiesInto,
} from './mixture-types/by-covariance-type.js'
import type { TypedMixture } from './mixture-types/typed-mixture.js'
import type { MixtureModel } from './model.js'
import { componentLogDensitiesInto, packMixture } from './packed-mixture.js'

export type Mixture = MixtureModel | TypedMixture

/** Writes out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z at `start`. */
export type LogDensitiesInto = (
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
) => void

/** For one caller at a time. */
export function componentLogDensities(mixture: Mixture): LogDensitiesInto {
  if (mixture.covarianceType === 'full') {
    const packed = packMixture(mixture)
    return (point, start, out, outStart) => componentLogDensitiesInto(packed, point, start, out, outStart)
  }
  const packed = packTypedMixture(mixture)
  return (point, start, out, outStart) => typedLogDensitiesInto(packed, point, start, out, outStart)
}

/**
 * The M-step: of mixtures of the type of `like` the one of largest expected likelihood of `points` (n × d) under
 * `responsibilities` (n × k). undefined when a covariance is not positive definite and finite.
 */
export function maximise<M extends Mixture>(
  like: M,
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): M | undefined {
  const found =
    like.covarianceType === 'full'
      ? maximiseFull(points, responsibilities, regularisation)
      : mixtureOf(
          like.covarianceType,
          momentsOf(like.covarianceType, points, responsibilities, regularisation),
        )
  return found as M | undefined
}

/** A component of less than so much of one row is empty. */
const EMPTY_ROWS = 1e-6

/**
 * The mixture without components of less than 1e-6 of one of the `rows` rows, weights summing to 1 again; the
 * same mixture when there are none.
 */
export function withoutEmptyComponents<M extends Mixture>(mixture: M, rows: number): M {
  const kept: number[] = []
  mixture.weights.forEach((weight, j) => {
    if (weight * rows >= EMPTY_ROWS) kept.push(j)
  })
  const k = mixture.weights.length
  if (kept.length === k) return mixture
  const partsOf = (values: Float64Array): Float64Array => {
    const size = values.length / k
    return Float64Array.from({ length: kept.length * size }, (_, at) => {
      return values[kept[Math.floor(at / size)]! * size + (at % size)]!
    })
  }
  const weights = partsOf(mixture.weights)
  const total = weights.reduce((a, b) => a + b, 0)
  return {
    ...mixture,
    weights: weights.map((w) => w / total),
    means: matrixOf(kept.length, mixture.means.cols, partsOf(mixture.means.data)),
    precisionCholesky:
      mixture.covarianceType === 'tied' ? mixture.precisionCholesky : partsOf(mixture.precisionCholesky),
  }
}
