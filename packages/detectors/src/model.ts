/**
 * DetectorModel: the result of a fit, as plain data: numbers, strings, typed arrays and matrices, so `structuredClone`
 * and a file restore it bit for bit. Gaussians are stored as the Cholesky factors of their precisions.
 *
 * Shapes: D features a row, m landmarks, d embedding dimensions, k components. Size as the paper counts it: m(d + D)
 * numbers for the embedding and k(1 + d + d²) for the mixture (section "Efficient Detection Procedures").
 */
import type { Matrix } from '@oddflow/core'
import type { DetectorName } from './detector.js'
import type { CommonParameters } from './parameters.js'
import type { Definitions } from './registry.js'
import type { ScalerModel } from './scaler.js'

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
 * The support guard's tables of the training rows (support-guard.ts). Both are K × 2: a number, and the logarithm of
 * the share of training rows at or below it; both columns strictly ascending.
 */
export interface SupportGuardModel {
  /** Length m, positive: r_j² of the support −‖x − landmark_j‖² / r_j², j the nearest, in squared units of the
   * scaled rows. */
  readonly squaredReaches: Float64Array
  /** Table of the unguarded score: the mixture's log-density, or f of the linear SVM. */
  readonly density: Matrix
  /** Of the support. */
  readonly support: Matrix
}

/** A report of the fit, for people and `inspect`; scoring does not use it. */
export interface FitReport {
  /** n. */
  readonly trainingRows: number
  /** D. */
  readonly dimension: number
  /**
   * One sentence for each request that was not met exactly: a lowered m or d, a sample, a raised regularization,
   * constant columns, EM that reached its maximum number of steps.
   */
  readonly notes: readonly string[]
}

/** The fields of every model. */
export interface ModelFrame<Parameters extends CommonParameters, Report extends FitReport = FitReport> {
  readonly kind: Parameters['detector']
  readonly parameters: Parameters
  readonly scaler: ScalerModel
  readonly fitReport: Report
}

/** The model of a detector. */
export type ModelOf<Name extends DetectorName> = ReturnType<Definitions[Name]['checkModel']>

/** A fitted detector as plain data; `kind` says which. */
export type DetectorModel = ModelOf<DetectorName>

export type { EnsembleModel } from './detectors/ensemble.js'
export type { GmmModel } from './detectors/gmm.js'
export type { HbosModel } from './detectors/hbos.js'
export type { IforestModel } from './detectors/iforest.js'
export type { KdeModel } from './detectors/kde.js'
export type { NearestModel } from './detectors/nearest.js'
export type { OcsvmModel } from './detectors/ocsvm.js'
export type { PcaModel } from './detectors/pca.js'
export type { EmbeddedMixtureFitReport, EmbeddedMixtureModel } from './families/embedded-mixture.js'
export type { EmbeddedSvmModel } from './families/embedded-svm.js'
