/**
 * Learner: a model that learns on from what arrives, and can be asked for itself at any time.
 *
 * Rows come in batches of any size; a round ends after so many (learning-round.ts), and only then is a state reached that
 * is kept: a round that the guard refuses, or whose sums overflow, is undone, with all that its batches taught. Everything is decided by the
 * rows, their order and batches, and the seed, so the same calls on the same model give the same bytes, on
 * every machine, and a journal of the calls replays them (journal.ts).
 *
 * A learner is a mutable thing for one caller. What it gives out is plain and does not change afterwards.
 */

import {
  ArgumentError,
  asMatrix,
  checkFinite,
  createRng,
  type Matrix,
  type MatrixLike,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import type { Threshold } from '../calibration/threshold.js'
import type { SavedModel } from '../model-file/saved-model.js'
import { scaleRows } from '../scaler.js'
import { beginLearning, reservoirCapacity } from './begin-learning.js'
import { type ArrivalReport, RowBuffer, type RowEntries, takeArrivals } from './learn-arrivals.js'
import {
  type LearnedState,
  type LearningCounters,
  type LearningModel,
  learningModel,
  mixtureOfModel,
  spaceOfModel,
} from './learned-state.js'
import {
  type CheckedLearningOptions,
  checkLearnable,
  checkLearnableModel,
  checkLearningOptions,
  type LearningOptions,
} from './learning-options.js'
import { convergeRound, endRound, type RoundReport } from './learning-round.js'
import { freshCapacity, LearningWork } from './learning-work.js'
import { addPoints, copyStatistics, createMixtureEvaluator } from './mixture-statistics.js'

/**
 * LearningBudget: how much one device may teach in an hour.
 *
 * A watcher that learns by itself gives whoever talks most the most say. With a budget, a device's rows beyond so many in
 * an hour of its traffic are judged but not learned. Hours are those of the rows' own times, so a replay decides alike.
 * Rows from files have no such limit: somebody chose the files.
 *
 * At most `maximumDevices` are remembered; when there are more, the one that has been silent longest is forgotten.
 */

export interface LearningBudget {
  /** Whether one more row of this device, of this time, may be learned; if so it is counted. */
  take(device: string, timeMicros: number): boolean
  /** Rows that were refused so far. */
  readonly refused: number
}

const HOUR_MICROS = 3_600_000_000

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
 * A learned state under other options: what has to leave buffers that are smaller than they were.
 *
 * Rows of a reservoir that becomes smaller are still counted in the mixture. So they go to the base, with the weight they
 * had, as rows do that give way to others; a random sample of them stays, since the reservoir is one of all rows.
 * Of all other buffers the newest rows stay.
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
  addPoints(createMixtureEvaluator(mixtureOfModel(model)), base, { count: leaving.rows, points, weights }, 0)
  const kept = { rows: takeRows(rows, stays), numbers: Float64Array.from(stays, (i) => numbers[i]!) }
  return { ...state, base, reservoir: kept }
}

export interface BeginLearnerOptions {
  /** How to learn; a model that has learned before goes on as it did, but for what is given here. */
  readonly learning?: LearningOptions
  /** Of all chance, for a model that has not learned before; default 1. */
  readonly seed?: number
  /** n × D, the rows that the model was fitted to, for a model that has not learned before. */
  readonly trainingRows?: Matrix | MatrixLike
  /** Rows (n × D) that must stay novel, for a model that has not learned before. */
  readonly knownNovel?: Matrix | MatrixLike
}

export interface ArriveOptions {
  /** Every row is taken as normal, also where the model finds it new; default false. */
  readonly assumeNormal?: boolean
  /** A number for when the rows came (a day, a file); default the last one. */
  readonly period?: number
}

export interface StepReport extends ArrivalReport {
  /** Of the rounds that ended; the last one's model is in force. */
  readonly rounds: readonly RoundReport[]
}

export interface Learner {
  /**
   * Takes n × D rows, unscaled. The report's scores are those before anything was learned of them. Rows too large to learn
   * from (learning-options.ts) are disregarded.
   */
  arrive(rows: Matrix | MatrixLike, options?: ArriveOptions): StepReport
  /** Ends the round that is under way; null when nothing has come since the last. */
  endRound(): RoundReport | null
  /** The model as of now, in the middle of a round too. */
  readonly detector: LearningModel
  readonly threshold: Threshold
  readonly counters: LearningCounters
  /** The model with all that it takes to go on, as of the end of the last round. */
  saved(): SavedModel
}

