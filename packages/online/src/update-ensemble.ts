/**
 * Updates an ensemble with rows stated to be normal, without its training rows; the model keeps its size.
 *
 * - landmarks: farthest-first among the old landmarks and the given rows;
 * - histograms: old counts plus the given rows, in bins made of whole old bins;
 * - curves, threshold and group levels: the old distributions plus the held-out scores of the given rows.
 *
 * Given rows together weigh at most half of all, so many rows cannot drown the earlier ones. New rows make all other
 * bins rarer and landmarks farther; the old landmarks, which are earlier rows, show by how much, and the old curves are
 * moved by that. Odd rows among the given ones are left out (held-out.ts). The standardization does not change.
 */
import {
  ArgumentError,
  createMatrix,
  createRng,
  DataError,
  type Matrix,
  plural,
  type Rng,
} from '@oddflow/core'
import {
  DETECTORS,
  type EnsembleModel,
  type EnsembleParameters,
  type EnsembleUpdates,
  joinHeldOut,
  novelRows,
  type Provenance,
  rememberedRows,
  type SavedModel,
  thresholdOfHeldOut,
} from '@oddflow/detectors'
import {
  countCategories,
  createViews,
  dealFolds,
  type EnsembleMember,
  fillWithMedian,
  findOddRows,
  fitSurpriseCurve,
  foldRows,
  joinGroups,
  joinMember,
  type MemberModel,
  type MemberTraining,
  quantileOf,
  rowNumbers,
  type SurpriseCurve,
  sampleSurpriseCurve,
  sampleTailTable,
  scaleInto,
  standardise,
  surpriseOf,
  viewRows,
  viewWeights,
} from '@oddflow/detectors/parts'

/** Rows that update an ensemble, n × D, and where they came from. */
export interface GivenRows {
  readonly rows: Matrix
  /** The input of each row. */
  readonly inputs: Uint32Array
  /** Equal for rows of one device in one input. */
  readonly devices?: Uint32Array
  /** SHA-256 of the rows, as `dataSha256` of a model. */
  readonly dataSha256: string
}

/** An updated ensemble, and what the update did. */
export interface EnsembleUpdate {
  readonly saved: SavedModel
  /** Rows not learned, because they are unlike all others. */
  readonly oddRows: number
  /** Novel given rows before and after, including odd ones. */
  readonly novelBefore: number
  readonly novelAfter: number
  /** The old landmarks, and those of them that change from normal to novel. */
  readonly remembered: number
  readonly forgotten: number
}

/** Maximum share of given rows among all rows that an update counts. */
const MOST_GIVEN_SHARE = 0.5
/** Fewer rows cannot be held out from each other. */
const LEAST_GIVEN_ROWS = 10
/** The quantile of the old landmarks' differences by which a curve moves. */
const MOVED_SHARE = 0.9
/** In standard deviations: a row beyond this is an error in the data. */
const LARGEST_VALUE = 1e9
/** Values that stand for a distribution. */
const SAMPLE_SIZE = 4000

/**
 * Throws ArgumentError if the model cannot be updated, DataError for too few rows. Deterministic: equal rows in equal
 * order give equal bytes.
 */
