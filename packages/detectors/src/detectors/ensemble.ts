/**
 * ensemble: members whose surprises are added.
 *
 * Columns are standardized. Each member gives a row a view, which becomes a surprise by comparison with held-out
 * training rows (held-out.ts); the score is minus the sum. Rows unlike all others are left out of a second fit, so one
 * odd flow cannot hide others. A row is compared with rows of its own service, the category column
 * (ensemble/members.ts).
 */
import { createMatrix, DataError, type Matrix, plural } from '@oddflow/core'
import {
  checkSurpriseCurve,
  dealFolds,
  fillWithMedian,
  findOddRows,
  fitSurpriseCurve,
  foldRows,
  rowNumbers,
  type SurpriseCurve,
  surpriseOf,
} from '../calibration/held-out.js'
import type { DetectorDefinition, FitContext, MemberName, ModelFact, ModelHead } from '../detector.js'
import {
  checkStandardisation,
  countCategories,
  type EnsembleMember,
  type EnsemblePart,
  fitStandardisation,
  type MemberFit,
  type MemberModel,
  type MemberTraining,
  standardise,
  viewRows,
} from '../ensemble/ensemble-part.js'
import {
  createMemberFit,
  createViews,
  createWeightedViews,
  type MemberDetectors,
  type MemberFits,
  memberKind,
  viewWeights,
} from '../ensemble/members.js'
import { type Fields, failField, fieldsAt } from '../fields.js'
import { fitScaledRows } from '../fit-rows.js'
import type { FitReport, ModelFrame } from '../model.js'
import {
  type ModelFileParts,
  type ModelFileReader,
  matrixTensor,
  vectorTensor,
} from '../model-file/layout.js'
import { badOption, type OptionDefinition, type OptionReader } from '../options.js'
import type { CommonParameters } from '../parameters.js'
import { scaledWidth, scaleInto } from '../scaler.js'
import { keepFinite, type Scorer, type ScorerOptions } from '../scorer.js'
import { HBOS_OPTIONS } from './hbos.js'

/** Differs from m of other detectors by measurement: docs/results/default-recipe.md. */
const DEFAULT_ENSEMBLE_LANDMARKS = 128

/** Options of the ensemble alone. */
export interface EnsembleOptions {
  readonly members: OptionDefinition<readonly MemberName[]>
}

/** Each member once, and no ensemble inside an ensemble. */
function membersOption(names: readonly string[]): OptionDefinition<readonly MemberName[]> {
  return {
    kind: 'list',
    value: 'list',
    group: 'Other detectors',
    help: 'detectors whose scores are combined',
    byDefault: ['nearest', 'hbos'],
    isValid: (value) =>
      Array.isArray(value) &&
      value.length > 0 &&
      new Set(value).size === value.length &&
      value.every((name) => names.includes(name)),
    expected: `some of ${names.join(', ')}, each once`,
  }
}

/** Checked parameters of an ensemble. */
export interface EnsembleParameters extends CommonParameters<'ensemble'> {
  readonly members: readonly MemberName[]
  /** Of the members with landmarks; null if there are none. */
  readonly m: number | null
  /** null without the member hbos, or for as many as the rows ask for. */
  readonly bins: number | null
}

/** Fitted detectors whose calibrated surprises are added up. */
export interface EnsembleModel extends ModelFrame<EnsembleParameters> {
  readonly ensemble: EnsemblePart
}

