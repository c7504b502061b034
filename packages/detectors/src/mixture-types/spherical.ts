/**
 * Mixtures with spherical covariances: moments, mixture, log-densities.
 *
 *     variance of component j = mean over a of Σ_i r_ij (x_ia − µ_ja)² / Σ_i r_ij, + reg
 *
 * Costs per point: k squared distances.
 */
import { log, type Matrix } from '@oddflow/core'
import { squaredDistance, squaredDistances } from '@oddflow/linalg'
import type { MixtureMoments, SphericalMixture } from './typed-mixture.js'
import { weightedMeans } from './weighted-means.js'

/** `points` n × d, `responsibilities` n × k. */
export function momentsSpherical(
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureMoments {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const { mass, weights, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(k)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      covariances[j] = covariances[j]! + w * squaredDistance(data, i * d, means.data, j * d, d)
    }
  }
  for (let j = 0; j < k; j++) covariances[j] = covariances[j]! / mass[j]! / d + regularisation
  return { weights, means, covariances }
}

/** undefined when a variance is not a positive finite number. */
export function mixtureSpherical({
  weights,
  means,
  covariances,
}: MixtureMoments): SphericalMixture | undefined {
  for (const v of covariances) if (!(v > 0 && v < Number.POSITIVE_INFINITY)) return undefined
  return {
    covarianceType: 'spherical',
    weights,
    means,
    precisionCholesky: covariances.map((v) => 1 / Math.sqrt(v)),
  }
}

/** k variances. */
export function covariancesSpherical({ precisionCholesky }: SphericalMixture): Float64Array {
  return precisionCholesky.map((p) => 1 / (p * p))
}

export interface PackedSpherical {
  readonly covarianceType: 'spherical'
  readonly k: number
  readonly d: number
  /** Length k: log w_j + d·log p_j − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** Length k·d. */
  readonly means: Float64Array
  /** Length k: p_j. */
  readonly scales: Float64Array
}

export function packSpherical({ weights, means, precisionCholesky }: SphericalMixture): PackedSpherical {
  const { rows: k, cols: d } = means
  const logNormalisers = weights.map(
    (w, j) => log(w) + d * log(precisionCholesky[j]!) - 0.5 * d * log(2 * Math.PI),
  )
  return {
    covarianceType: 'spherical',
    k,
    d,
    logNormalisers,
    means: means.data,
    scales: precisionCholesky,
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, σ_j²·I)), j < k, for the point z of d numbers at `start`. */
export function logDensitiesSphericalInto(
  { k, d, logNormalisers, means, scales }: PackedSpherical,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  squaredDistances(point, start, means, 0, k, d, out, outStart)
  for (let j = 0; j < k; j++) {
    const p = scales[j]!
    out[outStart + j] = logNormalisers[j]! - 0.5 * out[outStart + j]! * p * p
  }
}