export function updateEnsemble(
  saved: SavedModel,
  { rows, inputs, devices, dataSha256 }: GivenRows,
): EnsembleUpdate {
  const { detector: model, threshold, groups } = saved
  if (model.kind !== 'ensemble')
    throw new ArgumentError(`model: expected an ensemble, found ${model.kind}`, 'model')
  if (threshold.calibration.method !== 'held-out-inputs' || groups === undefined) {
    throw new ArgumentError('model: expected a threshold of held-out inputs and their distribution', 'model')
  }
  const { ensemble, parameters, fitReport } = model
  const training = trainingOf(model, rows)
  const before = threshold.calibration.rows
  const rng = createRng(saved.provenance.seed).fork(`update after ${saved.provenance.rows} rows`)
  const work: UpdateWork = { members: ensemble.members, training, inputs, before, rng }
  const all = holdOutGiven(work, new Uint8Array(rows.rows), parameters)
  const odd = findOddRows(all.sums)
  const kept = rowNumbers(rows.rows, (i) => odd[i] === 0)
  const oddRows = rows.rows - kept.length
  const { members, sums, countBefore } = oddRows === 0 ? all : holdOutGiven(work, odd, parameters)

  // scores of earlier rows, as the model stores them, and of the given ones
  const givenScores = Float64Array.from(kept, (i) => 0 - sums[i]!)
  const sample = Float64Array.from([
    ...sampleTailTable(groups.tail, countBefore),
    ...quantilesOf(givenScores, SAMPLE_SIZE - countBefore),
  ])
  const rate = threshold.falsePositiveRate
  const { value } = thresholdOfHeldOut(
    { scores: sample, inputs: new Uint32Array(sample.length), odd: new Uint8Array(sample.length) },
    rate,
  )
  const isKept = (_: number, row: number): boolean => odd[row] === 0
  const given = { scores: givenScores, inputs: inputs.filter(isKept), oddRows }
  const novelBefore = countNovel(saved, rows)
  const updated: SavedModel = {
    ...saved,
    detector: {
      ...model,
      ensemble: { ...ensemble, members },
      fitReport: { ...fitReport, trainingRows: fitReport.trainingRows + rows.rows },
    },
    threshold: joinHeldOut(value, rate, threshold.calibration, given),
    groups: joinGroups(groups, sample, {
      scores: givenScores,
      capture: given.inputs,
      ...(devices === undefined ? {} : { device: devices.filter(isKept) }),
    }),
    provenance: withUpdate(saved.provenance, { rows: rows.rows, oddRows, novelBefore, dataSha256 }),
  }
  return {
    saved: updated,
    oddRows,
    ...countForgotten(saved, updated),
    novelBefore,
    novelAfter: countNovel(updated, rows),
  }
}

function withUpdate(before: Provenance, last: EnsembleUpdates['last']): Provenance {
  const { count, rows } = before.updates ?? { count: 0, rows: 0 }
  const updates = { count: count + 1, rows: rows + last.rows, last }
  return { ...before, rows: before.rows + last.rows, updates }
}

/** The given rows as members take them. Throws DataError for too few rows, and for numbers too large. */
function trainingOf({ ensemble, scaler, fitReport }: EnsembleModel, rows: Matrix): MemberTraining {
  if (rows.rows < LEAST_GIVEN_ROWS) {
    throw new DataError(
      `${plural(rows.rows, 'row')} to learn from: at least ${LEAST_GIVEN_ROWS} are needed; give more captures`,
      'rows',
    )
  }
  const standardised = createMatrix(rows.rows, ensemble.centre.length)
  scaleInto(scaler, rows.data, 0, rows.rows, fitReport.dimension, standardised.data)
  standardise(ensemble, standardised.data, standardised.data.length, standardised.data)
  const large = standardised.data.findIndex((x) => !(Math.abs(x) <= LARGEST_VALUE))
  if (large >= 0) {
    throw new DataError(
      `row ${Math.floor(large / standardised.cols)}: its numbers are too large to be those of a device`,
      'rows',
    )
  }
  return {
    rows: standardised,
    categories: scaler.categoryColumn === undefined ? null : countCategories(rows, scaler.categoryColumn),
  }
}

interface UpdateWork {
  readonly members: readonly EnsembleMember[]
  readonly training: MemberTraining
  readonly inputs: Uint32Array
  /** Rows that the model counts so far. */
  readonly before: number
  readonly rng: Rng
}

/** Of a given row; rows before count one each. */
function weightOf(before: number, given: number): number {
  return Math.min(1, ((MOST_GIVEN_SHARE / (1 - MOST_GIVEN_SHARE)) * before) / given)
}

interface GivenRound {
  /** Joined by all given rows but odd ones. */
  readonly members: readonly EnsembleMember[]
  /** Surprises of the given rows, odd ones too, each input's by members fitted without it. */
  readonly sums: Float64Array
  /** How many of SAMPLE_SIZE values stand for earlier rows. */
  readonly countBefore: number
}

