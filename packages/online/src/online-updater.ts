/**
 * OnlineUpdater: updates a model with arriving rows, in batches of any size; the model can be read at any time. A round
 * ends after a fixed number of rows (learning-round.ts). One that the guard refuses, or whose sums overflow, is undone
 * with its batches. The same calls on the same model give the same bytes on every machine. An updater is mutable and
 * serves one caller.
 */
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  createMatrix,
  createRng,
  type Matrix,
  type MatrixLike,
  matrixOf,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import type { SavedModel, Threshold } from '@oddflow/detectors'
import { drawSketch, scaleRows } from '@oddflow/detectors/parts'
import { farPoints, MAXIMUM_REFERENCE_ROWS, passingScore, rowsThatAre } from './guard-update.js'
import {
  type ArrivalCounts,
  type ArrivalReport,
  NONE_COUNTED,
  RowBuffer,
  type RowEntries,
  takeArrivals,
} from './learn-arrivals.js'
import { encodeLearned, learnedStateOf } from './learned-part.js'
import {
  type CheckedLearningOptions,
  checkLearnable,
  checkLearnableModel,
  checkLearningOptions,
  type FrozenModel,
  freshCapacity,
  type LearnedState,
  type LearningCounters,
  type LearningModel,
  type LearningOptions,
  learningModel,
  mixtureOfModel,
  NO_COUNTERS,
  regularisationOf,
  reservoirCapacity,
  scoreScaledRows,
  spaceOfModel,
} from './learned-state.js'
import { convergeRound, endRound, type RoundReport } from './learning-round.js'
import { LearningWork } from './learning-work.js'
import {
  addPoints,
  copyStatistics,
  createMixtureEvaluator,
  emptyStatistics,
  statisticsOfMixture,
} from './mixture-statistics.js'
import { createSketch, isRandomMatrixOf } from './round-sketch.js'

/**
 * LearningBudget: how many rows one device may teach in an hour; further rows are judged but not learned. Hours follow
 * the rows' own times, so a replay decides the same. At most `maximumDevices` are remembered; the one silent for
 * longest is forgotten first.
 */

export interface LearningBudget {
  /** Whether one more row of this device at this time may be learned; counts it if so. */
  take(device: string, timeMicros: number): boolean
  /** Rows that were refused so far. */
  readonly refused: number
}

const HOUR_MICROS = 3_600_000_000

/** A bound on the rows that each device may teach in an hour. Throws ArgumentError for options out of range. */
export function createLearningBudget(rowsPerHour: number, maximumDevices = 10_000): LearningBudget {
  for (const [name, value] of Object.entries({ rowsPerHour, maximumDevices })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new ArgumentError(`${name}: expected a whole number of 1 or more, found ${value}`, name)
    }
  }
  const devices = new Map<string, { hour: number; rows: number }>()
  let refused = 0
  return {
    take(device, timeMicros) {
      const hour = Math.floor(timeMicros / HOUR_MICROS)
      const known = devices.get(device)
      // a time that goes back opens no new hour
      const entry = known === undefined ? { hour, rows: 0 } : known
      if (hour > entry.hour) {
        entry.hour = hour
        entry.rows = 0
      }
      devices.delete(device)
      devices.set(device, entry)
      if (devices.size > maximumDevices) devices.delete(devices.keys().next().value as string)
      if (entry.rows >= rowsPerHour) {
        refused++
        return false
      }
      entry.rows++
      return true
    },
    get refused() {
      return refused
    },
  }
}

/**
 * Adapts a learned state to other options by shrinking buffers that became smaller.
 *
 * Rows of the reservoir are part of the mixture. So a row that leaves it moves to the base with its weight, as a replaced
 * row does. A random sample stays, because the reservoir is a random sample. Other buffers keep their newest rows.
 */