/** The ensemble of those detectors. */
export function ensembleOf(
  detectors: MemberDetectors,
): DetectorDefinition<EnsembleParameters, EnsembleModel, EnsembleOptions> {
  const own = { members: membersOption(Object.keys(detectors)) }
  return {
    name: 'ensemble',
    summary: 'the surprises of several detectors, added up',
    options: ['scaler', 'members', 'm', 'bins'],
    own,
    stages: ['fit'],
    metadataKeys: ['ensemble'],
    holdsRowsOut: true,

    checkParameters(given: OptionReader): EnsembleParameters {
      const { members } = given.readOwn(own)
      const hasLandmarks = members.some((name) => detectors[name].options.includes('m'))
      const hasHistograms = members.includes('hbos')
      if (given.has('m') && !hasLandmarks) throw badOption('m', `a member with landmarks`, members.join())
      if (given.has('bins') && !hasHistograms) throw badOption('bins', 'the member hbos', members.join())
      return {
        detector: 'ensemble',
        scaler: given.read('scaler'),
        members,
        m: !hasLandmarks ? null : given.has('m') ? given.read('m') : DEFAULT_ENSEMBLE_LANDMARKS,
        bins: hasHistograms && given.has('bins') ? given.readOwn(HBOS_OPTIONS).bins : null,
      }
    },

    createScorer: (model: EnsembleModel, options: ScorerOptions) =>
      createEnsembleScorer(detectors, model, options),

    checkModel(value: Fields, parameters: EnsembleParameters, head: ModelHead): EnsembleModel {
      const { scaler, fitReport, dimension } = head
      return {
        kind: 'ensemble',
        parameters,
        scaler,
        ensemble: checkEnsemblePart(
          detectors,
          value.ensemble,
          parameters,
          dimension,
          scaler.categoryColumn !== undefined,
        ),
        fitReport,
      }
    },

    encode: (model: EnsembleModel) => encodeEnsemble(detectors, model),
    decode: (file: ModelFileReader, parameters: Fields) => decodeEnsemble(detectors, file, parameters),

    spaceNumbers({ ensemble: { members } }: EnsembleModel): number {
      // numbers of half the width count half
      return Math.ceil(
        members.reduce(
          (sum, member) =>
            member.surprises.reduce(
              (all, { body }) => all + body.data.length + 1,
              sum + memberKind(detectors, member.name).spaceNumbers(member),
            ),
          0,
        ),
      )
    },

    facts({ ensemble: { members } }: EnsembleModel): ModelFact[] {
      return [
        { label: 'members', value: members.map(({ name }) => name).join(', ') },
        ...members.flatMap((member) => memberKind(detectors, member.name).facts(member)),
      ]
    },

    figures({ ensemble: { members } }: EnsembleModel): Readonly<Record<string, number>> {
      const figures: Record<string, number> = { members: members.length }
      for (const member of members) if (member.name === 'nearest') figures.landmarks = member.landmarks.rows
      return figures
    },
  }
}

// ---- fit

/** Of members with these definitions and fits. */
export function fitEnsemble(
  detectors: MemberDetectors,
  memberFits: MemberFits,
  rows: Matrix,
  parameters: EnsembleParameters,
  context: FitContext,
): EnsembleModel {
  const { categoryColumn, report } = context
  report('fit', 0)
  const { scaler, scaled } = fitScaledRows(rows, parameters.scaler, context)
  const work: EnsembleWork = {
    detectors,
    memberFits,
    scaled,
    standardised: createMatrix(scaled.rows, scaled.cols),
    categories: categoryColumn === null ? null : countCategories(rows, categoryColumn),
    inputs: context.inputs ?? new Uint32Array(rows.rows),
    parameters,
    context,
  }
  const all = holdOut(work, new Uint8Array(rows.rows), 0)
  const odd = findOddRows(all.sums)
  const oddRows = odd.reduce((sum, isOdd) => sum + isOdd, 0)
  const { sums, curves, fits, kept, standardisation } = oddRows === 0 ? all : holdOut(work, odd, 0.45)
  const members = parameters.members.map((name, at): EnsembleMember => {
    const model = fits[at]!({ fold: null, numbers: kept }, context.rng.fork(`member ${name}`))
    return { ...model, surprises: curves[at]! }
  })
  report('fit', 1)
  context.reportHeldOut({ scores: sums.map((sum) => 0 - sum), inputs: work.inputs.slice(), odd })
  const fitReport: FitReport = {
    trainingRows: rows.rows,
    dimension: rows.cols,
    notes: [...context.rowNotes, ...notesOn(members, parameters, kept.length, oddRows)],
  }
  return { kind: 'ensemble', parameters, scaler, ensemble: { ...standardisation, members }, fitReport }
}

interface EnsembleWork extends Pick<MemberTraining, 'categories'> {
  readonly detectors: MemberDetectors
  readonly memberFits: MemberFits
  readonly scaled: Matrix
  /** Rewritten by each round. */
  readonly standardised: Matrix
  readonly inputs: Uint32Array
  readonly parameters: EnsembleParameters
  readonly context: FitContext
}

