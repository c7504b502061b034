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
import { embedInto } from './embedding.js'
import { componentLogDensitiesInto, logNormalisersInto } from './gaussian-mixture.js'
import type { DetectorModel } from './model.js'
import { scaleInto } from './scaler.js'

/** Scratch for one model and one caller at a time; nothing in it outlives a call but the constants. */
export interface ScoreWorkspace {
  readonly model: DetectorModel
  /** −1/h². */
  readonly kernelFactor: number
  /** Length k. */
  readonly logNormalisers: Float64Array
  /** Length D: the scaled row. */
  readonly scaled: Float64Array
  /** Length m. */
  readonly kernelRow: Float64Array
  /** Length d. */
  readonly embedded: Float64Array
  /** Length d. */
  readonly difference: Float64Array
  /** Length k. */
  readonly terms: Float64Array
}

/** The model must have come from a fit or through `checkModel`. */
export function createScoreWorkspace(model: DetectorModel): ScoreWorkspace {
  const { landmarks, projection, bandwidth } = model.embedding
  const k = model.mixture.weights.length
  const logNormalisers = new Float64Array(k)
  logNormalisersInto(model.mixture, logNormalisers)
  return {
    model,
    kernelFactor: kernelExponentFactor(bandwidth),
    logNormalisers,
    scaled: new Float64Array(landmarks.cols),
    kernelRow: new Float64Array(landmarks.rows),
    embedded: new Float64Array(projection.rows),
    difference: new Float64Array(projection.rows),
    terms: new Float64Array(k),
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
  const { embedded, logNormalisers, difference, terms } = workspace
  const { mixture } = model
  const k = terms.length
  for (let i = 0; i < matrix.rows; i++) {
    embedOne(workspace, matrix, i, embedded, 0)
    componentLogDensitiesInto(mixture, logNormalisers, embedded, 0, difference, terms, 0)
    out[i] = logSumExp(terms, 0, k)
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
  for (let i = 0; i < matrix.rows; i++) embedOne(workspace, matrix, i, out, i * d)
  return out
}

function embedOne(
  workspace: ScoreWorkspace,
  rows: Matrix,
  i: number,
  out: Float64Array,
  outStart: number,
): void {
  const { model, kernelFactor, scaled, kernelRow } = workspace
  scaleInto(model.scaler, rows.data, i * rows.cols, 1, rows.cols, scaled)
  embedInto(model.embedding, kernelFactor, scaled, 0, kernelRow, out, outStart)
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
