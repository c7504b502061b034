/**
 * Scoring: how normal rows are to a model, higher = more normal. With a support guard the score is a sum of two
 * logarithms of tail probabilities (support-guard.ts), without one the mixture's log-density.
 *
 * For each row: scale, kernel row over the landmarks, projection, component densities, log-sum-exp, guard, each a
 * pass of its own over the workspace, so nothing is allocated and a row's score has the same bits whatever
 * batch it comes in and wherever it stands there. Rows are checked once, at this edge: width, finiteness,
 * size of `out`. Numbers so large that their squared distances overflow are far from every landmark: their
 * kernel row is 0, and their support is −Infinity, for which the guard has a number.
 */
import { ArgumentError, asMatrix, checkFinite, type Matrix, type MatrixLike } from '@oddflow/core'
import { kernelExponentFactor, logSumExp, type WeightedMinima } from '@oddflow/linalg'
import { EMBEDDING_TILE_ROWS, embedInto } from './embedding.js'
import type { DetectorModel } from './model.js'
import { componentLogDensitiesInto, type PackedMixture, packMixture } from './packed-mixture.js'
import { scaleInto } from './scaler.js'
import { createSupportGuard, type SupportGuard } from './support-guard.js'
import { logTail } from './tail-probability.js'

/** Scratch for one model and one caller at a time; nothing in it outlives a call but the constants. */
export interface ScoreWorkspace {
  readonly model: DetectorModel
  /** −1/h². */
  readonly kernelFactor: number
  readonly mixture: PackedMixture
  readonly guard: SupportGuard | null
  /** What the support is the negative of, for a tile of rows: squared distances in units of squared reaches; of
   * h² where there is no guard. */
  readonly nearest: WeightedMinima
  /** A tile of scaled rows, EMBEDDING_TILE_ROWS × D. */
  readonly scaled: Float64Array
  /** A tile of kernel rows, EMBEDDING_TILE_ROWS × m. */
  readonly kernelRows: Float64Array
  /** A tile of embedded rows, EMBEDDING_TILE_ROWS × d. */
  readonly embedded: Float64Array
  /** Length k. */
  readonly terms: Float64Array
}

/** The model must have come from a fit or through `checkModel`. */
export function createScoreWorkspace(model: DetectorModel): ScoreWorkspace {
  const { landmarks, projection, bandwidth } = model.embedding
  const guard = model.supportGuard === null ? null : createSupportGuard(model.supportGuard)
  const kernelFactor = kernelExponentFactor(bandwidth)
  return {
    model,
    kernelFactor,
    mixture: packMixture(model.mixture),
    guard,
    nearest: {
      weights: guard?.weights ?? new Float64Array(landmarks.rows).fill(-kernelFactor),
      minima: new Float64Array(EMBEDDING_TILE_ROWS),
    },
    scaled: new Float64Array(EMBEDDING_TILE_ROWS * landmarks.cols),
    kernelRows: new Float64Array(EMBEDDING_TILE_ROWS * landmarks.rows),
    embedded: new Float64Array(EMBEDDING_TILE_ROWS * projection.rows),
    terms: new Float64Array(model.mixture.weights.length),
  }
}

/**
 * out[i] = score of row i, i < rows.rows; returns `out`. Throws ArgumentError when a row is not
 * finite or not as wide as the model's, when `out` is too short, or when the workspace is another model's.
 */
export function scoreSamples(
  model: DetectorModel,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: ScoreWorkspace,
): Float64Array {
  const matrix = checkRows(model, rows, workspace)
  checkRoom(out, matrix.rows)
  const { mixture, embedded, terms, guard, nearest } = workspace
  const { k, d } = mixture
  for (let i = 0; i < matrix.rows; i += EMBEDDING_TILE_ROWS) {
    const count = Math.min(EMBEDDING_TILE_ROWS, matrix.rows - i)
    embedTile(workspace, matrix, i, count, embedded, 0, guard === null ? undefined : nearest)
    for (let r = 0; r < count; r++) {
      componentLogDensitiesInto(mixture, embedded, r * d, terms, 0)
      const logDensity = logSumExp(terms, 0, k)
      out[i + r] =
        guard === null
          ? logDensity
          : logTail(guard.density, logDensity) + logTail(guard.support, -nearest.minima[r]!)
    }
  }
  return out
}

