/**
 * Mixtures with one tied covariance: moments, mixture, log-densities.
 *
 *     Σ = Σ_j Σ_i r_ij (x_i − µ_j)(x_i − µ_j)ᵀ / Σ_ij r_ij + reg·I
 *
 * over differences from the new means; scikit-learn's XᵀX − Σ_j n_j µ_j µ_jᵀ is the same matrix less what it
 * loses to cancellation. For densities W(z − µ_j) is W(z − c) − W(µ_j − c), the second known beforehand: d²/2
 * and k·d operations a point instead of k·d²/2. c, the mean of the mixture, keeps both terms small.
 */
import { log, type Matrix } from '@oddflow/core'
import { choleskyInto, invertLowerInPlace } from '@oddflow/linalg'
import type { MixtureMoments, TiedMixture } from './typed-mixture.js'
import { weightedMeans } from './weighted-means.js'

/** `points` n × d, `responsibilities` n × k. */
export function momentsTied(
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureMoments {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const { mass, weights, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(d * d)
  const difference = new Float64Array(d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0; a < d; a++) difference[a] = data[i * d + a]! - means.data[j * d + a]!
      for (let a = 0; a < d; a++) {
        const x = w * difference[a]!
        for (let b = 0, at = a * d; b <= a; b++, at++) covariances[at] = covariances[at]! + x * difference[b]!
      }
    }
  }
  let total = 0
  for (let j = 0; j < k; j++) total += mass[j]!
  for (let a = 0; a < d; a++) {
    for (let b = 0; b <= a; b++) {
      const value = covariances[a * d + b]! / total + (a === b ? regularisation : 0)
      covariances[a * d + b] = value
      covariances[b * d + a] = value
    }
  }
  return { weights, means, covariances }
}

/** undefined when the covariance is not positive definite. */
export function mixtureTied({ weights, means, covariances }: MixtureMoments): TiedMixture | undefined {
  const d = means.cols
  const precisionCholesky = new Float64Array(d * d)
  if (!choleskyInto(covariances, 0, d, precisionCholesky, 0)) return undefined
  invertLowerInPlace(precisionCholesky, 0, d)
  for (const v of precisionCholesky) if (!Number.isFinite(v)) return undefined
  return { covarianceType: 'tied', weights, means, precisionCholesky }
}

/** The d·d covariance, row-major, symmetric. */
export function covariancesTied({ means, precisionCholesky }: TiedMixture): Float64Array {
  const d = means.cols
  const factor = precisionCholesky.slice()
  invertLowerInPlace(factor, 0, d)
  const out = new Float64Array(d * d)
  for (let a = 0; a < d; a++) {
    for (let b = 0; b <= a; b++) {
      let sum = 0
      for (let t = 0; t <= b; t++) sum += factor[a * d + t]! * factor[b * d + t]!
      out[a * d + b] = sum
      out[b * d + a] = sum
    }
  }
  return out
}

export interface PackedTied {
  readonly covarianceType: 'tied'
  readonly k: number
  readonly d: number
  /** Length k: log w_j + Σ log diag(W) − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** c, length d. */
  readonly centre: Float64Array
  /** W(µ_j − c), k·d. */
  readonly projectedMeans: Float64Array
  /** W, d·d. */
  readonly factor: Float64Array
  /** Scratch: z − c and W(z − c), 2d. */
  readonly scratch: Float64Array
}

export function packTied({ weights, means, precisionCholesky: factor }: TiedMixture): PackedTied {
  const { rows: k, cols: d, data } = means
  const centre = new Float64Array(d)
  for (let j = 0; j < k; j++) {
    for (let a = 0; a < d; a++) centre[a] = centre[a]! + weights[j]! * data[j * d + a]!
  }
  let shared = -0.5 * d * log(2 * Math.PI)
  for (let a = 0; a < d; a++) shared += log(factor[a * d + a]!)
  const projectedMeans = new Float64Array(k * d)
  const scratch = new Float64Array(2 * d)
  for (let j = 0; j < k; j++) projectInto(factor, d, data, j * d, centre, scratch, projectedMeans, j * d)
  return {
    covarianceType: 'tied',
    k,
    d,
    logNormalisers: weights.map((w) => log(w) + shared),
    centre,
    projectedMeans,
    factor,
    scratch,
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ)), j < k, for the point z of d numbers at `start`. */
export function logDensitiesTiedInto(
  { k, d, logNormalisers, centre, projectedMeans, factor, scratch }: PackedTied,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  projectInto(factor, d, point, start, centre, scratch, scratch, d)
  for (let j = 0, at = 0; j < k; j++) {
    let square = 0
    for (let a = 0; a < d; a++, at++) {
      const y = scratch[d + a]! - projectedMeans[at]!
      square += y * y
    }
    out[outStart + j] = logNormalisers[j]! - 0.5 * square
  }
}

/** out[outStart …] = W(point − centre); differences[0 … d) is scratch. */
function projectInto(
  factor: Float64Array,
  d: number,
  point: Float64Array,
  start: number,
  centre: Float64Array,
  differences: Float64Array,
  out: Float64Array,
  outStart: number,
): void {
  for (let a = 0; a < d; a++) differences[a] = point[start + a]! - centre[a]!
  for (let a = 0, row = 0; a < d; a++, row += d) {
    let sum = 0
    for (let b = 0; b <= a; b++) sum += factor[row + b]! * differences[b]!
    out[outStart + a] = sum
  }
}