function reopenLearning(
  before: LearnedState,
  model: LearningModel,
  options: CheckedLearningOptions,
): LearnedState {
  const newest = (entries: RowEntries, capacity: number): RowEntries =>
    new RowBuffer(entries.rows.cols, capacity, entries).entries()
  const newestRows = (rows: Matrix, capacity: number): Matrix =>
    newest({ rows, numbers: new Float64Array(rows.rows) }, capacity).rows
  const capacity = reservoirCapacity(options.reservoirRows)
  const state: LearnedState = {
    ...before,
    options,
    calibration: newestRows(before.calibration, options.calibrationRows),
    doubtful: newestRows(before.doubtful, options.calibrationRows),
    fresh: newestRows(before.fresh, freshCapacity(options)),
    held: newest(before.held, options.heldRows),
  }
  const { rows, numbers } = before.reservoir
  if (rows.rows <= capacity) return state
  const rng = createRng(before.seed).fork(`smaller reservoir ${before.counters.batches}`)
  const stays = sampleWithoutReplacement(rows.rows, capacity, rng).sort()
  const staying = new Set(stays)
  const leaves = Array.from(numbers.keys()).filter((i) => !staying.has(i))
  const base = copyStatistics(before.base)
  const space = spaceOfModel(model)
  const leaving = takeRows(rows, leaves)
  const points = new Float64Array(leaving.rows * space.d)
  space.locate(leaving.data, 0, leaving.rows, points, 0)
  const weights = Float64Array.from(leaves, (i) => numbers[i]!)
  addPoints(createMixtureEvaluator(mixtureOfModel(model)), base, { count: leaving.rows, points, weights })
  const kept = { rows: takeRows(rows, stays), numbers: Float64Array.from(stays, (i) => numbers[i]!) }
  return { ...state, base, reservoir: kept }
}

const COUNTED = Object.keys(NONE_COUNTED) as (keyof ArrivalCounts)[]

/** Options of `createOnlineUpdater`. */
export interface OnlineUpdaterOptions {
  /** How to learn. A model that was updated before keeps its options except those given here. */
  readonly learning?: LearningOptions
  /** Seed, for a model that was not updated before; default 1. */
  readonly seed?: number
  /** The training rows (n × D), for a model that was not updated before. */
  readonly trainingRows?: Matrix | MatrixLike
  /** Rows (n × D) that must stay novel, for a model that was not updated before. */
  readonly knownNovel?: Matrix | MatrixLike
}

/** Options of rows that arrive at an updater. */
export interface ArriveOptions {
  /** Learns every row as normal, even if the model finds it novel; default false. */
  readonly assumeNormal?: boolean
  /** A number for the time of the rows (a day, a file); default the previous one. */
  readonly period?: number
}

/** What became of the rows of one call, and of the rounds that ended. */
export interface StepReport extends ArrivalReport {
  /** Reports of the rounds that ended; the last one's model is in force. */
  readonly rounds: readonly RoundReport[]
}

/** Updates a model with rows as they arrive. */
export interface OnlineUpdater {
  /**
   * Takes n × D rows, unscaled. The scores in the report are those before learning. Rows that are too large to learn
   * (learned-state.ts) are discarded.
   */
  arrive(rows: Matrix | MatrixLike, options?: ArriveOptions): StepReport
  /** Ends the current round; null if no row came since the last one. */
  endRound(): RoundReport | null
  /** The present model, also within a round. */
  readonly detector: LearningModel
  readonly threshold: Threshold
  readonly counters: LearningCounters
  /** The learned state as of the end of the last round. */
  readonly state: LearnedState
  /** The model with its learned state, as of the end of the last round. */
  saved(): SavedModel
}

/**
 * Throws ArgumentError for a detector that cannot be updated or whose numbers are too large, for invalid options, and
 * for training or known-novel rows that are too large to learn.
 */
