import type { Matrix, Rng } from '@oddflow/core'
import type { HeldOutScores } from './calibration/held-out.js'
import type { Fields } from './fields.js'
import type { SharedWork } from './fit-rows.js'
import type { DetectorModel, FitReport, MixtureModel } from './model.js'
import type { ModelFileParts, ModelFileReader } from './model-file/layout.js'
import type { OptionName, OptionReader } from './options.js'
import type { CheckedParameters } from './parameters.js'
import type { ScalerModel } from './scaler.js'
import type { Scorer, ScorerOptions } from './scorer.js'

/**
 * DetectorDefinition: everything that the rest of OddFlow knows about a detector.
 *
 * A definition checks parameters and models, makes scorers, and lists what goes into a file and what people should
 * know. A fit is a function beside it, so that a program that only loads and scores contains no fit. Detectors with
 * common parts get theirs from a function in `families/`. `fitDetector`, `scoreSamples`, `checkModel`, the model file
 * and the command line use only this interface. Its members are methods, so TypeScript lets a family narrow their
 * parameters to its own: a definition is always looked up by the name in those parameters.
 */

export type FitStage = 'bandwidth' | 'embedding' | 'clusters' | 'mixture' | 'fit'

/** The arguments of a fit besides rows and parameters. */
export interface FitContext {
  readonly rng: Rng
  /** `fraction` of the stage is done, 0 … 1. */
  readonly report: (stage: FitStage, fraction: number) => void
  /** Notes on the rows, copied into the model's notes. */
  readonly rowNotes: readonly string[]
  readonly shared: SharedWork
  /** The column whose numbers are names; null for none. */
  readonly categoryColumn: number | null
  /** Least scale of a standardized column; null derives it from the other columns. */
  readonly minimumScale: number | null
  /** The input of each row; null if all come from one. */
  readonly inputs: Uint32Array | null
  /** For a detector that holds rows out: receives their scores. */
  readonly reportHeldOut: (heldOut: HeldOutScores) => void
}

/** Fields of every model, before the parts of its family are checked. */
export interface ModelHead {
  readonly scaler: ScalerModel
  readonly fitReport: FitReport
  /** Columns of scaled rows: D of the report, without the category column; the family's parts must agree. */
  readonly dimension: number
}

/** One line about a model for people. */
export interface ModelFact {
  readonly label: string
  readonly value: string
}

/** A detector as the registry knows it: its options, scorer, model checks and encoding. */
export interface DetectorDefinition {
  readonly name: DetectorName
  /** One line for help texts. */
  readonly summary: string
  /** Options that apply; others are refused by name. */
  readonly options: readonly OptionName[]
  /** Stage names passed to `FitContext.report`, in order. */
  readonly stages: readonly FitStage[]
  checkParameters(given: OptionReader): CheckedParameters
  /** For one caller at a time. */
  createScorer(model: DetectorModel, options: ScorerOptions): Scorer
  /** Throws ArgumentError or FormatError with the path of the fault. */
  checkModel(value: Fields, parameters: CheckedParameters, head: ModelHead): DetectorModel
  /** Whether a fit holds training rows out and reports their scores, so the threshold needs no further rows. */
  readonly holdsRowsOut?: boolean
  /** Metadata keys of this family only. */
  readonly metadataKeys: readonly string[]
  encode(model: DetectorModel): ModelFileParts
  /** The family's fields, unchecked; pass them to `checkModel`. */
  decode(file: ModelFileReader, parameters: Fields): Fields
  /** Numbers that a scorer needs, counted as in the paper (without the scaler). */
  spaceNumbers(model: DetectorModel): number
  /** For people, in reading order. */
  facts(model: DetectorModel): ModelFact[]
  /** The model's own figures by name, for programs. */
  figures(model: DetectorModel): Readonly<Record<string, number>>
  /** d and the mixture (null without one); only for detectors that embed. */
  embedding?(model: DetectorModel): { readonly dimensions: number; readonly mixture: MixtureModel | null }
}

/** Fits a detector; `rows` are checked and unscaled, n × D. It has a method's type, for the same reason. */
export type DetectorFit = {
  fit(rows: Matrix, parameters: CheckedParameters, context: FitContext): DetectorModel
}['fit']

/**
 * DetectorName: the names for training, storage and the command line.
 *
 * A detector is one file in `detectors/`, its name here and its two lines in `registry.ts`. A name without a definition
 * or a fit does not compile.
 */

export const EMBEDDED_MIXTURE_NAMES = ['oc-kjl', 'oc-nystrom', 'oc-kjl-qs', 'oc-nystrom-qs'] as const
/** Detectors that embed rows by a sketch and separate them by a linear one-class SVM. */
export const EMBEDDED_SVM_NAMES = ['oc-kjl-svm', 'oc-nystrom-svm'] as const

/** One of EMBEDDED_MIXTURE_NAMES. */
export type EmbeddedMixtureName = (typeof EMBEDDED_MIXTURE_NAMES)[number]
/** One of EMBEDDED_SVM_NAMES. */
export type EmbeddedSvmName = (typeof EMBEDDED_SVM_NAMES)[number]

/** The names of all detectors. */
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

/** Detectors that an ensemble may have as members. */
export type MemberName = Exclude<DetectorName, 'ensemble'>
/** Detectors that an ensemble can have as members: all but the ensemble. */
export const MEMBER_NAMES: readonly MemberName[] = DETECTOR_NAMES.filter((name) => name !== 'ensemble')

/** One of DETECTOR_NAMES. */
export type DetectorName = (typeof DETECTOR_NAMES)[number]

/** Returns the detector's definition, or undefined for an unknown name. */
export type FindDetector = (name: DetectorName) => DetectorDefinition | undefined

/** Whether a value is the name of a detector. */
export function isDetectorName(value: unknown): value is DetectorName {
  return (DETECTOR_NAMES as readonly unknown[]).includes(value)
}
