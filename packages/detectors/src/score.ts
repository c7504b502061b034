/**
 * Scoring: log-densities of rows under a model, higher = more normal.
 *
 * For each row: scale, kernel row over the landmarks, projection, component densities, log-sum-exp, each a
 * pass of its own over the workspace, so nothing is allocated and a row's score has the same bits whatever
 * batch it comes in and wherever it stands there. Rows are checked once, at this edge: width, finiteness,
 * size of `out`. Numbers so large that their squared distances overflow are far from every landmark: their
 * kernel row is 0.
 */
import { ArgumentError, asMatrix, checkFinite, type Matrix, type MatrixLike } from '@oddflow/core'
import { kernelExponentFactor, logSumExp } from '@oddflow/linalg'
import { EMBEDDING_TILE_ROWS, embedInto } from './embedding.js'
import type { DetectorModel } from './model.js'
import { componentLogDensitiesInto, type PackedMixture, packMixture } from './packed-mixture.js'
import { scaleInto } from './scaler.js'

/** Scratch for one model and one caller at a time; nothing in it outlives a call but the constants. */
export interface ScoreWorkspace {
  readonly model: DetectorModel
  /** −1/h². */
  readonly kernelFactor: number
  readonly mixture: PackedMixture
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
  return {
    model,
    kernelFactor: kernelExponentFactor(bandwidth),
    mixture: packMixture(model.mixture),
    scaled: new Float64Array(EMBEDDING_TILE_ROWS * landmarks.cols),
    kernelRows: new Float64Array(EMBEDDING_TILE_ROWS * landmarks.rows),
    embedded: new Float64Array(EMBEDDING_TILE_ROWS * projection.rows),
    terms: new Float64Array(model.mixture.weights.length),
  }
}

/**
 * out[i] = log-density of φ′(row i), i < rows.rows; returns `out`. Throws ArgumentError when a row is not
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
  const { mixture, embedded, terms } = workspace
  const { k, d } = mixture
  for (let i = 0; i < matrix.rows; i += EMBEDDING_TILE_ROWS) {
    const count = Math.min(EMBEDDING_TILE_ROWS, matrix.rows - i)
    embedTile(workspace, matrix, i, count, embedded, 0)
    for (let r = 0; r < count; r++) {
      componentLogDensitiesInto(mixture, embedded, r * d, terms, 0)
      out[i + r] = logSumExp(terms, 0, k)
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
): void {
  scaleInto(model.scaler, rows.data, first * rows.cols, count, rows.cols, scaled)
  embedInto(model.embedding, kernelFactor, scaled, 0, count, kernelRows, out, outStart)
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
