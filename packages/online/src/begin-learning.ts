/**
 * The first learned state: made from a model alone, or from a model and its training rows.
 *
 * A trained model contains only its landmarks, a random sample of the training rows. Without the other training rows,
 * the mixture itself stands for them as statistics, and the landmarks are the first rows of the reservoir. With
 * training rows, the reservoir is a random sample of them, and the base holds the statistics of the others.
 */

import {
  ArgumentError,
  createMatrix,
  createRng,
  type Matrix,
  matrixOf,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import { drawSketch } from '@oddflow/detectors/parts'
import { farPoints, MAXIMUM_REFERENCE_ROWS, passingScore, rowsThatAre } from './guard-update.js'
import {
  type FrozenModel,
  type LearnedState,
  type LearningModel,
  learningModel,
  mixtureOfModel,
  NO_COUNTERS,
  regularisationOf,
  scoreScaledRows,
  spaceOfModel,
} from './learned-state.js'
import type { CheckedLearningOptions } from './learning-options.js'
import {
  addPoints,
  copyStatistics,
  createMixtureEvaluator,
  emptyStatistics,
  statisticsOfMixture,
} from './mixture-statistics.js'
import { createSketch, isRandomMatrixOf } from './round-sketch.js'

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

export function beginLearning(
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
    addPoints(evaluator, to, { count: rows.rows, points, weights: new Float64Array(rows.rows).fill(1) }, 0)
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

export function reservoirCapacity(reservoirRows: CheckedLearningOptions['reservoirRows']): number {
  return reservoirRows === 'all' ? Number.MAX_SAFE_INTEGER : reservoirRows
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
