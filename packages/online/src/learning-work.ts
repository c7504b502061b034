/**
 * LearningWork: a model during learning, with all parts mutable.
 *
 * It is opened from a model and its learned state, and closed into them again. In between it caches what is expensive
 * to rebuild (points of the reservoir, scorers). It holds nothing else, so closing and opening changes nothing: a
 * refused round is undone by opening the last closed state.
 */
import { concatRows, type Matrix, matrixOf } from '@oddflow/core'
import type { Threshold } from '@oddflow/detectors'
import { type SupportGuard, scaledWidth } from '@oddflow/detectors/parts'
import { gaussianKernel } from '@oddflow/linalg'
import { createRowScorer, type PointSpace, type RowScorer, type ScoredRows } from './carry-mixture.js'
import { RowBuffer } from './learn-arrivals.js'
import {
  type CheckedLearningOptions,
  freshCapacity,
  type LearnedState,
  type LearningModel,
  mixtureOfModel,
  type NO_COUNTERS,
  regularisationOf,
  reservoirCapacity,
  rowScorerOf,
  spaceOfModel,
  tailsOfModel,
} from './learned-state.js'
import {
  copyStatistics,
  createMixtureEvaluator,
  type LearningMixture,
  type MixtureEvaluator,
  type MixtureStatistics,
  StatisticsError,
  type WeightedPoints,
} from './mixture-statistics.js'
import type { Sketch } from './round-sketch.js'

export class LearningWork {
  readonly options: CheckedLearningOptions
  readonly seed: number
  readonly frozen: LearnedState['frozen']
  readonly knownNormal: Matrix
  readonly knownNovel: Matrix
  readonly regularisation: number
  readonly scoreFrozen: RowScorer

  model: LearningModel
  threshold: Threshold
  counters: typeof NO_COUNTERS
  statistics: MixtureStatistics
  base: MixtureStatistics
  unseenRows: number
  densityShift: number
  sketch: Sketch | null
  origins: Int32Array
  reservoirSeen: number
  readonly reservoir: RowBuffer
  readonly calibration: RowBuffer
  readonly doubtful: RowBuffer
  readonly fresh: RowBuffer
  readonly held: RowBuffer
  /** Novel rows to learn in this round. */
  readonly pending: RowBuffer
  /** Arrivals of this round. */
  roundArrivals = 0
  roundLearnt = 0
  /** Whether all rows were stated to be normal. */
  roundAssumed = true
  /** Whether sums overflowed in this round. It is then undone at its end, and no more rows are learned until then. */
  overflowed = false
  /** Points of the reservoir's rows, in its order. */
  reservoirPoints: Float64Array

  space: PointSpace
  readonly #opened: LearnedState
  #scorer: RowScorer | null = null
  #evaluator: MixtureEvaluator | null = null
  #tails: SupportGuard | null = null

  constructor(model: LearningModel, threshold: Threshold, state: LearnedState) {
    const { options } = state
    this.#opened = state
    this.model = model
    this.threshold = threshold
    this.options = options
    this.seed = state.seed
    this.frozen = state.frozen
    this.knownNormal = state.knownNormal
    this.knownNovel = state.knownNovel
    this.regularisation = regularisationOf(state.frozen.detector)
    this.scoreFrozen = rowScorerOf(state.frozen.detector)
    this.counters = { ...state.counters }
    this.statistics = copyStatistics(state.statistics)
    this.base = copyStatistics(state.base)
    this.unseenRows = state.unseenRows
    this.densityShift = state.densityShift
    this.origins = state.origins
    this.reservoirSeen = state.reservoirSeen
    this.sketch =
      'embedding' in model
        ? {
            embedding: model.embedding,
            gram: gaussianKernel(
              model.embedding.landmarks,
              model.embedding.landmarks,
              model.embedding.bandwidth,
            ),
            random: state.random,
          }
        : null
    const width = scaledWidth(model.scaler, model.fitReport.dimension)
    const buffer = (capacity: number, rows: Matrix) =>
      new RowBuffer(width, capacity, { rows, numbers: new Float64Array(rows.rows) })
    this.reservoir = new RowBuffer(width, reservoirCapacity(options.reservoirRows), state.reservoir)
    this.calibration = buffer(options.calibrationRows, state.calibration)
    this.doubtful = buffer(options.calibrationRows, state.doubtful)
    this.fresh = buffer(freshCapacity(options), state.fresh)
    this.held = new RowBuffer(width, options.heldRows, state.held)
    this.pending = buffer(4 * options.roundRows, matrixOf(0, width, new Float64Array(0)))
    this.space = spaceOfModel(model)
    this.reservoirPoints = new Float64Array(0)
    this.locateReservoir()
  }

