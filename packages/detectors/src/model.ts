/**
 * DetectorModel: what a fit leaves behind, as plain data.
 *
 * Numbers, strings, typed arrays and matrices only: `structuredClone` and a file bring back the same value,
 * bit for bit, and a scorer needs nothing else. Everything that the score is computed from is stored and
 * nothing of it twice; the Gaussians are stored by the Cholesky factors of their precisions, because
 * inverting covariances again on another machine is work and one more chance to differ.
 *
 * Shapes: D features a row, m landmarks, d embedding dimensions, k components. Space as the paper counts it:
 * m(d + D) numbers of embedding and k(1 + d + d²) of mixture (section "Efficient Detection Procedures").
 */
import type { Matrix } from '@oddflow/core'
import type { DetectorName } from './detector-name.js'
import type { CheckedParameters } from './parameters.js'

/** Rows are used as they come. */
export interface NoScaler {
  readonly kind: 'none'
}

/** (x − mean) / scale, column by column; a column without spread has scale 1. */
export interface StandardScaler {
  readonly kind: 'standard'
  /** Length D. */
  readonly mean: Float64Array
  /** Length D, positive: population standard deviations. */
  readonly scale: Float64Array
}

export type ScalerModel = NoScaler | StandardScaler

/** φ′(x) = P · K(x), K(x)_j = exp(−‖x − landmark_j‖² / h²). */
export interface EmbeddingModel {
  readonly kind: 'kjl' | 'nystrom'
  /** h, in the units of the scaled rows. */
  readonly bandwidth: number
  /** m × D, training rows after scaling. */
  readonly landmarks: Matrix
  /** P, d × m. */
  readonly projection: Matrix
}

/** Σ_j weights_j · N(means_j, Σ_j). */
export interface MixtureModel {
  readonly covarianceType: 'full'
  /** Length k, positive, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
  /**
   * Length k·d·d: for each component a lower-triangular, row-major W with positive diagonal, zeros above it,
   * and WᵀW = Σ⁻¹, so ‖W(z − µ)‖² is the squared Mahalanobis distance. (scikit-learn's
   * `precisions_cholesky_` holds the transposes.)
   */
  readonly precisionCholesky: Float64Array
}

/**
 * What the support guard knows of the training rows (support-guard.ts). Both tables are K × 2: a number, and
 * the logarithm of the share of training rows that have no more; both columns strictly ascending.
 */
export interface SupportGuardModel {
  /** Length m, positive: r_j² of the support −min_j ‖x − landmark_j‖² / r_j², in squared units of scaled rows. */
  readonly squaredReaches: Float64Array
  /** Of the mixture's log-density. */
  readonly density: Matrix
  /** Of the support. */
  readonly support: Matrix
}

/** What happened during the fit; for people and for `inspect`, not for scoring. */
export interface FitReport {
  /** n. */
  readonly trainingRows: number
  /** D. */
  readonly dimension: number
  /** m that was used. */
  readonly landmarks: number
  /** d that was used. */
  readonly embeddingDimension: number
  /** Clusters before and after the coverage rule (for k-means++: non-empty clusters, both). */
  readonly clustersFound: number
  readonly clustersKept: number
  /** EM steps, whether they met the tolerance, and the mean log-likelihood before the last M-step. */
  readonly iterations: number
  readonly converged: boolean
  readonly meanLogLikelihood: number
  /** What was added to covariance diagonals in the end. */
  readonly regularisation: number
  /** One sentence for each thing that was not done as asked: a lowered m or d, a sample, a raised
   * regularisation, constant columns, EM that ran out of steps. */
  readonly notes: readonly string[]
}

export interface DetectorModel {
  readonly kind: DetectorName
  readonly parameters: CheckedParameters
  readonly scaler: ScalerModel
  readonly embedding: EmbeddingModel
  readonly mixture: MixtureModel
  /** null: scores are log-densities, as in the paper. */
  readonly supportGuard: SupportGuardModel | null
  readonly fitReport: FitReport
}

/**
 * Numbers that a scorer needs as the paper counts them: m(d + D) + k(1 + d + d²), and with a support guard m and
 * its tables, at most 260 numbers. A scaler is not counted.
 */
export function modelSpaceNumbers({ embedding, mixture, supportGuard }: DetectorModel): number {
  const { landmarks, projection } = embedding
  const { weights, means } = mixture
  const d = projection.rows
  const guard =
    supportGuard === null
      ? 0
      : landmarks.rows + supportGuard.density.data.length + supportGuard.support.data.length
  return landmarks.rows * (d + landmarks.cols) + weights.length * (1 + means.cols + d * d) + guard
}
