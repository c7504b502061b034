/**
 * A detector that is one algorithm over scaled rows: common parts of nearest, kde, iforest and pca.
 *
 * The algorithm is a module with its own model; this adds a scaler, a report and a place in the model file.
 */
import type { Matrix, Rng } from '@oddflow/core'
import type { DetectorDefinition, DetectorName, FitContext, ModelFact, ModelHead } from '../detector.js'
import { type Fields, failField } from '../fields.js'
import type { SharedWork } from '../fit-rows.js'
import type { DetectorModel, FitReport, ModelFrame } from '../model.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/layout.js'
import type { ConstantName, OptionName, OptionReader } from '../options.js'
import type { ParametersOf } from '../parameters.js'
import { fitScaledRows } from '../scaler.js'
import { createScaledScorer, type Scorer, type ScorerOptions } from '../scorer.js'

/** A model, and one sentence for each request that was not met exactly. */
export interface Fitted<Model> {
  readonly model: Model
  readonly notes: readonly string[]
}

interface StandaloneAlgorithm<Name extends DetectorName, Part, Workspace> {
  readonly name: Name
  readonly summary: string
  /** Beside `scaler`. */
  readonly options: readonly OptionName[]
  /** Stored with them. */
  readonly constants?: readonly ConstantName[]
  /** The name of the model's field, tensors and metadata. */
  readonly field: string
  readonly hasMetadata: boolean
  /** Where options depend on each other. */
  readonly checkParameters?: (given: OptionReader) => ParametersOf<Name>
  readonly createWorkspace: (part: Part, simd: boolean) => Workspace
  readonly score: (part: Part, rows: Matrix, out: Float64Array, workspace: Workspace) => Float64Array
  readonly check: (value: unknown, parameters: ParametersOf<Name>, field: string) => Part
  readonly dimensionOf: (part: Part) => number
  readonly encode: (part: Part) => ModelFileParts
  readonly decode: (file: ModelFileReader) => Fields
  readonly spaceNumbers: (part: Part) => number
  readonly facts: (part: Part, parameters: ParametersOf<Name>) => ModelFact[]
  readonly figures: (part: Part) => Readonly<Record<string, number>>
}

/** Fits a scaler, and the algorithm to scaled rows. */
export function fitStandalone<Name extends DetectorName, Part>(
  rows: Matrix,
  parameters: ParametersOf<Name> & { readonly detector: Name },
  context: FitContext,
  fitPart: (scaled: Matrix, parameters: ParametersOf<Name>, rng: Rng, shared: SharedWork) => Fitted<Part>,
): { readonly frame: ModelFrame<Name>; readonly part: Part } {
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

export function standalone<Name extends DetectorName, Part, Workspace>(
  a: StandaloneAlgorithm<Name, Part, Workspace>,
): DetectorDefinition {
  const partOf = (model: DetectorModel): Part => (model as unknown as Fields)[a.field] as Part
  const options: readonly OptionName[] = ['scaler', ...a.options]
  return {
    name: a.name,
    summary: a.summary,
    options,
    stages: ['fit'],
    metadataKeys: a.hasMetadata ? [a.field] : [],
    checkParameters:
      a.checkParameters ??
      // the options of the detector, each as it is
      ((given) =>
        ({
          detector: a.name,
          ...given.readAll([...options, ...(a.constants ?? [])]),
        }) as unknown as ParametersOf<Name>),
    createScorer(model: DetectorModel, { simd }: ScorerOptions): Scorer {
      const part = partOf(model)
      const workspace = a.createWorkspace(part, simd)
      return createScaledScorer(model.scaler, model.fitReport.dimension, (rows, out) => {
        a.score(part, rows, out, workspace)
      })
    },
    checkModel(value: Fields, parameters: ParametersOf<Name>, { scaler, fitReport, dimension }: ModelHead) {
      const part = a.check(value[a.field], parameters, a.field)
      if (a.dimensionOf(part) !== dimension) {
        failField(
          'fitReport.dimension',
          `columns that leave ${a.dimensionOf(part)} as ${a.field} has`,
          dimension,
        )
      }
      const frame: ModelFrame<Name> = { kind: a.name, parameters, scaler, fitReport }
      return { ...frame, [a.field]: part } as unknown as DetectorModel
    },
    encode: (model: DetectorModel) => a.encode(partOf(model)),
    decode: (file: ModelFileReader) => ({ [a.field]: a.decode(file) }),
    spaceNumbers: (model: DetectorModel) => a.spaceNumbers(partOf(model)),
    facts(model: DetectorModel): ModelFact[] {
      return a.facts(partOf(model), model.parameters as ParametersOf<Name>)
    },
    figures: (model: DetectorModel) => a.figures(partOf(model)),
  }
}
