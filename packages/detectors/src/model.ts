/**
 * DetectorModel: the result of a fit, as plain data: numbers, strings, typed arrays and matrices, so `structuredClone`
 * and a file restore it bit for bit. Gaussians are stored as the Cholesky factors of their precisions.
 *
 * Shapes: D features a row, m landmarks, d embedding dimensions, k components. Size as the paper counts it: m(d + D)
 * numbers for the embedding and k(1 + d + d²) for the mixture (section "Efficient Detection Procedures").
 */
import type { Matrix } from '@oddflow/core'
import type { DetectorName, EmbeddedMixtureName, EmbeddedSvmName } from './detector.js'
import type { ColumnHistograms } from './detectors/hbos.js'
import type { IsolationForestModel } from './detectors/iforest.js'
import type { KernelDensityModel } from './detectors/kde.js'
import type { NearestLandmarkModel } from './detectors/nearest.js'
import type { PrincipalComponentsModel } from './detectors/pca.js'
import type { EnsemblePart } from './ensemble/ensemble-part.js'
import type { TypedMixture } from './mixture/covariance-types.js'
import type { OneClassSvmModel } from './one-class-svm/fit.js'
import type { ParametersOf } from './parameters.js'
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
export interface ModelFrame<Name extends DetectorName, Report extends FitReport = FitReport> {
  readonly kind: Name
  readonly parameters: ParametersOf<Name>
  readonly scaler: ScalerModel
  readonly fitReport: Report
}

/** What a fit of an embedded mixture used and found. */
export interface EmbeddedMixtureFitReport extends FitReport {
  /** m that was used. */
  readonly landmarks: number
  /** d that was used. */
  readonly embeddingDimension: number
  /** Clusters before and after the coverage rule (for k-means++, both are the non-empty clusters). */
  readonly clustersFound: number
  readonly clustersKept: number
  /** EM steps, whether they converged, and the mean log-likelihood before the last M-step. */
  readonly iterations: number
  readonly converged: boolean
  readonly meanLogLikelihood: number
  /** The final addition to covariance diagonals. */
  readonly regularisation: number
}

/** A fitted sketch of the Gaussian kernel with a Gaussian mixture over it. */
export interface EmbeddedMixtureModel extends ModelFrame<EmbeddedMixtureName, EmbeddedMixtureFitReport> {
  readonly embedding: EmbeddingModel
  readonly mixture: MixtureModel
  /** null: scores are log-densities, as in the paper. */
  readonly supportGuard: SupportGuardModel | null
}

/** A fitted sketch of the Gaussian kernel with a linear one-class SVM over it. */
export interface EmbeddedSvmModel extends ModelFrame<EmbeddedSvmName> {
  readonly embedding: EmbeddingModel
  /** With the linear kernel, over rows of d dimensions. */
  readonly svm: OneClassSvmModel
  /** null: scores are f(φ′(x)), as in the paper. */
  readonly supportGuard: SupportGuardModel | null
}

/** A fitted one-class SVM: support vectors, dual coefficients and offset. */
export interface OcsvmModel extends ModelFrame<'ocsvm'> {
  readonly svm: OneClassSvmModel
}

/** A fitted Gaussian mixture over scaled rows. */
export interface GmmModel extends ModelFrame<'gmm'> {
  /** In D dimensions. */
  readonly mixture: MixtureModel | TypedMixture
}

/** Fitted landmarks; a score is minus the distance to the nearest. */
export interface NearestModel extends ModelFrame<'nearest'> {
  readonly nearestLandmark: NearestLandmarkModel
}

/** A fitted kernel density: training rows and a bandwidth. */
export interface KdeModel extends ModelFrame<'kde'> {
  readonly kernelDensity: KernelDensityModel
}

/** A fitted isolation forest. */
export interface IforestModel extends ModelFrame<'iforest'> {
  readonly isolationForest: IsolationForestModel
}

/** Fitted principal components; a score is minus the squared distance from their plane. */
export interface PcaModel extends ModelFrame<'pca'> {
  readonly principalComponents: PrincipalComponentsModel
}

/** Fitted histograms of each column. */
export interface HbosModel extends ModelFrame<'hbos'> {
  /** One table. */
  readonly histograms: ColumnHistograms
}

/** Fitted detectors whose calibrated surprises are added up. */
export interface EnsembleModel extends ModelFrame<'ensemble'> {
  readonly ensemble: EnsemblePart
}

/** A fitted detector as plain data; `kind` says which. */
export type DetectorModel =
  | EmbeddedMixtureModel
  | EmbeddedSvmModel
  | OcsvmModel
  | GmmModel
  | NearestModel
  | KdeModel
  | IforestModel
  | PcaModel
  | HbosModel
  | EnsembleModel

/** The model of a detector. */
export type ModelOf<Name extends DetectorName> = Name extends EmbeddedMixtureName
  ? EmbeddedMixtureModel
  : Name extends EmbeddedSvmName
    ? EmbeddedSvmModel
    : Extract<DetectorModel, { readonly kind: Name }>
