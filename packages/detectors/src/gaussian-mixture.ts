/**
 * Densities of a Gaussian mixture with full covariances.
 *
 * For component j: log w_j + Σ log diag(W_j) − (d/2)·log 2π − ½‖W_j(z − µ_j)‖², W_j the stored lower-triangular
 * factor of the precision. The first three terms do not depend on z and are summed once per mixture. Sums run
 * in index order; a point's density has the same bits wherever it stands.
 */
import { ArgumentError, log, type Matrix, matrixOf } from '@oddflow/core'
import { choleskyInto, invertLowerInPlace, logSumExp, lowerTransposeTimesSelf } from '@oddflow/linalg'
import type { MixtureModel } from './model.js'

const LOG_2_PI = log(2 * Math.PI)

/** out[j] = log w_j + Σ log diag(W_j) − (d/2)·log 2π, j < k. */
export function logNormalisersInto(mixture: MixtureModel, out: Float64Array): void {
  const { weights, means, precisionCholesky } = mixture
  const d = means.cols
  for (let j = 0; j < weights.length; j++) {
    let sum = log(weights[j]!) - 0.5 * d * LOG_2_PI
    for (let i = 0; i < d; i++) sum += log(precisionCholesky[(j * d + i) * d + i]!)
    out[j] = sum
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)) for the point at `start`; `difference` (d) is scratch. */
export function componentLogDensitiesInto(
  { weights, means, precisionCholesky }: MixtureModel,
  logNormalisers: Float64Array,
  point: Float64Array,
  start: number,
  difference: Float64Array,
  out: Float64Array,
  outStart: number,
): void {
  const d = means.cols
  const mean = means.data
  const k = weights.length
  let w = 0
  for (let j = 0; j < k; j++) {
    for (let i = 0; i < d; i++) difference[i] = point[start + i]! - mean[j * d + i]!
    let square = 0
    for (let i = 0; i < d; i++) {
      let y = 0
      for (let t = 0; t <= i; t++) y += precisionCholesky[w + t]! * difference[t]!
      square += y * y
      w += d
    }
    out[outStart + j] = logNormalisers[j]! - 0.5 * square
  }
}

/** Log-density of each row of `points` (n × d), for cold paths. */
export function mixtureLogDensities(mixture: MixtureModel, points: Matrix): Float64Array {
  const k = mixture.weights.length
  const normalisers = new Float64Array(k)
  logNormalisersInto(mixture, normalisers)
  const difference = new Float64Array(points.cols)
  const terms = new Float64Array(k)
  const out = new Float64Array(points.rows)
  for (let i = 0; i < points.rows; i++) {
    componentLogDensitiesInto(mixture, normalisers, points.data, i * points.cols, difference, terms, 0)
    out[i] = logSumExp(terms, 0, k)
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

/** Precisions WᵀW of the components (k·d·d, row-major, symmetric). */
export function mixturePrecisions({ weights, means, precisionCholesky }: MixtureModel): Float64Array {
  const d = means.cols
  const out = new Float64Array(precisionCholesky.length)
  for (let j = 0; j < weights.length; j++) {
    lowerTransposeTimesSelf(precisionCholesky, j * d * d, d, out, j * d * d)
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
