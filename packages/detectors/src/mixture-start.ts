/**
 * The mixture that EM starts from, given clusters.
 *
 * `k-means++` clusters: the M-step on their memberships, as scikit-learn starts. QuickShift++ clusters: the
 * local weights, means and precisions, and as in the authors' program the precision of a cluster is
 * (Σ + reg·I)⁻¹ + reg·I. The second term is nothing beside a usual precision, but where an embedding has
 * variances of 10⁶ it caps the spread of a starting component.
 */
import { choleskyInto, lowerTransposeTimesSelf } from '@oddflow/linalg'
import type { ClusterMoments } from './cluster-moments.js'
import { precisionCholeskyInPlace } from './gaussian-mixture.js'
import type { MixtureModel } from './model.js'

/** undefined when a covariance is not positive definite. `precisionRegularisation` is 0 for k-means++. */
export function mixtureFromMoments(
  { weights, means, covariances }: ClusterMoments,
  precisionRegularisation: number,
): MixtureModel | undefined {
  const k = weights.length
  const d = means.cols
  const factors = covariances.slice()
  if (precisionCholeskyInPlace(factors, k, d) >= 0) return undefined
  if (precisionRegularisation > 0) {
    const precision = new Float64Array(d * d)
    for (let j = 0; j < k; j++) {
      lowerTransposeTimesSelf(factors, j * d * d, d, precision, 0)
      for (let i = 0; i < d; i++) precision[i * d + i]! += precisionRegularisation
      if (!factorPrecision(precision, d, factors, j * d * d)) return undefined
    }
  }
  return { covarianceType: 'full', weights, means, precisionCholesky: factors }
}

/**
 * Lower-triangular W with WᵀW = Q. Cholesky gives LLᵀ, so it is taken of Q with its rows and columns in
 * reverse order, and its factor turned back.
 */
function factorPrecision(precision: Float64Array, d: number, out: Float64Array, start: number): boolean {
  const reversed = precision.slice().reverse()
  if (!choleskyInto(reversed, 0, d, reversed, 0)) return false
  for (let i = 0; i < d; i++) {
    for (let j = 0; j < d; j++) out[start + i * d + j] = reversed[(d - 1 - j) * d + (d - 1 - i)]!
  }
  return true
}
