/**
 * Parameters: what a caller may ask for, and what a fit is given.
 *
 * They are two values. `DetectorOptions` is what a person writes: flat, all optional. `CheckedParameters` is
 * what `checkParameters` makes of it: complete, grouped by the stage that uses it, and stored in the model.
 * An option that the chosen detector has no use for is refused by name, so that nobody believes a setting
 * was in force when it was not.
 *
 * Defaults follow the paper's section "Implementation Details and Hyperparameter Choices" (m = 100, d = 5,
 * beta = 0.9, n^(2/3) neighbours, 95 % of the rows in at most 20 clusters, full covariances) with the
 * bandwidth at the 0.3-quantile of pair distances.
 */
import type { ScalerName } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import type { DetectorName, EmbeddedMixtureName, EmbeddedSvmName, MemberName } from './detector-name.js'

/** What a caller may set. Everything has a default. */
export interface DetectorOptions {
  /** Default `oc-kjl-qs`. */
  readonly detector?: DetectorName
  /** Kernel bandwidth h as a quantile of the pair distances of training rows, in (0, 1]; default 0.3. */
  readonly bandwidthQuantile?: number
  /** Whose distances that is a quantile of: `pairs` (default), those between different rows, as in the paper's text, or
   * `authors`, the whole n × n matrix with its diagonal of zeros, as in their program, or `positive-pairs`: as `pairs`, but
   * where rows repeat so often that it is 0, of the positive distances alone, and 1 where all rows are equal. */
  readonly quantileCompat?: QuantileCompat
  /** Above so many training rows, the distances within a random sample of so many are ranked; 2 … 1,000,000, default
   * 5,000. Time grows with its square. */
  readonly quantileRows?: number
  /** ocsvm alone: `rbf` (default), or `linear`, which has no bandwidth. */
  readonly kernel?: 'rbf' | 'linear'
  /** One-class SVMs: the share of training rows that may lie outside, in (0, 1]; default 0.5. */
  readonly nu?: number
  /** Landmarks, 1 … 2,000, at most as many as there are training rows; default 100, or all rows when there are fewer. */
  readonly m?: number
  /** Which training rows become landmarks: drawn at random (`random`, default), or rows that cover all of them
   * (`farthest-first`), of which there are fewer than m where no more are different. */
  readonly landmarks?: LandmarkChoice
  /** Dimensions of the embedding, 1 … 256, at most m; default 5. Lowered to what the landmarks span where several are
   * equal. */
  readonly d?: number
  /** Mixture components, 1 … 1,000, at most as many as there are training rows, for oc-kjl, oc-nystrom and gmm alone;
   * default 10. Lowered to the number of different rows. */
  readonly k?: number
  /** KJL alone: subtract the column means of the gram matrix before sketching; default false (the paper). */
  readonly centre?: boolean
  /** Detectors that embed: whether a row far from every landmark is novel whatever the mixture or the SVM says of it;
   * default true. Without it the score is the paper's. */
  readonly supportGuard?: boolean
  /** Default `none`. */
  readonly scaler?: ScalerName
  /** Detectors of Gaussian kernels between rows and landmarks or support vectors: whether those rows, distances and
   * kernel values are float64 (`f64`, default) or float32, about twice as fast and half the space. Sums of kernel
   * values, and what is learnt from them, are float64 either way. */
  readonly precision?: Precision
  /** QuickShift++ (-qs alone): share of density by which a core may fall below its peak, in (0, 1); 0.9. */
  readonly beta?: number
  /** QuickShift++ (-qs alone): neighbours, the point itself counted, at most as many as there are rows to search; default
   * floor(n^(2/3)). */
  readonly neighbours?: number
  /** -qs alone: clusters are kept, largest first, until more than this share of rows is in them; 0.95. */
  readonly coverage?: number
  /** -qs alone: at most so many clusters are kept, 1 … 1,000; default 20. */
  readonly maximumClusters?: number
  /** -qs alone: clusters are searched among at most so many rows, drawn at random when there are more,
   * 10 … 1,000,000; default 10,000. */
  readonly clusterSearchRows?: number
  /** -qs alone: EM starts from the clusters of QuickShift++ (the paper), or from as many that k-means finds from
   * k-means++ seeds; default `clusters`. */
  readonly mixtureStart?: MixtureStart
  /** gmm alone: what the components' covariances may be; default `full`. */
  readonly covariance?: CovarianceType
  /** EM stops when the mean log-likelihood changes by less, a one-class SVM when no condition of its optimum is
   * violated by more; default 1e-3. */
  readonly tolerance?: number
  /** EM stops after so many steps, 1 … 100,000; default 100. */
  readonly maximumSteps?: number
  /** Added to the diagonal of every covariance, in (0, 1e-3]; default 1e-6. Raised tenfold, to 1e-3 at most,
   * when a covariance is singular all the same. */
  readonly regularisation?: number
  /** kde alone: at most so many training rows become kernels, 1 … 1,000,000; default 5,000. */
  readonly maximumRows?: number
  /** iforest alone: trees, 1 … 10,000; default 100. */
  readonly trees?: number
  /** iforest alone: rows that each tree is grown on, 2 … 65,536, at most as many as there are training rows; default 256,
   * or all rows when there are fewer. */
  readonly subsampleRows?: number
  /** pca alone: share of the variance that the kept components exceed, in (0, 1); default 0.95. */
  readonly varianceShare?: number
  /** pca alone, in place of `varianceShare`: components kept, 1 … 999, fewer than there are columns and no more than there
   * are training rows. */
  readonly components?: number
  /** hbos, and an ensemble with that member: bins of a column, 1 … 1,000; default 20. */
  readonly bins?: number
  /** ensemble alone: detectors whose surprises are added up, each once; default nearest and hbos. */
  readonly members?: readonly MemberName[]
}

