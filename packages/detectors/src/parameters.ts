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
import { ArgumentError, type Matrix, type ScalerName } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import type { DetectorName, EmbeddedMixtureName, EmbeddedSvmName, MemberName } from './detector.js'
import type { GivenOptions } from './option-reader.js'

/**
 * Sizes that a caller states are held to; sizes that nobody stated fit themselves to what there is.
 *
 * There cannot be more landmarks than training rows, more dimensions than landmarks, more components or neighbours
 * than rows. The defaults are made for thousands of rows, so with fewer they are lowered and the model's notes say so.
 * A caller who asked for m = 500 and got 40 would have another detector than the one believed in: that is an
 * ArgumentError, which names the option, what was found and what there is room for.
 *
 * Bounds that only say "at most" (`maximumRows`, `quantileRows`, `clusterSearchRows`, `maximumClusters`) are met by
 * any number of rows and are not looked at here. A model does not keep what was stated: it has passed.
 */

const SIZE_OPTIONS: readonly SizeOption[] = ['m', 'd', 'k', 'neighbours', 'subsampleRows', 'components']

/** Parameters with the sizes among `given` as stated. Throws where sizes contradict each other whatever the rows. */
export function withStatedSizes(parameters: CheckedParameters, given: GivenOptions): CheckedParameters {
  const stated = SIZE_OPTIONS.filter((name) => given[name] !== undefined && given[name] !== null)
  if (stated.length === 0) return parameters
  const checked = { ...parameters, stated }
  holdToStatedSizes(checked, { rows: Number.POSITIVE_INFINITY, cols: Number.POSITIVE_INFINITY })
  return checked
}

/** Throws ArgumentError for the first stated size that there are too few training rows or columns for. */
export function holdToStatedSizes(parameters: CheckedParameters, shape: RowsShape): void {
  const { stated = [] } = parameters
  const broken = sizeLimits(parameters, shape).find(
    ({ name, size, most }) => size > most && stated.includes(name),
  )
  if (broken === undefined) return
  const { name, size, most, what } = broken
  throw new ArgumentError(`${name}: expected at most ${most}, ${what}, found ${size}`, name)
}

/** Sizes that rows of that shape are too few for: a fit lowers those that were not stated. */
export function exceedingSizes(parameters: CheckedParameters, shape: RowsShape): SizeOption[] {
  return sizeLimits(parameters, shape)
    .filter(({ size, most }) => size > most)
    .map(({ name }) => name)
}

/** The parameters as a model keeps them. */
export function keptParameters<Parameters extends CheckedParameters>(parameters: Parameters): Parameters {
  const { stated: _, ...kept } = parameters
  // of the same type, in which `stated` may be absent
  return kept as Parameters
}

/** Training rows: how many, and how wide. */
type RowsShape = Pick<Matrix, 'rows' | 'cols'>

interface SizeLimit {
  readonly name: SizeOption
  readonly size: number
  readonly most: number
  /** Of what there are so many. */
  readonly what: string
}

function sizeLimits(parameters: CheckedParameters, { rows: n, cols }: RowsShape): SizeLimit[] {
  const limits: SizeLimit[] = []
  const limit = (
    name: SizeOption,
    size: number,
    most: number,
    what = 'the number of training rows',
  ): void => {
    limits.push({ name, size, most, what })
  }
  if ('m' in parameters && parameters.m !== null) limit('m', parameters.m, n)
  if ('d' in parameters) limit('d', parameters.d, Math.min(parameters.m, n), 'the number of landmarks')
  if ('k' in parameters) limit('k', parameters.k, n)
  if ('subsampleRows' in parameters) limit('subsampleRows', parameters.subsampleRows, n)
  if ('components' in parameters && parameters.components !== null) {
    limit('components', parameters.components, n)
    limit('components', parameters.components, cols - 1, 'one fewer than there are columns')
  }
  if ('start' in parameters) {
    const { start } = parameters
    if (start.kind === 'k-means++') limit('k', start.k, n)
    else if (start.neighbours !== null) {
      const searched = Math.min(n, start.clusterSearchRows)
      limit('neighbours', start.neighbours, searched, 'the number of rows that clusters are searched in')
    }
  }
  return limits
}

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

/** Options of which rows, landmarks or columns allow no more than there are of them. */
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