interface HeldOutRound {
  readonly standardisation: Pick<EnsemblePart, 'centre' | 'scale'>
  /** Numbers of all rows but odd ones. */
  readonly kept: Uint32Array
  /** By member. */
  readonly fits: readonly MemberFit[]
  /** By member, of each of its views. */
  readonly curves: readonly (readonly SurpriseCurve[])[]
  /** The summed surprises of all rows, including odd ones. */
  readonly sums: Float64Array
}

/** Every input is held out in turn; odd rows are scored but not learned. */
function holdOut(work: EnsembleWork, odd: Uint8Array, progress: number): HeldOutRound {
  const { detectors, memberFits, scaled, standardised, categories, parameters, context } = work
  const n = scaled.rows
  const kept = rowNumbers(n, (i) => odd[i] === 0)
  const standardisation = fitStandardisation(scaled, kept, context.minimumScale)
  standardise(standardisation, scaled.data, scaled.data.length, standardised.data)
  const training: MemberTraining = { rows: standardised, categories }
  const folds = dealFolds(work.inputs)
  const sums = new Float64Array(n)
  let done = 0
  const fits = parameters.members.map((name) =>
    createMemberFit(detectors, memberFits, name, training, folds, kept, parameters),
  )
  const curves = parameters.members.map((name, at): SurpriseCurve[] => {
    const weights = viewWeights(name, categories !== null)
    const values = weights.map(() => new Float64Array(n).fill(Number.NaN))
    let failure: unknown
    for (let fold = 0; fold < folds.count; fold++) {
      const rows = foldRows(folds, fold, odd)
      if (rows !== null) {
        try {
          const rng = context.rng.fork(`member ${name} without fold ${fold}`)
          const member = fits[at]!({ fold, numbers: rows.fit }, rng)
          createViews(detectors, member, categories !== null, true).forEach((view, k) => {
            viewRows(view, training, rows.held, values[k]!)
          })
        } catch (error) {
          // rows of one input may teach too little although all rows suffice
          if (!(error instanceof DataError)) throw error
          failure = error
        }
      }
      done++
      context.report('fit', progress + (0.45 * done) / (folds.count * parameters.members.length))
    }
    if (failure !== undefined && values[0]!.every(Number.isNaN)) throw failure
    return values.map((ofView, k) => {
      fillWithMedian(ofView)
      const curve = fitSurpriseCurve(odd.includes(1) ? Float64Array.from(kept, (i) => ofView[i]!) : ofView)
      for (let i = 0; i < n; i++) sums[i]! += surpriseOf(curve, ofView[i]!, weights[k]!)
      return curve
    })
  })
  return { standardisation, kept, fits, curves, sums }
}

function notesOn(
  members: readonly EnsembleMember[],
  { m }: EnsembleParameters,
  rows: number,
  oddRows: number,
): string[] {
  const notes: string[] = []
  const landmarks = members.find(({ name }) => name === 'nearest')
  if (m !== null && rows < m) notes.push(`m lowered from ${m} to the ${rows} training rows`)
  else if (m !== null && landmarks?.name === 'nearest' && landmarks.landmarks.rows < m) {
    notes.push(`m lowered from ${m} to ${landmarks.landmarks.rows}: no more rows differ`)
  }
  if (oddRows > 0) {
    notes.push(
      `${plural(oddRows, 'training row')} unlike all others: left out of the fit and of the threshold`,
    )
  }
  for (const member of members) {
    if ('model' in member) {
      notes.push(...member.model.fitReport.notes.map((note) => `${member.name}: ${note}`))
    }
  }
  return notes
}

// ---- scoring

const TILE_ROWS = 32