function holdOutGiven(
  { members, training, inputs, before, rng }: UpdateWork,
  odd: Uint8Array,
  parameters: EnsembleParameters,
): GivenRound {
  const n = training.rows.rows
  const folds = dealFolds(inputs)
  const kept = rowNumbers(n, (i) => odd[i] === 0)
  const weight = weightOf(before, kept.length)
  const countBefore = Math.round((SAMPLE_SIZE * before) / (before + weight * kept.length))
  const sums = new Float64Array(n)
  const hasServices = training.categories !== null
  const updated = members.map((member): EnsembleMember => {
    const weights = viewWeights(member.name, hasServices)
    const values = weights.map(() => new Float64Array(n).fill(Number.NaN))
    for (let fold = 0; fold < folds.count; fold++) {
      const rows = foldRows(folds, fold, odd)
      if (rows === null) continue
      const fork = rng.fork(`${member.name} without fold ${fold}`)
      const joined = joinMember(member, training, rows.fit, weight, parameters, fork)
      createViews(DETECTORS, joined, hasServices, true).forEach((view, k) => {
        viewRows(view, training, rows.held, values[k]!)
      })
    }
    const joined = joinMember(member, training, kept, weight, parameters, rng.fork(member.name))
    const moved = movedViews(member, joined, members, hasServices)
    const surprises = values.map((ofView, k): SurpriseCurve => {
      fillWithMedian(ofView)
      const curve = fitSurpriseCurve(
        Float64Array.from([
          ...sampleSurpriseCurve(member.surprises[k]!, countBefore).map((value) => value + moved[k]!),
          ...quantilesOf(
            Float64Array.from(kept, (i) => ofView[i]!),
            SAMPLE_SIZE - countBefore,
          ),
        ]),
      )
      for (let i = 0; i < n; i++) sums[i]! += surpriseOf(curve, ofView[i]!, weights[k]!)
      return curve
    })
    return { ...joined, surprises }
  })
  return { members: updated, sums, countBefore }
}

/** How much the views of old rows grow, measured on the old landmarks; 0 without landmarks. */
function movedViews(
  before: EnsembleMember,
  after: MemberModel,
  members: readonly EnsembleMember[],
  hasServices: boolean,
): number[] {
  const old = oldLandmarks(members)
  const viewsAfter = createViews(DETECTORS, after, hasServices, true)
  return createViews(DETECTORS, before, hasServices, true).map((view, k) => {
    if (old === null) return 0
    const [from, to] = [new Float64Array(old.rows.rows), new Float64Array(old.rows.rows)]
    view(old.rows, old.categories, from)
    viewsAfter[k]!(old.rows, old.categories, to)
    const differences = to.map((value, i) => value - from[i]!).sort()
    return Math.max(0, quantileOf(differences, MOVED_SHARE))
  })
}

/** Standardized earlier rows with their services. */
function oldLandmarks(
  members: readonly EnsembleMember[],
): { readonly rows: Matrix; readonly categories: Float64Array } | null {
  for (const member of members) {
    if (member.name !== 'nearest') continue
    const { landmarks: rows, categories } = member
    return { rows, categories: categories.length === 0 ? new Float64Array(rows.rows) : categories }
  }
  return null
}

function countForgotten(
  before: SavedModel,
  after: SavedModel,
): Pick<EnsembleUpdate, 'remembered' | 'forgotten'> {
  const rows = rememberedRows(before.detector)
  if (rows === null) return { remembered: 0, forgotten: 0 }
  const [wasNovel, isNow] = [novelRows(before, rows), novelRows(after, rows)]
  return {
    remembered: rows.rows,
    forgotten: isNow.filter((novel, i) => novel && !wasNovel[i]).length,
  }
}

/** `count` order statistics, evenly spread. */
function quantilesOf(values: Float64Array, count: number): Float64Array {
  const sorted = values.slice().sort()
  return Float64Array.from(
    { length: count },
    (_, i) => sorted[Math.floor(((i + 0.5) * sorted.length) / count)]!,
  )
}

const countNovel = (saved: SavedModel, rows: Matrix): number =>
  novelRows(saved, rows).filter((novel) => novel).length
