/**
 * DetectorDefinition: what the registry knows of a detector.
 *
 * A definition names the options that apply and says how the stages are put together. All detectors so far
 * are one composition, embedding then mixture, that differ in the embedding and in where EM starts.
 */
import type { DetectorName } from './detector-name.js'
import type { EmbeddingParameters, OptionName, StartParameters } from './parameters.js'

export interface DetectorDefinition {
  readonly name: DetectorName
  /** One line for help texts. */
  readonly summary: string
  readonly embedding: EmbeddingParameters['kind']
  readonly start: StartParameters['kind']
  /** Options that apply; every other one is refused by name. */
  readonly options: readonly OptionName[]
}

/** Options of every detector that embeds and fits a mixture. */
export const EMBEDDED_MIXTURE_OPTIONS = [
  'bandwidthQuantile',
  'm',
  'd',
  'scaler',
  'tolerance',
  'maximumSteps',
  'regularisation',
  'supportGuard',
] as const satisfies readonly OptionName[]

/** Options of the QuickShift++ start. */
export const QUICKSHIFT_OPTIONS = [
  'beta',
  'neighbours',
  'coverage',
  'maximumClusters',
] as const satisfies readonly OptionName[]
