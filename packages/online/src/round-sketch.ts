/**
 * The sketch in a round: landmarks change when enough novel rows are to be learned, when the learned rows have moved
 * away from them, or after a number of rounds. Mixture, statistics, points and densities are carried along
 * (carry-mixture.ts).
 */
import {
  concatRows,
  createMatrix,
  log,
  type Matrix,
  type Rng,
  sampleWithoutReplacement,
  shuffleInPlace,
  takeRows,
} from '@oddflow/core'
import type {
  EmbeddedMixtureModel,
  EmbeddingModel,
  EmbeddingParameters,
  SupportGuardModel,
} from '@oddflow/detectors'
import { COMMON_SHARE, drawSketch, kjlProjection, nystromProjection } from '@oddflow/detectors/parts'
import { gaussianKernel, LARGEST_FLOAT32, type Precision, squaredDistance } from '@oddflow/linalg'
import { carryMixture } from './carry-mixture.js'
import { DRIFT_BOUNDS } from './drift.js'
import { likeReach, nearestLandmarks } from './guard-update.js'
import type { LearningWork } from './learning-work.js'
import { copyStatistics, mixtureOfStatistics, scaleStatistics, totalMass } from './mixture-statistics.js'

/**
 * Rows that become landmarks: waiting rows first, for up to half of the places, then rows learned since the last
 * change. A row equal to a landmark, or not representable in the model's precision, is skipped. A landmark makes all
 * rows near it look normal, so a row needs as many similar rows as confirm a quarantined row.
 */

/** At most `wanted` different rows, scaled and rounded to the model's precision. */
function newLandmarks(work: LearningWork, wanted: number, rng: Rng): Matrix {
  const candidates = work.landmarkCandidates()
  const { landmarks } = work.sketch!.embedding
  const { precision } = (work.model as EmbeddedMixtureModel).parameters
  const { cols } = candidates
  const waiting = work.pending.count
  const draw = rng.fork('candidates')
  const shuffled = (from: number, to: number): number[] => [
    ...shuffleInPlace(
      Uint32Array.from({ length: to - from }, (_, i) => from + i),
      draw,
    ),
  ]
  const like = haveTheirLike(work, candidates)
  const first = shuffled(0, waiting).filter((row) => like[row] === 1)
  const rest = shuffled(waiting, candidates.rows).filter((row) => like[row] === 1)
  const half = Math.min(first.length, Math.max(Math.ceil(wanted / 2), wanted - rest.length))
  const order = [...first.slice(0, half), ...rest, ...first.slice(half)]
  const chosen: number[] = []
  const isNew = (row: number): boolean => {
    for (let c = 0; c < cols; c++) {
      if (precision === 'f32' && Math.abs(candidates.data[row * cols + c]!) > LARGEST_FLOAT32) return false
    }
    for (let j = 0; j < landmarks.rows; j++) {
      if (squaredDistance(candidates.data, row * cols, landmarks.data, j * cols, cols) === 0) return false
    }
    return chosen.every(
      (other) => squaredDistance(candidates.data, row * cols, candidates.data, other * cols, cols) > 0,
    )
  }
  for (const row of order) {
    if (chosen.length === wanted) break
    if (isNew(row)) chosen.push(row)
  }
  return roundedTo(precision, takeRows(candidates, chosen))
}

/** As landmarks of that precision are kept. */
function roundedTo(precision: Precision, rows: Matrix): Matrix {
  return precision === 'f64' ? rows : { ...rows, data: rows.data.map(Math.fround) }
}

/**
 * For each row, 1 if enough rows similar to it, itself included, are among them and in the reservoir. A row in both
 * counts twice.
 */
function haveTheirLike(work: LearningWork, rows: Matrix): Uint8Array {
  const { reservoir, options } = work
  const { bandwidth } = work.sketch!.embedding
  const reach = likeReach(bandwidth)
  const { cols, data } = rows
  const isLike = (i: number, of: Float64Array, j: number): boolean =>
    squaredDistance(data, i * cols, of, j * cols, cols) <= reach
  return Uint8Array.from({ length: rows.rows }, (_, i) => {
    let count = 0
    for (let j = 0; j < rows.rows && count < options.confirmRows; j++) if (isLike(i, data, j)) count++
    for (let j = 0; j < reservoir.count && count < options.confirmRows; j++) {
      if (isLike(i, reservoir.data, j)) count++
    }
    return Number(count >= options.confirmRows)
  })
}