/** Where a score comes from; each array has room for all rows. */
export interface ScoreParts {
  /** Log-density of φ′(x) under the mixture. */
  readonly logDensity: Float64Array
  /** −min_j ‖x − landmark_j‖² / r_j², with h² for every r_j² where the model has no guard; may be −Infinity. */
  readonly support: Float64Array
  /** The score's two summands: logarithms of tail probabilities; without a guard the log-density, and 0. */
  readonly densityTerm: Float64Array
  readonly supportTerm: Float64Array
}

export function createScoreParts(rows: number): ScoreParts {
  return {
    logDensity: new Float64Array(rows),
    support: new Float64Array(rows),
    densityTerm: new Float64Array(rows),
    supportTerm: new Float64Array(rows),
  }
}

/** The parts of the scores of all rows, to explain them; returns `out`. Errors as `scoreSamples`. */
export function scoreParts(
  model: DetectorModel,
  rows: Matrix | MatrixLike,
  out: ScoreParts,
  workspace: ScoreWorkspace,
): ScoreParts {
  const matrix = checkRows(model, rows, workspace)
  for (const part of [out.logDensity, out.support, out.densityTerm, out.supportTerm]) {
    checkRoom(part, matrix.rows)
  }
  const { mixture, embedded, terms, guard, nearest } = workspace
  const { k, d } = mixture
  for (let i = 0; i < matrix.rows; i += EMBEDDING_TILE_ROWS) {
    const count = Math.min(EMBEDDING_TILE_ROWS, matrix.rows - i)
    embedTile(workspace, matrix, i, count, embedded, 0, nearest)
    for (let r = 0; r < count; r++) {
      componentLogDensitiesInto(mixture, embedded, r * d, terms, 0)
      const logDensity = logSumExp(terms, 0, k)
      const support = -nearest.minima[r]!
      out.logDensity[i + r] = logDensity
      out.support[i + r] = support
      out.densityTerm[i + r] = guard === null ? logDensity : logTail(guard.density, logDensity)
      out.supportTerm[i + r] = guard === null ? 0 : logTail(guard.support, support)
    }
  }
  return out
}

/** out[i · d …] = φ′(row i); returns `out`. Errors as `scoreSamples`. */
export function embedSamples(
  model: DetectorModel,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: ScoreWorkspace,
): Float64Array {
  const matrix = checkRows(model, rows, workspace)
  const d = model.embedding.projection.rows
  checkRoom(out, matrix.rows * d)
  for (let i = 0; i < matrix.rows; i += EMBEDDING_TILE_ROWS) {
    const count = Math.min(EMBEDDING_TILE_ROWS, matrix.rows - i)
    embedTile(workspace, matrix, i, count, out, i * d)
  }
  return out
}

function embedTile(
  { model, kernelFactor, scaled, kernelRows }: ScoreWorkspace,
  rows: Matrix,
  first: number,
  count: number,
  out: Float64Array,
  outStart: number,
  nearest?: WeightedMinima,
): void {
  scaleInto(model.scaler, rows.data, first * rows.cols, count, rows.cols, scaled)
  embedInto(model.embedding, kernelFactor, scaled, 0, count, kernelRows, out, outStart, nearest)
}

function checkRows(model: DetectorModel, rows: Matrix | MatrixLike, workspace: ScoreWorkspace): Matrix {
  if (workspace.model !== model) {
    throw new ArgumentError('workspace: made for another model; call createScoreWorkspace', 'workspace')
  }
  const matrix = asMatrix(rows)
  const expected = model.embedding.landmarks.cols
  if (matrix.cols !== expected && matrix.rows > 0) {
    throw new ArgumentError(`rows: expected ${expected} columns as in training, found ${matrix.cols}`, 'rows')
  }
  checkFinite(matrix, 'rows')
  return matrix
}

function checkRoom(out: Float64Array, needed: number): void {
  if (!(out instanceof Float64Array) || out.length < needed) {
    throw new ArgumentError(`out: expected a Float64Array of at least ${needed} numbers`, 'out')
  }
}
