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
import type {
  EmbeddedMixtureParameters,
  EmbeddedSvmParameters,
  EnsembleParameters,
  GmmParameters,
  HbosParameters,
  IforestParameters,
  KdeParameters,
  NearestParameters,
  OcsvmParameters,
  PcaParameters,
} from './parameters.js'
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
export interface EmbeddedMixtureModel {
  readonly kind: EmbeddedMixtureName
  readonly parameters: EmbeddedMixtureParameters
  readonly scaler: ScalerModel
  readonly embedding: EmbeddingModel
  readonly mixture: MixtureModel
  /** null: scores are log-densities, as in the paper. */
  readonly supportGuard: SupportGuardModel | null
  readonly fitReport: EmbeddedMixtureFitReport
}

/** A fitted sketch of the Gaussian kernel with a linear one-class SVM over it. */
export interface EmbeddedSvmModel {
  readonly kind: EmbeddedSvmName
  readonly parameters: EmbeddedSvmParameters
  readonly scaler: ScalerModel
  readonly embedding: EmbeddingModel
  /** With the linear kernel, over rows of d dimensions. */
  readonly svm: OneClassSvmModel
  /** null: scores are f(φ′(x)), as in the paper. */
  readonly supportGuard: SupportGuardModel | null
  readonly fitReport: FitReport
}

/** A fitted one-class SVM: support vectors, dual coefficients and offset. */
export interface OcsvmModel {
  readonly kind: 'ocsvm'
  readonly parameters: OcsvmParameters
  readonly scaler: ScalerModel
  readonly svm: OneClassSvmModel
  readonly fitReport: FitReport
}

/** A fitted Gaussian mixture over scaled rows. */
export interface GmmModel {
  readonly kind: 'gmm'
  readonly parameters: GmmParameters
  readonly scaler: ScalerModel
  /** In D dimensions. */
  readonly mixture: MixtureModel | TypedMixture
  readonly fitReport: FitReport
}

/** Fitted landmarks; a score is minus the distance to the nearest. */
export interface NearestModel {
  readonly kind: 'nearest'
  readonly parameters: NearestParameters
  readonly scaler: ScalerModel
  readonly nearestLandmark: NearestLandmarkModel
  readonly fitReport: FitReport
}

/** A fitted kernel density: training rows and a bandwidth. */
export interface KdeModel {
  readonly kind: 'kde'
  readonly parameters: KdeParameters
  readonly scaler: ScalerModel
  readonly kernelDensity: KernelDensityModel
  readonly fitReport: FitReport
}

/** A fitted isolation forest. */
export interface IforestModel {
  readonly kind: 'iforest'
  readonly parameters: IforestParameters
  readonly scaler: ScalerModel
  readonly isolationForest: IsolationForestModel
  readonly fitReport: FitReport
}

/** Fitted principal components; a score is minus the squared distance from their plane. */
export interface PcaModel {
  readonly kind: 'pca'
  readonly parameters: PcaParameters
  readonly scaler: ScalerModel
  readonly principalComponents: PrincipalComponentsModel
  readonly fitReport: FitReport
}

/** Fitted histograms of each column. */
export interface HbosModel {
  readonly kind: 'hbos'
  readonly parameters: HbosParameters
  readonly scaler: ScalerModel
  /** One table. */
  readonly histograms: ColumnHistograms
  readonly fitReport: FitReport
}

/** Fitted detectors whose calibrated surprises are added up. */
export interface EnsembleModel {
  readonly kind: 'ensemble'
  readonly parameters: EnsembleParameters
  readonly scaler: ScalerModel
  readonly ensemble: EnsemblePart
  readonly fitReport: FitReport
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