/**
 * Whether the traffic has moved away from the landmarks while the model found it normal: the mixture follows a gradual
 * change row by row, the guard's reaches grow, and novel rows at the same distance would pass.
 *
 * Landmarks are rows of the traffic, so rows that have not moved are as near to their nearest landmark as landmarks are
 * to each other. The signal is Kolmogorov's D⁺ of their squared distances. It must exceed the effect size of drift.ts
 * and Smirnov's bound for these sample sizes. Only rows that could become landmarks count, because others would stay
 * too far.
 */

/** Probability of a larger D⁺ without a move. */
const FALSE_ALARM = 0.001

function rowsHaveMoved(work: LearningWork): boolean {
  const { landmarks } = work.sketch!.embedding
  const own = nearestSquares(landmarks, landmarks)
  const { rows } = work.fresh.entries()
  // rows that cannot become landmarks are left out only when it matters: finding them takes the most time
  if (!isFarther(nearestSquares(landmarks, rows), own)) return false
  const like = haveTheirLike(work, rows)
  const chosen = Array.from(like.keys()).filter((i) => like[i] === 1)
  return isFarther(nearestSquares(landmarks, takeRows(rows, chosen)), own)
}

/** Squared distances to the nearest landmark, ascending; for a landmark, to the nearest other one. */
function nearestSquares(landmarks: Matrix, { rows, data }: Matrix): Float64Array {
  const kept = { count: rows, rows: data, weights: new Float64Array(0) }
  return nearestLandmarks(landmarks, kept).squares.sort()
}

function isFarther(rows: Float64Array, landmarks: Float64Array): boolean {
  if (rows.length === 0) return false
  const bound = Math.sqrt((-log(FALSE_ALARM) / 2) * (1 / rows.length + 1 / landmarks.length))
  return excessOf(landmarks, rows) > Math.max(DRIFT_BOUNDS.distance, bound)
}

/**
 * D⁺ of two ascending lists: the largest difference of their cumulative shares, first minus second. Values that differ
 * by less than a thousandth of the first's mean count as equal.
 */
export function excessOf(first: Float64Array, second: Float64Array): number {
  let mean = 0
  for (const value of first) mean += value / first.length
  const slack = COMMON_SHARE * mean
  let excess = 0
  let upTo = 0
  for (let i = 0; i < first.length; i++) {
    while (upTo < second.length && second[upTo]! <= first[i]! + slack) upTo++
    excess = Math.max(excess, (i + 1) / first.length - upTo / second.length)
  }
  return excess
}

/**
 * New landmarks for an embedding: "K-JL with growing size U" and "with fixed size U" of the paper's source. U is the
 * projection Pᵀ = K·R, K the landmarks' gram matrix and R the random matrix (here Z = Rᵀ, d × m).
 *
 *     grow      K' = [K, k(X, X'); k(X', X), k(X', X')]     R' = [R; as many new random rows]     U' = K'R'
 *     replace   rows of X' replace random landmarks; K' = k(X', X'), R is kept, U' = K'R
 *
 * Only the entries of K with a new landmark are computed. Nyström's P' comes from the eigenvectors of K'.
 */

/** An embedding with the data that a sketch update needs. */
export interface Sketch {
  readonly embedding: EmbeddingModel
  /** K, m × m. */
  readonly gram: Matrix
  /** Rᵀ, d × m; null for Nyström. */
  readonly random: Matrix | null
}

interface SketchUpdate {
  readonly sketch: Sketch
  /** For each landmark its previous number, or −1 for a new one. */
  readonly origins: Int32Array
}

/**
 * The embedding's sketch. `random` is that of its fit, if known. If P is not Z·K for it, or nothing is known, a new one
 * is drawn, which takes effect with the first update.
 */
