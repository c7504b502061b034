import type { Matrix, Rng } from '@oddflow/core'
import type { HeldOutScores } from './calibration/held-out.js'
import type { Fields } from './fields.js'
import type { DetectorModel, FitReport, MixtureModel } from './model.js'
import type { ModelFileParts, ModelFileReader } from './model-file/layout.js'
import type { OptionName, OptionReader } from './options.js'
import type { CheckedParameters } from './parameters.js'
import type { ScalerModel } from './scaler.js'
import type { Scorer, ScorerOptions } from './scorer.js'
import type { SharedWork } from './shared-work.js'

/**
 * DetectorDefinition: everything that the rest of OddFlow knows of a detector.
 *
 * A definition checks parameters and models, fits, makes scorers, and says what of a model goes into a file and
 * what is worth telling people. Detectors that are put together alike get theirs from one function in
 * `families/`; `fitDetector`, `scoreSamples`, `checkModel`, the model file and the command line work through this
 * interface alone. It is written with methods, whose parameters TypeScript lets a family narrow to its own
 * parameters and model: a definition is only ever looked up by the name that stands in them.
 */

export type FitStage = 'bandwidth' | 'embedding' | 'clusters' | 'mixture' | 'fit'

/** What a fit is given beside rows and parameters. */
export interface FitContext {
  readonly rng: Rng
  /** `fraction` of the stage is done, 0 … 1. */
  readonly report: (stage: FitStage, fraction: number) => void
  /** Notes on the rows themselves, for the model's. */
  readonly rowNotes: readonly string[]
  readonly shared: SharedWork
  /** The column whose numbers are names; null: none. */
  readonly categoryColumn: number | null
  /** Least scale of a standardised column; null: by the other columns. */
  readonly minimumScale: number | null
  /** Which input each row came from; null: all from one. */
  readonly inputs: Uint32Array | null
  /** For a detector that holds rows out: what they scored. */
  readonly reportHeldOut: (heldOut: HeldOutScores) => void
}

/** What every model has when the parts of its family are still to be checked. */
export interface ModelHead {
  readonly scaler: ScalerModel
  readonly fitReport: FitReport
  /** Columns of scaled rows: D of the report, less the category column; the family's own parts must agree. */
  readonly dimension: number
}

export interface ModelFact {
  readonly label: string
  readonly value: string
}

export interface DetectorDefinition {
  readonly name: DetectorName
  /** One line for help texts. */
  readonly summary: string
  /** Options that apply; every other one is refused by name. */
  readonly options: readonly OptionName[]
  /** What `FitContext.report` is called with, in order. */
  readonly stages: readonly FitStage[]
  checkParameters(given: OptionReader): CheckedParameters
  /** `rows` are checked and unscaled, n × D. */
  fit(rows: Matrix, parameters: CheckedParameters, context: FitContext): DetectorModel
  /** For one caller at a time. */
  createScorer(model: DetectorModel, options: ScorerOptions): Scorer
  /** Throws ArgumentError or FormatError with the path of what is wrong. */
  checkModel(value: Fields, parameters: CheckedParameters, head: ModelHead): DetectorModel
  /** Whether a fit holds training rows out and reports what they scored, so that a threshold needs no rows of its own. */
  readonly holdsRowsOut?: boolean
  /** Metadata keys that only models of this family have. */
  readonly metadataKeys: readonly string[]
  encode(model: DetectorModel): ModelFileParts
  /** The family's fields, unchecked: they go to `checkModel`. */
  decode(file: ModelFileReader, parameters: Fields): Fields
  /** Numbers that a scorer needs as the paper counts them; a scaler is not counted. */
  spaceNumbers(model: DetectorModel): number
  /** For people, in reading order. */
  facts(model: DetectorModel): ModelFact[]
  /** For programs: the model's own figures, by name. */
  figures(model: DetectorModel): Readonly<Record<string, number>>
  /** d and the mixture, null where there is none; only for detectors that embed. */
  embedding?(model: DetectorModel): { readonly dimensions: number; readonly mixture: MixtureModel | null }
}

/**
 * DetectorName: the names under which detectors are trained, stored and chosen on a command line.
 *
 * A detector is one file in `detectors/`, its name here and its line in `registry.ts`; the compiler refuses a
 * name without a definition.
 */

export const EMBEDDED_MIXTURE_NAMES = ['oc-kjl', 'oc-nystrom', 'oc-kjl-qs', 'oc-nystrom-qs'] as const
export const EMBEDDED_SVM_NAMES = ['oc-kjl-svm', 'oc-nystrom-svm'] as const

export type EmbeddedMixtureName = (typeof EMBEDDED_MIXTURE_NAMES)[number]
export type EmbeddedSvmName = (typeof EMBEDDED_SVM_NAMES)[number]

export const DETECTOR_NAMES = [
  'ocsvm',
  ...EMBEDDED_MIXTURE_NAMES,
  ...EMBEDDED_SVM_NAMES,
  'gmm',
  'nearest',
  'kde',
  'iforest',
  'pca',
  'hbos',
  'ensemble',
] as const

/** Those that an ensemble may have as members. */
export type MemberName = Exclude<DetectorName, 'ensemble'>
export const MEMBER_NAMES: readonly MemberName[] = DETECTOR_NAMES.filter((name) => name !== 'ensemble')

export type DetectorName = (typeof DETECTOR_NAMES)[number]

/** Looks a detector up; undefined for a name that has none there. */
export type FindDetector = (name: DetectorName) => DetectorDefinition | undefined

export function isDetectorName(value: unknown): value is DetectorName {
  return (DETECTOR_NAMES as readonly unknown[]).includes(value)
}
