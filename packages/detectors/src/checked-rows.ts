/**
 * The public edge of a detector: rows are checked once here.
 *
 * Training rows: at least two, of one width, finite, and not all equal (unless one point may be learned). Rows to
 * score: finite and of the training width, with a workspace of the same model and room for the scores.
 */
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  DataError,
  MAXIMUM_DIMENSION,
  type Matrix,
  type MatrixLike,
} from '@oddflow/core'

/** A model, and one sentence for each request that was not met exactly. */
export interface Fitted<Model> {
  readonly model: Model
  readonly notes: readonly string[]
}

/**
 * Throws ArgumentError for rows that are not finite numbers, and DataError for rows that teach nothing: equal ones,
 * unless `mayBeEqual`, or a category column alone.
 */
export function checkedTrainingRows(
  rows: Matrix | MatrixLike,
  mayBeEqual = false,
  categoryColumn: number | null = null,
): Matrix {
  const matrix = asMatrix(rows)
  if (matrix.rows < 2) {
    throw new DataError(`rows: at least 2 are needed to learn from, found ${matrix.rows}`, 'rows')
  }
  if (matrix.cols < 1 || matrix.cols > MAXIMUM_DIMENSION) {
    throw new ArgumentError(
      `rows: expected from 1 to ${MAXIMUM_DIMENSION} columns, found ${matrix.cols}`,
      'rows',
    )
  }
  checkFinite(matrix, 'rows')
  if (!mayBeEqual && areRowsEqual(matrix, categoryColumn)) {
    throw new DataError(
      'all training rows are equal, and one point is nothing to learn from: train on rows that differ',
      'rows',
    )
  }
  return matrix
}

/** `name`: expected a whole number from `low` to `high`. Throws ArgumentError with that field. */
export function checkWhole(name: string, value: number, low: number, high: number): void {
  if (!Number.isSafeInteger(value) || value < low || value > high) {
    throw new ArgumentError(`${name}: expected a whole number from ${low} to ${high}, found ${value}`, name)
  }
}

/**
 * Rows that a model of `dimension` columns may score into `out` with `workspace`. Throws ArgumentError.
 */
export function checkedScoringRows<Model>(
  model: Model,
  dimension: number,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: { readonly model: Model },
): Matrix {
  if (workspace.model !== model) {
    throw new ArgumentError('workspace: made for another model; create one for this model', 'workspace')
  }
  const matrix = asMatrix(rows)
  if (matrix.cols !== dimension && matrix.rows > 0) {
    throw new ArgumentError(
      `rows: expected ${dimension} columns as in training, found ${matrix.cols}`,
      'rows',
    )
  }
  checkFinite(matrix, 'rows')
  if (!(out instanceof Float64Array) || out.length < matrix.rows) {
    throw new ArgumentError(`out: expected a Float64Array of at least ${matrix.rows} numbers`, 'out')
  }
  return matrix
}

function areRowsEqual({ cols, data }: Matrix, categoryColumn: number | null): boolean {
  for (let at = cols; at < data.length; at++) {
    if (data[at] !== data[at - cols] && at % cols !== categoryColumn) return false
  }
  return true
}