export function createSketch(
  embedding: EmbeddingModel,
  parameters: EmbeddingParameters,
  random: Matrix | null,
  rng: Rng,
): Sketch {
  const { landmarks, projection, bandwidth } = embedding
  const gram = gaussianKernel(landmarks, landmarks, bandwidth)
  if (parameters.kind === 'nystrom') return { embedding, gram, random: null }
  return { embedding, gram, random: random ?? drawSketch(projection.rows, landmarks.rows, rng) }
}

/** Whether KJL makes P from this random matrix, bit for bit. */
export function isRandomMatrixOf(
  embedding: EmbeddingModel,
  parameters: EmbeddingParameters,
  random: Matrix,
): boolean {
  const { landmarks, projection, bandwidth } = embedding
  if (parameters.kind !== 'kjl' || random.cols !== landmarks.rows) return false
  const made = kjlProjection(gaussianKernel(landmarks, landmarks, bandwidth), random, parameters.centre)
  return made.rows === projection.rows && made.data.every((value, i) => value === projection.data[i])
}

/** Adds `rows` (g × D, scaled) as landmarks. */
export function growSketch(
  sketch: Sketch,
  parameters: EmbeddingParameters,
  rows: Matrix,
  d: number,
  rng: Rng,
): SketchUpdate {
  const { landmarks } = sketch.embedding
  const m = landmarks.rows
  const origins = Int32Array.from({ length: m + rows.rows }, (_, j) => (j < m ? j : -1))
  let random: Matrix | null = null
  if (sketch.random !== null) {
    const more = drawSketch(sketch.random.rows, rows.rows, rng)
    random = createMatrix(sketch.random.rows, m + rows.rows)
    for (let r = 0; r < random.rows; r++) {
      random.data.set(sketch.random.data.subarray(r * m, (r + 1) * m), r * random.cols)
      random.data.set(more.data.subarray(r * rows.rows, (r + 1) * rows.rows), r * random.cols + m)
    }
  }
  return remade(sketch, parameters, concatRows([landmarks, rows]), origins, random, d)
}

/** Replaces random landmarks by `rows` (g × D, scaled, g at most m). */
export function replaceLandmarks(
  sketch: Sketch,
  parameters: EmbeddingParameters,
  rows: Matrix,
  d: number,
  rng: Rng,
): SketchUpdate {
  const { landmarks } = sketch.embedding
  const { cols } = landmarks
  const changed: Matrix = { ...landmarks, data: landmarks.data.slice() }
  const origins = Int32Array.from({ length: landmarks.rows }, (_, j) => j)
  const places = sampleWithoutReplacement(landmarks.rows, rows.rows, rng)
  places.forEach((place, i) => {
    changed.data.set(rows.data.subarray(i * cols, (i + 1) * cols), place * cols)
    origins[place] = -1
  })
  return remade(sketch, parameters, changed, origins, sketch.random, d)
}

function remade(
  sketch: Sketch,
  parameters: EmbeddingParameters,
  landmarks: Matrix,
  origins: Int32Array,
  random: Matrix | null,
  d: number,
): SketchUpdate {
  const { gram: old, embedding } = sketch
  const m = landmarks.rows
  const fresh = Array.from(origins.keys()).filter((j) => origins[j] === -1)
  const { cols } = landmarks
  const rows = createMatrix(fresh.length, cols)
  fresh.forEach((j, i) => {
    rows.data.set(landmarks.data.subarray(j * cols, (j + 1) * cols), i * cols)
  })
  const block = gaussianKernel(rows, landmarks, embedding.bandwidth)
  const gram = createMatrix(m, m)
  for (let i = 0; i < m; i++) {
    if (origins[i] === -1) continue
    for (let j = 0; j < m; j++) {
      if (origins[j] !== -1) gram.data[i * m + j] = old.data[origins[i]! * old.cols + origins[j]!]!
    }
  }
  fresh.forEach((place, i) => {
    for (let j = 0; j < m; j++) {
      const value = block.data[i * m + j]!
      gram.data[place * m + j] = value
      gram.data[j * m + place] = value
    }
  })
  return { sketch: project({ ...embedding, landmarks }, parameters, gram, random, d), origins }
}

