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
import type { DetectorName } from './detector-name.js'

/** What a caller may set. Everything has a default. */
export interface DetectorOptions {
  /** Default `oc-kjl-qs`. */
  readonly detector?: DetectorName
  /** Kernel bandwidth h as a quantile of the pair distances of training rows, in (0, 1]; default 0.3. */
  readonly bandwidthQuantile?: number
  /** Landmarks, 1 … 2,000; default 100. Lowered to the number of rows when there are fewer. */
  readonly m?: number
  /** Dimensions of the embedding, 1 … 256; default 5. Lowered to the rank of the landmarks' gram matrix. */
  readonly d?: number
  /** Mixture components, 1 … 1,000, for oc-kjl and oc-nystrom alone; default 10. */
  readonly k?: number
  /** KJL alone: subtract the column means of the gram matrix before sketching; default false (the paper). */
  readonly centre?: boolean
  /** Whether a row far from every landmark is novel whatever the mixture says of it; default true. Without it
   * the score is the log-density of the paper. */
  readonly supportGuard?: boolean
  /** Default `none`. */
  readonly scaler?: ScalerName
  /** QuickShift++ (-qs alone): share of density by which a core may fall below its peak, in (0, 1); 0.9. */
  readonly beta?: number
  /** QuickShift++ (-qs alone): neighbours, the point itself counted; default floor(n^(2/3)). */
  readonly neighbours?: number
  /** -qs alone: clusters are kept, largest first, until more than this share of rows is in them; 0.95. */
  readonly coverage?: number
  /** -qs alone: at most so many clusters are kept, 1 … 1,000; default 20. */
  readonly maximumClusters?: number
  /** EM stops when the mean log-likelihood changes by less; default 1e-3. */
  readonly tolerance?: number
  /** EM stops after so many steps, 1 … 100,000; default 100. */
  readonly maximumSteps?: number
  /** Added to the diagonal of every covariance, in (0, 1e-3]; default 1e-6. Raised tenfold, to 1e-3 at most,
   * when a covariance is singular all the same. */
  readonly regularisation?: number
}

export type OptionName = Exclude<keyof DetectorOptions, 'detector'>

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

/** Complete and in range; made by `checkParameters`, plain data. */
export interface CheckedParameters {
  readonly detector: DetectorName
  readonly scaler: ScalerName
  readonly bandwidthQuantile: number
  readonly m: number
  readonly d: number
  readonly embedding: EmbeddingParameters
  readonly start: StartParameters
  readonly em: EmParameters
  readonly supportGuard: boolean
}
