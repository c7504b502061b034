import type { Matrix, Rng } from '@oddflow/core'
import type { HeldOutScores } from './calibration/held-out.js'
import type { CWriter } from './export-c/c-text.js'
import type { Fields } from './fields.js'
import type { SharedWork } from './fit-rows.js'
import type { Mixture } from './mixture/gaussian-mixture.js'
import type { DetectorModel, EmbeddingModel, FitReport, MixtureModel } from './model.js'
import type { ModelFileParts, ModelFileReader } from './model-file/layout.js'
import type { OptionName, OptionReader } from './options.js'
import type { CheckedParameters } from './parameters.js'
import type { Definitions, MemberDefinitions } from './registry.js'
import type { ScalerModel } from './scaler.js'
import type { Scorer, ScorerOptions } from './scorer.js'

/**
 * DetectorDefinition: everything that the rest of OddFlow knows about a detector.
 *
 * A definition checks parameters and models, makes scorers, and lists what goes into a file and what people should
 * know. A fit is a function beside it, so that a program that only loads and scores contains no fit. Detectors with
 * common parts get theirs from a function in `families/`. `fitDetector`, `scoreSamples`, `checkModel`, the model file
 * and the command line use only this interface. Its members are methods, so that a definition for one type of model
 * stands in a table for all: it is always looked up by the name in the model or the parameters.
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

/**
 * What a model stores of normal rows: landmarks, support vectors or centers, which are training rows; for gmm component
 * means; for pca the mean row; for hbos the middles of the fullest bins.
 */
export interface NormalExamples {
  /** Scaled, N × D. */
  readonly rows: Matrix
  /** Its components are modes of normal rows; of the embedded rows, if there is an embedding. */
  readonly mixture?: Mixture
  readonly embedding?: EmbeddingModel
}

/** A detector as the registry knows it: its options, scorer, model checks and encoding. */
export interface DetectorDefinition<
  Parameters = CheckedParameters,
  Model = DetectorModel,
  Own = Record<never, never>,
> {
  readonly name: DetectorName
  /** One line for help texts. */
  readonly summary: string
  /** Options that apply; others are refused by name. */
  readonly options: readonly OptionName[]
  /** Options and constants of this detector alone. */
  readonly own?: Own
  /** Stage names passed to `FitContext.report`, in order. */
  readonly stages: readonly FitStage[]
  checkParameters(given: OptionReader): Parameters
  /** For one caller at a time. */
  createScorer(model: Model, options: ScorerOptions): Scorer
  /** Throws ArgumentError or FormatError with the path of the fault. */
  checkModel(value: Fields, parameters: Parameters, head: ModelHead): Model
  /** Whether a fit holds training rows out and reports their scores, so the threshold needs no further rows. */
  readonly holdsRowsOut?: boolean
  /** Metadata keys of this family only. */
  readonly metadataKeys: readonly string[]
  encode(model: Model): ModelFileParts
  /** The family's fields, unchecked; pass them to `checkModel`. */
  decode(file: ModelFileReader, parameters: Fields): Fields
  /** Numbers that a scorer needs, counted as in the paper (without the scaler). */
  spaceNumbers(model: Model): number
  /** For people, in reading order. */
  facts(model: Model): ModelFact[]
  /** The model's own figures by name, for programs. */
  figures(model: Model): Readonly<Record<string, number>>
  /** What the model stores of normal rows, to explain others; absent for a detector that remembers none. */
  normalExamples?(model: Model): NormalExamples
  /** d and the mixture (null without one); only for detectors that embed. */
  embedding?(model: Model): { readonly dimensions: number; readonly mixture: MixtureModel | null }
}

/** Fits a detector; `rows` are checked and unscaled, n × D. It has a method's type, for the same reason. */
export type DetectorFit = {
  fit(rows: Matrix, parameters: CheckedParameters, context: FitContext): DetectorModel
}['fit']

/** Writes $PREFIXscore_scaled(x) of a model, a C function of a scaled row. */
export type WriteC = {
  write(c: CWriter, model: DetectorModel, prefix: string): void
}['write']

/** Detectors by name: all of them, or the possible members of an ensemble. */
export type DetectorTable = Readonly<Partial<Record<string, DetectorDefinition>>>

/** The name of a detector, for training, storage and the command line. */
export type DetectorName = keyof Definitions
/** Detectors that an ensemble may have as members. */
export type MemberName = keyof MemberDefinitions
