/**
 * A detector that is one algorithm over scaled rows: common parts of nearest, kde, iforest and pca.
 *
 * The algorithm is a module with its own model; this adds a scaler, a report and a place in the model file.
 */
import type { Matrix, Rng } from '@oddflow/core'
import type { DetectorDefinition, FitContext, ModelFact, ModelHead } from '../detector.js'
import { type Fields, failField, fieldsAt } from '../fields.js'
import { fitScaledRows, type SharedWork } from '../fit-rows.js'
import type { FitReport, ModelFrame } from '../model.js'
import {
  encodeFields,
  type ModelFileParts,
  type ModelFileReader,
  type TensorFields,
} from '../model-file/layout.js'
import {
  isOption,
  type OptionName,
  type OptionReader,
  type SettingTable,
  SHARED_SETTINGS,
  type SharedName,
} from '../options.js'
import type { CommonParameters } from '../parameters.js'
import { createScaledScorer, type Scorer, type ScorerOptions } from '../scorer.js'

/** A model, and one sentence for each request that was not met exactly. */
export interface Fitted<Model> {
  readonly model: Model
  readonly notes: readonly string[]
}

interface StandaloneAlgorithm<Parameters extends CommonParameters, Part, Workspace, Own> {
  readonly name: Parameters['detector'] & DetectorDefinition['name']
  readonly summary: string
  /** Shared options and constants beside `scaler`. */
  readonly settings?: readonly SharedName[]
  /** Options and constants of this detector alone. */
  readonly own?: Own & SettingTable
  /** The name of the model's field, tensors and metadata. */
  readonly field: string
  /** Fields of the part that are metadata, and those that are tensors. */
  readonly metadata?: readonly string[]
  readonly tensors?: TensorFields
  /** The part's `kind`, where it is not metadata. */
  readonly kind?: string
  /** Where options depend on each other. */
  readonly checkParameters?: (given: OptionReader) => Parameters
  readonly createWorkspace: (part: Part, simd: boolean) => Workspace
  readonly score: (part: Part, rows: Matrix, out: Float64Array, workspace: Workspace) => Float64Array
  readonly check: (value: unknown, parameters: Parameters, field: string) => Part
  readonly dimensionOf: (part: Part) => number
  /** For a part that has other fields in a file. */
  readonly encode?: (part: Part) => ModelFileParts['tensors']
  readonly decode?: (file: ModelFileReader) => Fields
  readonly spaceNumbers: (part: Part) => number
  readonly facts: (part: Part, parameters: Parameters) => ModelFact[]
  readonly figures: (part: Part) => Readonly<Record<string, number>>
  /** As `DetectorDefinition.normalExamples`, scaled rows alone. */
  readonly examples?: (part: Part) => Matrix
}

/** Fits a scaler, and the algorithm to scaled rows. */
export function fitStandalone<Parameters extends CommonParameters, Part>(
  rows: Matrix,
  parameters: Parameters,
  context: FitContext,
  fitPart: (scaled: Matrix, parameters: Parameters, rng: Rng, shared: SharedWork) => Fitted<Part>,
): { readonly frame: ModelFrame<Parameters>; readonly part: Part } {
  const { rng, report, rowNotes, shared } = context
  report('fit', 0)
  const { scaler, scaled } = fitScaledRows(rows, parameters.scaler, context)
  const { model: part, notes } = fitPart(scaled, parameters, rng, shared)
  report('fit', 1)
  const fitReport: FitReport = {
    trainingRows: rows.rows,
    dimension: rows.cols,
    notes: [...rowNotes, ...notes],
  }
  return { frame: { kind: parameters.detector, parameters, scaler, fitReport }, part }
}

export function standalone<
  Parameters extends CommonParameters,
  Model extends ModelFrame<Parameters>,
  Part,
  Workspace,
  Own = Record<never, never>,
>(a: StandaloneAlgorithm<Parameters, Part, Workspace, Own>): DetectorDefinition<Parameters, Model, Own> {
  const partOf = (model: Model): Part => (model as unknown as Fields)[a.field] as Part
  const { own = {} as Own & SettingTable, examples, metadata = [], tensors = {} } = a
  const prefix = `${a.field}.`
  const shared = ['scaler', ...(a.settings ?? [])] as const
  const options = [
    ...shared.filter((name) => isOption(SHARED_SETTINGS[name])),
    ...Object.keys(own).filter((name) => isOption(own[name]!)),
  ] as OptionName[]
  return {
    name: a.name,
    summary: a.summary,
    options,
    own,
    stages: ['fit'],
    metadataKeys: metadata.length > 0 ? [a.field] : [],
    checkParameters:
      a.checkParameters ??
      // the settings of the detector, each as it is
      ((given) =>
        ({
          detector: a.name,
          ...given.readAll(shared),
          ...given.readOwn(own),
        }) as unknown as Parameters),
    createScorer(model: Model, { simd }: ScorerOptions): Scorer {
      const part = partOf(model)
      const workspace = a.createWorkspace(part, simd)
      return createScaledScorer(model.scaler, model.fitReport.dimension, (rows, out) => {
        a.score(part, rows, out, workspace)
      })
    },
    checkModel(value: Fields, parameters: Parameters, { scaler, fitReport, dimension }: ModelHead): Model {
      const part = a.check(value[a.field], parameters, a.field)
      if (a.dimensionOf(part) !== dimension) {
        failField(
          'fitReport.dimension',
          `columns that leave ${a.dimensionOf(part)} as ${a.field} has`,
          dimension,
        )
      }
      const frame: ModelFrame<Parameters> = { kind: a.name, parameters, scaler, fitReport }
      return { ...frame, [a.field]: part } as unknown as Model
    },
    encode(model: Model) {
      const part = partOf(model)
      const values = Object.fromEntries(metadata.map((name) => [name, (part as Fields)[name]]))
      return {
        metadata: metadata.length > 0 ? { [a.field]: values } : {},
        tensors: a.encode?.(part) ?? encodeFields(part as object, tensors, prefix),
      }
    },
    decode(file: ModelFileReader) {
      if (a.decode !== undefined) return { [a.field]: a.decode(file) }
      const head = metadata.length > 0 ? fieldsAt(file.json(a.field), a.field) : { kind: a.kind }
      const values = Object.fromEntries([...metadata, 'kind'].map((name) => [name, head[name]]))
      return { [a.field]: { ...values, ...file.fields(tensors, prefix) } }
    },
    spaceNumbers: (model: Model) => a.spaceNumbers(partOf(model)),
    facts: (model: Model) => a.facts(partOf(model), model.parameters),
    figures: (model: Model) => a.figures(partOf(model)),
    ...(examples === undefined
      ? {}
      : { normalExamples: (model: Model) => ({ rows: examples(partOf(model)) }) }),
  }
}
