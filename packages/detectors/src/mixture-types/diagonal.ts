/**
 * Mixtures with diagonal covariances: moments, mixture, log-densities.
 *
 *     variance of component j in dimension a = Σ_i r_ij (x_ia − µ_ja)² / Σ_i r_ij + reg
 *
 * taken about the new means in a second pass; scikit-learn's E[x²] − µ² is the same number less what it loses
 * to cancellation. Costs per point: k·d of everything.
 */
import { log, type Matrix } from '@oddflow/core'
import type { DiagonalMixture, MixtureMoments } from './typed-mixture.js'
import { weightedMeans } from './weighted-means.js'

/** `points` n × d, `responsibilities` n × k. */
export function momentsDiagonal(
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureMoments {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const { mass, weights, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(k * d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0, at = j * d; a < d; a++, at++) {
        const difference = data[i * d + a]! - means.data[at]!
        covariances[at] = covariances[at]! + w * difference * difference
      }
    }
  }
  for (let j = 0, at = 0; j < k; j++) {
    for (let a = 0; a < d; a++, at++) covariances[at] = covariances[at]! / mass[j]! + regularisation
  }
  return { weights, means, covariances }
}

/** undefined when a variance is not a positive finite number. */
export function mixtureDiagonal({
  weights,
  means,
  covariances,
}: MixtureMoments): DiagonalMixture | undefined {
  for (const v of covariances) if (!(v > 0 && v < Number.POSITIVE_INFINITY)) return undefined
  return {
    covarianceType: 'diagonal',
    weights,
    means,
    precisionCholesky: covariances.map((v) => 1 / Math.sqrt(v)),
  }
}

/** k·d variances. */
export function covariancesDiagonal({ precisionCholesky }: DiagonalMixture): Float64Array {
  return precisionCholesky.map((p) => 1 / (p * p))
}

export interface PackedDiagonal {
  readonly covarianceType: 'diagonal'
  readonly k: number
  readonly d: number
  /** Length k: log w_j + Σ_a log p_ja − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** Length k·d. */
  readonly means: Float64Array
  /** Length k·d. */
  readonly scales: Float64Array
}

export function packDiagonal({ weights, means, precisionCholesky }: DiagonalMixture): PackedDiagonal {
  const { rows: k, cols: d } = means
  const logNormalisers = weights.map((w, j) => {
    let sum = log(w) - 0.5 * d * log(2 * Math.PI)
    for (let a = 0; a < d; a++) sum += log(precisionCholesky[j * d + a]!)
    return sum
  })
  return {
    covarianceType: 'diagonal',
    k,
    d,
    logNormalisers,
    means: means.data,
    scales: precisionCholesky,
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z of d numbers at `start`. */
export function logDensitiesDiagonalInto(
  { k, d, logNormalisers, means, scales }: PackedDiagonal,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  for (let j = 0, at = 0; j < k; j++) {
    let square = 0
    for (let a = 0; a < d; a++, at++) {
      const y = (point[start + a]! - means[at]!) * scales[at]!
      square += y * y
    }
    out[outStart + j] = logNormalisers[j]! - 0.5 * square
  }
}
