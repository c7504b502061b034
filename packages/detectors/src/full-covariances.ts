/**
 * The M-step for full covariances: weights, means and covariances of rows that belong to components by degrees.
 *
 * Covariances are taken about the new means, in a second pass, and get the regularisation on their diagonals before
 * they are turned into factors of precisions.
 */
import type { Matrix } from '@oddflow/core'
import { precisionCholeskyInPlace } from './gaussian-mixture.js'
import { weightedMeans } from './mixture-types/weighted-means.js'
import type { MixtureModel } from './model.js'

/** `points` n × d, `responsibilities` n × k; undefined when a covariance is not positive definite. */
export function maximiseFull(
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureModel | undefined {
  const { rows: n, cols: d, data } = points
  const k = responsibilities.cols
  const r = responsibilities.data
  const { mass, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(k * d * d)
  const difference = new Float64Array(d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0; a < d; a++) difference[a] = data[i * d + a]! - means.data[j * d + a]!
      for (let a = 0, at = j * d * d; a < d; a++, at += d) {
        const x = w * difference[a]!
        for (let b = 0; b <= a; b++) covariances[at + b]! += x * difference[b]!
      }
    }
  }
  for (let j = 0; j < k; j++) {
    const at = j * d * d
    for (let a = 0; a < d * d; a++) covariances[at + a] = covariances[at + a]! / mass[j]!
    for (let a = 0; a < d; a++) covariances[at + a * d + a]! += regularisation
  }
  if (precisionCholeskyInPlace(covariances, k, d) >= 0) return undefined
  let total = 0
  for (let j = 0; j < k; j++) {
    mass[j] = mass[j]! / n
    total += mass[j]!
  }
  const weights = mass.map((w) => w / total)
  return { covarianceType: 'full', weights, means, precisionCholesky: covariances }
}
