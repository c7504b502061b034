/**
 * Gaussian mixtures with full covariances: making one, and what can be asked of one outside the hot path.
 *
 * Densities themselves are in packed-mixture.ts.
 */
import { ArgumentError, type Matrix, matrixOf } from '@oddflow/core'
import { choleskyInto, invertLowerInPlace, logSumExp } from '@oddflow/linalg'
import type { MixtureModel } from './model.js'
import { componentLogDensitiesInto, packMixture } from './packed-mixture.js'

/** Log-density of each row of `points` (n × d), for cold paths. */
export function mixtureLogDensities(mixture: MixtureModel, points: Matrix): Float64Array {
  const packed = packMixture(mixture)
  const terms = new Float64Array(packed.k)
  const out = new Float64Array(points.rows)
  for (let i = 0; i < points.rows; i++) {
    componentLogDensitiesInto(packed, points.data, i * points.cols, terms, 0)
    out[i] = logSumExp(terms, 0, packed.k)
  }
  return out
}

/**
 * Turns k covariances (k·d·d, row-major, lower triangles read) into precision factors, in place. Returns the
 * number of the first covariance that is not positive definite, −1 when there is none.
 */
export function precisionCholeskyInPlace(covariances: Float64Array, k: number, d: number): number {
  for (let j = 0; j < k; j++) {
    if (!choleskyInto(covariances, j * d * d, d, covariances, j * d * d)) return j
    invertLowerInPlace(covariances, j * d * d, d)
  }
  return -1
}

/** Covariances of the components (k·d·d, row-major, symmetric): what ellipses are drawn from. */
export function mixtureCovariances({ weights, means, precisionCholesky }: MixtureModel): Float64Array {
  const d = means.cols
  const out = new Float64Array(precisionCholesky.length)
  const factor = new Float64Array(d * d)
  for (let j = 0; j < weights.length; j++) {
    factor.set(precisionCholesky.subarray(j * d * d, (j + 1) * d * d))
    invertLowerInPlace(factor, 0, d)
    // factor is L with Σ = L·Lᵀ
    for (let a = 0; a < d; a++) {
      for (let b = 0; b <= a; b++) {
        let sum = 0
        for (let t = 0; t <= b; t++) sum += factor[a * d + t]! * factor[b * d + t]!
        out[(j * d + a) * d + b] = sum
        out[(j * d + b) * d + a] = sum
      }
    }
  }
  return out
}

/**
 * A mixture from weights (k), means (k × d) and covariances (k·d·d). Throws ArgumentError when the sizes do
 * not fit or a covariance is not positive definite.
 */
export function createMixture(weights: Float64Array, means: Matrix, covariances: Float64Array): MixtureModel {
  const k = weights.length
  const d = means.cols
  if (k === 0 || means.rows !== k || covariances.length !== k * d * d) {
    throw new ArgumentError(
      `mixture: expected ${k} means and ${k * d * d} covariance entries, found ${means.rows} and ${covariances.length}`,
    )
  }
  const precisionCholesky = covariances.slice()
  const singular = precisionCholeskyInPlace(precisionCholesky, k, d)
  if (singular >= 0) {
    throw new ArgumentError(`covariances: number ${singular} is not positive definite`, 'covariances')
  }
  return {
    covarianceType: 'full',
    weights: weights.slice(),
    means: matrixOf(k, d, means.data.slice()),
    precisionCholesky,
  }
}