export function createOnlineUpdater(saved: SavedModel, given: OnlineUpdaterOptions = {}): OnlineUpdater {
  const model = learningModel(saved.detector)
  checkLearnableModel(model)
  const first = firstState(saved, model, given)
  const { options } = first
  let state = first
  let committed: SavedModel = { ...saved, learned: encodeLearned(first) }
  let work = new LearningWork(model, saved.threshold, first)

  const finishRound = (): RoundReport => {
    const rng = createRng(work.seed).fork(`round ${work.counters.rounds + 1} batch ${work.counters.batches}`)
    const report = endRound(work, rng)
    if (!report.refused) {
      state = work.close()
      committed = {
        ...committed,
        detector: work.model,
        threshold: work.threshold,
        learned: encodeLearned(state),
      }
      return report
    }
    // the counters continue; everything else is restored
    const { learnt, componentsAdded, componentsRemoved, componentsMerged, sketchUpdates } = state.counters
    const counters: LearningCounters = {
      ...work.counters,
      ...{ learnt, componentsAdded, componentsRemoved, componentsMerged, sketchUpdates },
      refused: work.counters.refused + work.counters.learnt - learnt,
      refusedRounds: work.counters.refusedRounds + 1,
    }
    state = { ...state, counters }
    committed = { ...committed, learned: encodeLearned(state) }
    work = new LearningWork(committed.detector as LearningModel, committed.threshold, state)
    return report
  }

  return {
    arrive(rows, { assumeNormal = false, period } = {}) {
      const matrix = scaledRows(model, rows, 'rows')
      const when = period ?? work.counters.lastPeriod
      if (!Number.isSafeInteger(when) || when < 0) {
        throw new ArgumentError(`period: expected a whole number of 0 or more, found ${when}`, 'period')
      }
      const rng = createRng(work.seed).fork(`batch ${work.counters.batches}`)
      work.counters.batches++
      const total = {
        scores: new Float64Array(matrix.rows),
        novel: new Uint8Array(matrix.rows),
        ...NONE_COUNTED,
      }
      const rounds: RoundReport[] = []
      const { cols } = matrix
      // no more at a time than a round has
      for (let i = 0; i < matrix.rows; ) {
        const count = Math.min(matrix.rows - i, options.roundRows - work.roundArrivals)
        const data = matrix.data.slice(i * cols, (i + count) * cols)
        const part = takeArrivals(work, data, count, { assumeNormal, period: when }, rng)
        total.scores.set(part.scores, i)
        total.novel.set(part.novel, i)
        for (const key of COUNTED) total[key] += part[key]
        i += count
        if (work.roundArrivals >= options.roundRows) rounds.push(finishRound())
        else if (options.method === 2) work.attempt(() => convergeRound(work))
      }
      return { ...total, rounds }
    },
    endRound() {
      return work.roundArrivals === 0 ? null : finishRound()
    },
    get detector() {
      return work.model
    },
    get threshold() {
      return work.threshold
    },
    get counters() {
      return { ...work.counters }
    },
    get state() {
      return state
    },
    saved() {
      return committed
    },
  }
}

/** The state with which learning starts or continues. */
function firstState(saved: SavedModel, model: LearningModel, given: OnlineUpdaterOptions): LearnedState {
  const { seed = 1, trainingRows, knownNovel } = given
  const before = learnedStateOf(saved)
  if (before !== undefined) {
    for (const key of ['seed', 'trainingRows', 'knownNovel'] as const) {
      if (given[key] !== undefined) {
        throw new ArgumentError(`${key}: the model was updated before and keeps its own`, key)
      }
    }
  }
  const options = checkLearningOptions({ ...before?.options, ...given.learning })
  const learnable = (rows: Matrix | MatrixLike | undefined, name: string): Matrix | null => {
    if (rows === undefined) return null
    const matrix = scaledRows(model, rows, name)
    checkLearnable(matrix, name)
    return matrix
  }
  const first =
    before === undefined
      ? beginLearning(saved, {
          options,
          seed,
          trainingRows: learnable(trainingRows, 'trainingRows'),
          knownNovel: learnable(knownNovel, 'knownNovel'),
        })
      : reopenLearning(before, model, options)
  if (options.guard !== null && first.knownNormal.rows + first.knownNovel.rows === 0) {
    throw new ArgumentError(
      'learning.guard: no rows are known that a round could be judged by; give knownNovel, or guard: null',
      'learning.guard',
    )
  }
  return first
}