function createEnsembleScorer(
  detectors: MemberDetectors,
  { scaler, ensemble, fitReport }: EnsembleModel,
  { simd }: ScorerOptions,
): Scorer {
  const { dimension } = fitReport
  const { categoryColumn = -1 } = scaler
  const { members } = ensemble
  const cols = scaledWidth(scaler, dimension)
  const data = new Float64Array(TILE_ROWS * cols)
  const tile: Matrix = { rows: TILE_ROWS, cols, data }
  const single: Matrix = { rows: 1, cols, data: data.subarray(0, cols) }
  const categories = new Float64Array(TILE_ROWS)
  const values = new Float64Array(TILE_ROWS)
  const sums = new Float64Array(TILE_ROWS)
  const views = members.flatMap((member) => createWeightedViews(detectors, member, categoryColumn >= 0, simd))
  return {
    score(rows, out) {
      for (let i = 0; i < rows.rows; ) {
        const part = i + TILE_ROWS <= rows.rows ? tile : single
        scaleInto(scaler, rows.data, i * dimension, part.rows, dimension, data)
        keepFinite(data, part.data.length, Number.MAX_VALUE)
        standardise(ensemble, data, part.data.length, data)
        if (categoryColumn >= 0) {
          for (let r = 0; r < part.rows; r++) categories[r] = rows.data[(i + r) * dimension + categoryColumn]!
        }
        sums.fill(0)
        for (const { view, surprise, weights } of views) {
          view(part, categories, values)
          for (let r = 0; r < part.rows; r++) sums[r]! += surpriseOf(surprise, values[r]!, weights)
        }
        for (let r = 0; r < part.rows; r++, i++) out[i] = 0 - sums[r]!
      }
    },
  }
}

// ---- model file

function encodeEnsemble(
  detectors: MemberDetectors,
  { ensemble: { centre, scale, members } }: EnsembleModel,
): ModelFileParts {
  const metadata: Record<string, unknown> = {}
  const tensors: Record<string, ModelFileParts['tensors'][string]> = {
    'ensemble.centre': vectorTensor(centre),
    'ensemble.scale': vectorTensor(scale),
  }
  for (const { surprises, ...model } of members) {
    const prefix = `ensemble.${model.name}.`
    const parts = memberKind(detectors, model.name).encode(model as MemberModel, prefix)
    metadata[model.name] = {
      meanExcess: surprises.map(({ meanExcess }) => meanExcess),
      ...parts.metadata,
    }
    surprises.forEach(({ body }, view) => {
      tensors[`${prefix}surprise.${view}`] = matrixTensor(body)
    })
    Object.assign(tensors, parts.tensors)
  }
  return { metadata: { ensemble: metadata }, tensors }
}

function decodeEnsemble(detectors: MemberDetectors, file: ModelFileReader, parameters: Fields): Fields {
  const heads = fieldsAt(file.json('ensemble'), 'ensemble')
  const names = parameters.members
  if (!Array.isArray(names)) return failField('parameters.members', 'a list of detectors', names)
  const members = names.map((name) => {
    // other names are refused with the parameters
    if (typeof name !== 'string' || !Object.hasOwn(detectors, name)) return null
    const path = `ensemble.${name}`
    const head = fieldsAt(heads[name], path)
    const inside = file.within(`${path}.`, head)
    const surprises = listAt(head.meanExcess, `${path}.meanExcess`).map((meanExcess, view) => ({
      body: inside.matrix(`surprise.${view}`),
      meanExcess,
    }))
    return { ...memberKind(detectors, name as MemberName).decode(head, inside, path), surprises }
  })
  return {
    ensemble: { centre: file.vector('ensemble.centre'), scale: file.vector('ensemble.scale'), members },
  }
}

// ---- check

function checkEnsemblePart(
  detectors: MemberDetectors,
  value: unknown,
  parameters: EnsembleParameters,
  cols: number,
  hasServices: boolean,
): EnsemblePart {
  const part = fieldsAt(value, 'ensemble')
  const { members } = part
  if (!Array.isArray(members) || members.length !== parameters.members.length) {
    return failField('ensemble.members', parameters.members.join(), members)
  }
  return {
    ...checkStandardisation(part, cols),
    members: parameters.members.map((name, i): EnsembleMember => {
      const path = `ensemble.${name}`
      const member = fieldsAt(members[i], path)
      if (member.name !== name) failField(`${path}.name`, name, member.name)
      const views = viewWeights(name, hasServices).length
      const surprises = listAt(member.surprises, `${path}.surprise`)
      if (surprises.length !== views) failField(`${path}.surprise`, `${views}, one a view`, surprises.length)
      return {
        ...memberKind(detectors, name).check(member, parameters, { cols, hasServices }, path),
        surprises: surprises.map((surprise, k) => checkSurpriseCurve(surprise, `${path}.surprise.${k}`)),
      }
    }),
  }
}

function listAt(value: unknown, path: string): readonly unknown[] {
  return Array.isArray(value) ? value : failField(path, 'a list', value)
}