export type LandmarkChoice = 'random' | 'farthest-first'

export type QuantileCompat = 'pairs' | 'authors' | 'positive-pairs'

export type CovarianceType = 'full' | 'diagonal' | 'tied' | 'spherical'

export type MixtureStart = 'clusters' | 'k-means++'

export type OptionName = Exclude<keyof DetectorOptions, 'detector'>

/** Options of one value, which a search may try several of. */
export type GridOption = Exclude<OptionName, 'members'>

/** Options of which rows, landmarks or columns allow no more than there are of them (stated-sizes.ts). */
export type SizeOption = 'm' | 'd' | 'k' | 'neighbours' | 'subsampleRows' | 'components'

export interface KjlParameters {
  readonly kind: 'kjl'
  readonly centre: boolean
}

export interface NystromParameters {
  readonly kind: 'nystrom'
}

export interface QuickShiftStart {
  readonly kind: 'quickshift++'
  readonly beta: number
  /** null: floor(n^(2/3)). */
  readonly neighbours: number | null
  readonly coverage: number
  readonly maximumClusters: number
  readonly clusterSearchRows: number
  readonly mixtureStart: MixtureStart
}

export interface KMeansStart {
  readonly kind: 'k-means++'
  readonly k: number
}

export type EmbeddingParameters = KjlParameters | NystromParameters
export type StartParameters = QuickShiftStart | KMeansStart

export interface EmParameters {
  readonly tolerance: number
  readonly maximumSteps: number
  readonly regularisation: number
}

interface Common<Name extends DetectorName> {
  readonly detector: Name
  readonly scaler: ScalerName
  /** Sizes that the caller asked for: a fit does all of it or throws, where a default may be lowered. Absent where none
   * was, and from the parameters of models. */
  readonly stated?: readonly SizeOption[]
}

/** h, the bandwidth. */
export interface BandwidthParameters {
  readonly bandwidthQuantile: number
  readonly quantileCompat: QuantileCompat
  readonly quantileRows: number
}

export interface EmbeddedMixtureParameters extends Common<EmbeddedMixtureName>, BandwidthParameters {
  readonly precision: Precision
  readonly m: number
  readonly landmarks: LandmarkChoice
  readonly d: number
  readonly embedding: EmbeddingParameters
  readonly start: StartParameters
  readonly em: EmParameters
  readonly supportGuard: boolean
}

export interface EmbeddedSvmParameters extends Common<EmbeddedSvmName>, BandwidthParameters {
  readonly precision: Precision
  readonly m: number
  readonly landmarks: LandmarkChoice
  readonly d: number
  readonly embedding: EmbeddingParameters
  readonly nu: number
  readonly tolerance: number
  readonly supportGuard: boolean
}

export interface OcsvmParameters extends Common<'ocsvm'> {
  readonly kernel: 'rbf' | 'linear'
  /** null for the linear kernel, as the next three. */
  readonly precision: Precision | null
  readonly bandwidthQuantile: number | null
  readonly quantileCompat: QuantileCompat | null
  readonly quantileRows: number | null
  readonly nu: number
  readonly tolerance: number
}

export interface GmmParameters extends Common<'gmm'> {
  readonly k: number
  readonly covariance: CovarianceType
  readonly tolerance: number
  readonly maximumSteps: number
  readonly regularisation: number
}

export interface NearestParameters extends Common<'nearest'> {
  readonly m: number
  readonly landmarks: LandmarkChoice
}

export interface KdeParameters extends Common<'kde'>, BandwidthParameters {
  readonly maximumRows: number
}

export interface IforestParameters extends Common<'iforest'> {
  readonly trees: number
  readonly subsampleRows: number
}

export interface PcaParameters extends Common<'pca'> {
  /** null where `components` says how many. */
  readonly varianceShare: number | null
  readonly components: number | null
}

export interface HbosParameters extends Common<'hbos'> {
  readonly bins: number
}

export interface EnsembleParameters extends Common<'ensemble'> {
  readonly members: readonly MemberName[]
  /** Of those members that have landmarks; null where none has. */
  readonly m: number | null
  /** null without the member hbos. */
  readonly bins: number | null
}

/** Complete and in range; made by `checkParameters`, plain data. */
export type CheckedParameters =
  | EmbeddedMixtureParameters
  | EmbeddedSvmParameters
  | OcsvmParameters
  | GmmParameters
  | NearestParameters
  | KdeParameters
  | IforestParameters
  | PcaParameters
  | HbosParameters
  | EnsembleParameters

/** The parameters of a detector. */
export type ParametersOf<Name extends DetectorName> = Name extends EmbeddedMixtureName
  ? EmbeddedMixtureParameters
  : Name extends EmbeddedSvmName
    ? EmbeddedSvmParameters
    : Extract<CheckedParameters, { readonly detector: Name }>