function project(
  embedding: EmbeddingModel,
  parameters: EmbeddingParameters,
  gram: Matrix,
  random: Matrix | null,
  d: number,
): Sketch {
  const projection =
    parameters.kind === 'kjl' && random !== null
      ? kjlProjection(gram, random, parameters.centre)
      : nystromProjection(gram, d)
  return { embedding: { ...embedding, projection }, gram, random }
}

export type SketchChange = 'kept' | 'grown' | 'replaced'

/** Updates the landmarks in the round of that number; changes `work`. */
export function updateSketch(work: LearningWork, round: number, rng: Rng): SketchChange {
  const { sketch, options, model } = work
  const policy = options.sketch
  if (sketch === null || policy.kind === 'keep' || !('embedding' in model)) return 'kept'
  const isTime = policy.everyRounds !== null && round % policy.everyRounds === 0
  if (work.pending.count < policy.rows && !isTime && !rowsHaveMoved(work)) return 'kept'
  const rows = newLandmarks(work, policy.rows, rng)
  if (rows.rows === 0) return 'kept'
  const frozen = work.frozen.detector as EmbeddedMixtureModel
  const { d, embedding: kind } = frozen.parameters
  const m = sketch.embedding.landmarks.rows
  const most = policy.kind === 'grow' ? (policy.maximumLandmarks ?? 2 * frozen.embedding.landmarks.rows) : m
  const grows = m + rows.rows <= most
  const draw = rng.fork('landmarks')
  const some = grows
    ? rows
    : takeRows(
        rows,
        Array.from({ length: Math.min(m, rows.rows) }, (_, i) => i),
      )
  const update: SketchUpdate = grows
    ? growSketch(sketch, kind, some, d, draw)
    : replaceLandmarks(sketch, kind, some, d, draw)
  const { embedding } = update.sketch
  work.origins = update.origins.map((before) => (before < 0 ? -1 : work.origins[before]!))
  work.sketch = update.sketch
  work.fresh.filter(() => false)
  carryInto(work, model, embedding, frozen)
  return grows ? 'grown' : 'replaced'
}

/** Embedding, mixture, statistics and the reservoir's points in the new coordinates. */
function carryInto(
  work: LearningWork,
  model: EmbeddedMixtureModel,
  embedding: EmbeddingModel,
  frozen: EmbeddedMixtureModel,
): void {
  const { weights } = work.keptPoints
  const count = work.reservoir.count
  const before = { count, weights, points: work.reservoirPoints.slice() }
  const densitiesBefore = work.keptDensities()
  const { mixture } = work
  const m = embedding.landmarks.rows
  const d = embedding.projection.rows
  // the guard's tables come later in the round; until then a new landmark has the mean reach of the others
  const supportGuard = model.supportGuard === null ? null : withReaches(model.supportGuard, m)
  work.replaceModel({
    ...model,
    embedding,
    supportGuard,
    parameters: { ...model.parameters, m: Math.max(model.parameters.m, m) },
    fitReport: { ...model.fitReport, landmarks: m, embeddingDimension: d },
  })
  work.locateReservoir()
  const outside = totalMass(work.base) / totalMass(work.statistics)
  work.statistics = carryMixture(mixture, work.statistics, before, work.keptPoints, d)
  work.base = copyStatistics(work.statistics)
  scaleStatistics(work.base, Math.min(1, outside))
  work.mixture = mixtureOfStatistics(work.statistics, frozen.fitReport.regularisation)
  moveDensities(work, median(work.keptDensities()) - median(densitiesBefore))
}

function withReaches(guard: SupportGuardModel, m: number): SupportGuardModel {
  const old = guard.squaredReaches
  const mean = old.reduce((sum, reach) => sum + reach / old.length, 0)
  return { ...guard, squaredReaches: Float64Array.from({ length: m }, (_, j) => old[j] ?? mean) }
}

/** A new embedding has other units, so values compared with log-densities are shifted. */
function moveDensities(work: LearningWork, shift: number): void {
  if (!Number.isFinite(shift)) return
  work.densityShift += shift
  if ('supportGuard' in work.model && work.model.supportGuard !== null) return
  work.threshold = { ...work.threshold, value: work.threshold.value + shift }
}

function median(values: Float64Array): number {
  if (values.length === 0) return 0
  return values.slice().sort()[values.length >> 1]!
}