  get mixture(): LearningMixture {
    return mixtureOfModel(this.model)
  }

  set mixture(mixture: LearningMixture) {
    this.model = { ...this.model, mixture } as LearningModel
    this.#scorer = null
    this.#evaluator = null
  }

  /** For the present mixture. Not reentrant. */
  get evaluator(): MixtureEvaluator {
    this.#evaluator ??= createMixtureEvaluator(this.mixture)
    return this.#evaluator
  }

  /**
   * Runs a step that may change the mixture. Returns false and sets `overflowed` if its statistics are not finite, now
   * or earlier.
   */
  attempt(change: () => void): boolean {
    if (this.overflowed) return false
    try {
      change()
      return true
    } catch (error) {
      if (!(error instanceof StatisticsError)) throw error
      this.overflowed = true
      return false
    }
  }

  /** Called after a change of embedding or guard. */
  replaceModel(model: LearningModel): void {
    this.model = model
    this.space = spaceOfModel(model)
    this.#scorer = null
    this.#evaluator = null
    this.#tails = null
  }

  /** Recomputes the points of all rows of the reservoir. */
  locateReservoir(): void {
    const { count, data } = this.reservoir
    this.reservoirPoints = new Float64Array(count * this.space.d)
    this.space.locate(data, 0, count, this.reservoirPoints, 0)
  }

  /** Puts a point at a place of the reservoir. */
  setReservoirPoint(place: number, points: Float64Array, start: number): void {
    const { d } = this.space
    if ((place + 1) * d > this.reservoirPoints.length) {
      const grown = new Float64Array(Math.max(16, 2 * (place + 1)) * d)
      grown.set(this.reservoirPoints)
      this.reservoirPoints = grown
    }
    for (let c = 0; c < d; c++) this.reservoirPoints[place * d + c] = points[start + c]!
  }

  get keptPoints(): WeightedPoints {
    return { count: this.reservoir.count, points: this.reservoirPoints, weights: this.reservoir.numbers }
  }

  /** The first `count` of scaled rows under the present model. */
  scored(rows: Float64Array, count: number): ScoredRows {
    this.#tails ??= tailsOfModel(this.model)
    this.#scorer ??= createRowScorer(this.space, this.evaluator, this.#tails)
    return this.#scorer(rows, count)
  }

  /** Log-densities of the reservoir's rows under the present mixture. */
  keptDensities(): Float64Array {
    const { count, data } = this.reservoir
    return this.scored(data, count).densities
  }

  /** The present learned state. Only between rounds. */
  close(): LearnedState {
    // sorted first, so that points and rows stay together
    const reservoir = this.reservoir.entries()
    this.locateReservoir()
    return {
      ...this.#opened,
      counters: { ...this.counters },
      statistics: copyStatistics(this.statistics),
      base: copyStatistics(this.base),
      unseenRows: this.unseenRows,
      densityShift: this.densityShift,
      random: this.sketch?.random ?? null,
      origins: this.origins,
      reservoir,
      reservoirSeen: this.reservoirSeen,
      calibration: this.calibration.entries().rows,
      doubtful: this.doubtful.entries().rows,
      fresh: this.fresh.entries().rows,
      held: this.held.entries(),
    }
  }

  /** Rows that may become landmarks: waiting rows first, then rows learned since the last change. */
  landmarkCandidates(): Matrix {
    return concatRows([this.pending.entries().rows, this.fresh.entries().rows])
  }
}