function scaledRows(
  { scaler, fitReport: { dimension } }: LearningModel,
  rows: Matrix | MatrixLike,
  name: string,
): Matrix {
  const matrix = asMatrix(rows)
  if (matrix.cols !== dimension && matrix.rows > 0) {
    throw new ArgumentError(
      `${name}: expected ${dimension} columns as in training, found ${matrix.cols}`,
      name,
    )
  }
  checkFinite(matrix, name)
  // −0 becomes 0 in a journal, but the reservoir would keep it
  return scaleRows(scaler, { ...matrix, data: matrix.data.map((value) => value + 0) })
}

/**
 * The first learned state: made from a model alone, or from a model and its training rows.
 *
 * A trained model contains only its landmarks, a random sample of the training rows. Without the other training rows,
 * the mixture itself stands for them as statistics, and the landmarks are the first rows of the reservoir. With
 * training rows, the reservoir is a random sample of them, and the base holds the statistics of the others.
 */

/** Far points are chosen among three times this number of candidates. */
const FAR_POINT_CANDIDATES = 200

interface BeginOptions {
  readonly options: CheckedLearningOptions
  readonly seed: number
  /** n × D, scaled; null if they are no longer available. */
  readonly trainingRows: Matrix | null
  /** Scaled rows that must stay novel, in addition to generated ones. */
  readonly knownNovel: Matrix | null
}

function beginLearning(
  { detector, threshold, provenance }: SavedModel,
  { options, seed, trainingRows, knownNovel }: BeginOptions,
): LearnedState {
  const model = learningModel(detector)
  const rng = createRng(seed)
  const frozen: FrozenModel = { detector: model, threshold }
  const landmarks = 'embedding' in model ? model.embedding.landmarks : null
  const { width } = spaceOfModel(model)
  const empty = matrixOf(0, width, new Float64Array(0))
  const start = firstRows(model, landmarks, trainingRows, options, rng.fork('reservoir'))
  const normal = trainingRows ?? landmarks ?? sampleMixture(model, rng.fork('stand-ins'))
  const made = normal.rows >= 2 ? farPoints(normal, FAR_POINT_CANDIDATES, rng.fork('far points')) : empty
  const someNormal = takeRows(
    normal,
    sampleWithoutReplacement(
      normal.rows,
      Math.min(normal.rows, MAXIMUM_REFERENCE_ROWS),
      rng.fork('known normal'),
    ).sort(),
  )
  const normalScores = scoreScaledRows(model, someNormal)
  const highest = Math.min(threshold.value, passingScore(normalScores))
  // given rows come first, and made ones fill up
  const novel = [...(knownNovel === null ? [] : [knownNovel]), made].map((rows) =>
    rowsThatAre(false, rows, scoreScaledRows(model, rows), highest),
  )
  return {
    version: 1,
    options,
    seed,
    counters: NO_COUNTERS,
    ...start,
    densityShift: 0,
    random: firstRandomMatrix(model, provenance.seed, rng.fork('sketch')),
    origins: Int32Array.from({ length: landmarks?.rows ?? 0 }, (_, j) => j),
    calibration: empty,
    doubtful: empty,
    fresh: empty,
    held: { rows: empty, numbers: new Float64Array(0) },
    knownNormal: rowsThatAre(true, someNormal, normalScores, threshold.value),
    knownNovel: firstRowsOf(novel, width),
    frozen,
  }
}

function firstRowsOf(parts: readonly Matrix[], width: number): Matrix {
  const rows = Math.min(
    MAXIMUM_REFERENCE_ROWS,
    parts.reduce((sum, part) => sum + part.rows, 0),
  )
  const out = createMatrix(rows, width)
  let at = 0
  for (const part of parts) {
    const some = part.data.subarray(0, Math.min(part.data.length, out.data.length - at))
    out.data.set(some, at)
    at += some.length
  }
  return out
}