/**
 * Throws ArgumentError for a detector that cannot learn on or whose numbers are too large for it, for options that are not
 * as they should be, and for training or known-novel rows too large to learn from.
 */
export function createLearner(saved: SavedModel, given: BeginLearnerOptions = {}): Learner {
  const model = learningModel(saved.detector)
  const before = saved.learned ?? null
  if (before !== null) {
    for (const key of ['seed', 'trainingRows', 'knownNovel'] as const) {
      if (given[key] !== undefined) {
        throw new ArgumentError(`${key}: the model was updated before and keeps its own`, key)
      }
    }
  }
  const scaled = (rows: Matrix | MatrixLike, name: string): Matrix => {
    const matrix = asMatrix(rows)
    const { dimension } = model.fitReport
    if (matrix.cols !== dimension && matrix.rows > 0) {
      throw new ArgumentError(
        `${name}: expected ${dimension} columns as in training, found ${matrix.cols}`,
        name,
      )
    }
    checkFinite(matrix, name)
    // −0 is 0 in a journal's line, and a reservoir would keep it
    return scaleRows(model.scaler, { ...matrix, data: matrix.data.map((value) => value + 0) })
  }
  checkLearnableModel(model)
  const learnable = (rows: Matrix | MatrixLike | undefined, name: string): Matrix | null => {
    if (rows === undefined) return null
    const matrix = scaled(rows, name)
    checkLearnable(matrix, name)
    return matrix
  }
  const options = checkLearningOptions({ ...before?.options, ...given.learning })
  const first: LearnedState =
    before === null
      ? beginLearning(saved, {
          options,
          seed: given.seed ?? 1,
          trainingRows: learnable(given.trainingRows, 'trainingRows'),
          knownNovel: learnable(given.knownNovel, 'knownNovel'),
        })
      : reopenLearning(before, model, options)
  if (options.guard !== null && first.knownNormal.rows + first.knownNovel.rows === 0) {
    throw new ArgumentError(
      'learning.guard: no rows are known that a round could be judged by; give knownNovel, or guard: null',
      'learning.guard',
    )
  }
  let committed: SavedModel = { ...saved, learned: first }
  let work = new LearningWork(model, saved.threshold, first)

  const finishRound = (): RoundReport => {
    const rng = createRng(work.seed).fork(`round ${work.counters.rounds + 1} batch ${work.counters.batches}`)
    const report = endRound(work, rng)
    if (!report.refused) {
      const learned = work.close()
      committed = { ...committed, detector: work.model, threshold: work.threshold, learned }
      return report
    }
    // the counters go on, everything else is as it was
    const learned = committed.learned!
    const counters: LearningCounters = {
      ...work.counters,
      refused: work.counters.refused + work.counters.learnt - learned.counters.learnt,
      learnt: learned.counters.learnt,
      componentsAdded: learned.counters.componentsAdded,
      componentsRemoved: learned.counters.componentsRemoved,
      componentsMerged: learned.counters.componentsMerged,
      sketchUpdates: learned.counters.sketchUpdates,
      refusedRounds: work.counters.refusedRounds + 1,
    }
    committed = { ...committed, learned: { ...learned, counters } }
    work = new LearningWork(committed.detector as LearningModel, committed.threshold, committed.learned!)
    return report
  }

  return {
    arrive(rows, { assumeNormal = false, period } = {}) {
      const matrix = scaled(rows, 'rows')
      const when = period ?? work.counters.lastPeriod
      if (!Number.isSafeInteger(when) || when < 0) {
        throw new ArgumentError(`period: expected a whole number of 0 or more, found ${when}`, 'period')
      }
      const rng = createRng(work.seed).fork(`batch ${work.counters.batches}`)
      work.counters.batches++
      const total = emptyReport(matrix.rows)
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
    saved() {
      return committed
    },
  }
}

const COUNTED = ['novelToFrozen', 'learnt', 'heldBack', 'held', 'disregarded', 'confirmed'] as const

function emptyReport(rows: number) {
  return {
    scores: new Float64Array(rows),
    novel: new Uint8Array(rows),
    novelToFrozen: 0,
    learnt: 0,
    heldBack: 0,
    held: 0,
    disregarded: 0,
    confirmed: 0,
  }
}
