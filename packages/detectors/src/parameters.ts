/**
 * Parameters: the options a caller writes, and the parameters a fit receives.
 *
 * `DetectorOptions` is flat, with all fields optional. `checkParameters` turns it into `CheckedParameters`: complete,
 * grouped by the stage that uses it, and stored in the model. Options that the detector does not use are refused by
 * name, so users know which settings are in force.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import type { DetectorName } from './detector.js'
import type { GivenOptions, SharedValue } from './options.js'
import type { Definitions } from './registry.js'
import type { ScalerName } from './scaler.js'

/**
 * Explicit sizes are exact; default sizes are lowered where there are fewer rows, landmarks or dimensions, and the
 * model's notes say so. An explicit size that does not fit is an ArgumentError. Models do not store which sizes were
 * explicit.
 */

const SIZE_OPTIONS: readonly SizeOption[] = ['m', 'd', 'k']

/** Parameters with the sizes in `given` marked as explicit. Throws if sizes contradict each other for all rows. */
export function withExplicitSizes(parameters: CheckedParameters, given: GivenOptions): CheckedParameters {
  const explicitSizes = SIZE_OPTIONS.filter((name) => given[name] !== undefined && given[name] !== null)
  if (explicitSizes.length === 0) return parameters
  const checked = { ...parameters, explicitSizes }
  checkExplicitSizes(checked, { rows: Number.POSITIVE_INFINITY })
  return checked
}

/** Throws ArgumentError for the first explicit size that needs more training rows. */
export function checkExplicitSizes(parameters: CheckedParameters, shape: RowsShape): void {
  const { explicitSizes = [] } = parameters
  const broken = sizeLimits(parameters, shape).find(
    ({ name, size, most }) => size > most && explicitSizes.includes(name),
  )
  if (broken === undefined) return
  const { name, size, most, what } = broken
  throw new ArgumentError(`${name}: expected at most ${most}, ${what}, found ${size}`, name)
}

/** Sizes too large for rows of that shape: a fit lowers those that are not explicit. */
export function exceedingSizes(parameters: CheckedParameters, shape: RowsShape): SizeOption[] {
  return sizeLimits(parameters, shape)
    .filter(({ size, most }) => size > most)
    .map(({ name }) => name)
}

/** The parameters as a model keeps them. */
export function storedParameters<Parameters extends CheckedParameters>(parameters: Parameters): Parameters {
  const { explicitSizes: _, ...kept } = parameters
  // the same type, but `explicitSizes` may be absent
  return kept as Parameters
}

type RowsShape = Pick<Matrix, 'rows'>

interface SizeLimit {
  readonly name: SizeOption
  readonly size: number
  readonly most: number
  /** Of what there are so many. */
  readonly what: string
}

function sizeLimits(parameters: CheckedParameters, { rows: n }: RowsShape): SizeLimit[] {
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
  if ('start' in parameters) {
    const { start } = parameters
    if (start.kind === 'k-means++') limit('k', start.k, n)
  }
  return limits
}

/** How landmarks are chosen among training rows. */
export type LandmarkChoice = SharedValue<'landmarks'>
/** Which pair distances a bandwidth quantile ranks. */
export type QuantileCompat = SharedValue<'quantileCompat'>
/** What EM starts from. */
export type MixtureStart = SharedValue<'mixtureStart'>

/** Options limited by the number of rows or landmarks. */
export type SizeOption = 'm' | 'd' | 'k'

/** Parameters of a KJL sketch. */
export interface KjlParameters {
  readonly kind: 'kjl'
  readonly centre: boolean
}

/** Parameters of a Nyström sketch. */
export interface NystromParameters {
  readonly kind: 'nystrom'
}

/** EM starts from clusters that QuickShift++ finds. */
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

/** EM starts from k clusters of k-means++. */
export interface KMeansStart {
  readonly kind: 'k-means++'
  readonly k: number
}

/** Which sketch of the Gaussian kernel embeds rows. */
export type EmbeddingParameters = KjlParameters | NystromParameters
/** How a mixture gets its first components. */
export type StartParameters = QuickShiftStart | KMeansStart

/** When EM stops, and what it adds to covariances. */
export interface EmParameters {
  readonly tolerance: number
  readonly maximumSteps: number
  readonly regularisation: number
}

/** Parameters of every detector. */
export interface CommonParameters<Name extends string = string> {
  readonly detector: Name
  readonly scaler: ScalerName
  /**
   * Explicit sizes: a fit uses them exactly or throws, but may lower a default. Absent if there are none, and in the
   * parameters of models.
   */
  readonly explicitSizes?: readonly SizeOption[]
}

/** h, the bandwidth. */
export interface BandwidthParameters {
  readonly bandwidthQuantile: number
  readonly quantileCompat: QuantileCompat
  readonly quantileRows: number
}

/** Of every sketch of the Gaussian kernel. */
export interface SketchParameters extends BandwidthParameters {
  readonly precision: Precision
  readonly m: number
  readonly landmarks: LandmarkChoice
  readonly d: number
  readonly embedding: EmbeddingParameters
  readonly supportGuard: boolean
}

/** The parameters of a detector. */
export type ParametersOf<Name extends DetectorName> = ReturnType<Definitions[Name]['checkParameters']>

/** Complete and in range; made by `checkParameters`, plain data. */
export type CheckedParameters = ParametersOf<DetectorName>