function firstRows(
  model: LearningModel,
  landmarks: Matrix | null,
  trainingRows: Matrix | null,
  { reservoirRows }: CheckedLearningOptions,
  rng: Rng,
): Pick<LearnedState, 'statistics' | 'base' | 'unseenRows' | 'reservoir' | 'reservoirSeen'> {
  const mixture = mixtureOfModel(model)
  const space = spaceOfModel(model)
  const { covarianceType } = mixture
  const k = mixture.weights.length
  if (trainingRows === null && reservoirRows === 'all') {
    throw new ArgumentError(
      'learning.reservoirRows: all rows can only be kept where the training rows are given',
      'learning.reservoirRows',
    )
  }
  const capacity = reservoirCapacity(reservoirRows)
  const known = trainingRows ?? landmarks ?? matrixOf(0, space.width, new Float64Array(0))
  const order = sampleWithoutReplacement(known.rows, known.rows, rng)
  const inside = Math.min(known.rows, capacity)
  const kept = takeRows(known, order.slice(0, inside).sort())
  const evaluator = createMixtureEvaluator(mixture)
  const addRows = (to: ReturnType<typeof emptyStatistics>, rows: Matrix): void => {
    const points = new Float64Array(rows.rows * space.d)
    space.locate(rows.data, 0, rows.rows, points, 0)
    addPoints(evaluator, to, { count: rows.rows, points, weights: new Float64Array(rows.rows).fill(1) })
  }
  let base: ReturnType<typeof emptyStatistics>
  let unseenRows = 0
  if (trainingRows === null) {
    unseenRows = Math.max(1, model.fitReport.trainingRows - inside)
    base = statisticsOfMixture(mixture, unseenRows, regularisationOf(model))
  } else {
    base = emptyStatistics(covarianceType, k, space.d)
    addRows(base, takeRows(known, order.slice(inside).sort()))
  }
  const statistics = copyStatistics(base)
  addRows(statistics, kept)
  return {
    statistics,
    base,
    unseenRows,
    reservoir: { rows: kept, numbers: new Float64Array(kept.rows).fill(1) },
    reservoirSeen: known.rows,
  }
}

/** Z of the fit if `oddflow train` made the model, otherwise a newly drawn one. */
function firstRandomMatrix(model: LearningModel, seed: number, rng: Rng): Matrix | null {
  if (!('embedding' in model)) return null
  const { embedding, parameters } = model
  const { projection, landmarks } = embedding
  const trained = [createRng(seed).fork('fit'), createRng(seed)].map((fit) =>
    drawSketch(projection.rows, landmarks.rows, fit.fork('sketch')),
  )
  const random = trained.find((z) => isRandomMatrixOf(embedding, parameters.embedding, z)) ?? null
  return createSketch(embedding, parameters.embedding, random, rng).random
}

/** Rows drawn from a mixture over rows, in place of unavailable training rows. */
function sampleMixture(model: LearningModel, rng: Rng): Matrix {
  const { weights, means, covarianceType, precisionCholesky } = mixtureOfModel(model)
  const d = means.cols
  const out = createMatrix(MAXIMUM_REFERENCE_ROWS, d)
  for (let i = 0; i < out.rows; i++) {
    let j = 0
    for (let rest = rng.nextFloat(); j < weights.length - 1 && rest >= weights[j]!; j++) rest -= weights[j]!
    for (let a = 0; a < d; a++) {
      const z = rng.nextNormal()
      if (covarianceType === 'diagonal') {
        out.data[i * d + a] = means.data[j * d + a]! + z / precisionCholesky[j * d + a]!
        continue
      }
      // W(x − µ) = z, from the first coordinate on
      let sum = z
      const row = (j * d + a) * d
      for (let t = 0; t < a; t++) {
        sum -= precisionCholesky[row + t]! * (out.data[i * d + t]! - means.data[j * d + t]!)
      }
      out.data[i * d + a] = means.data[j * d + a]! + sum / precisionCholesky[row + a]!
    }
  }
  return out
}
