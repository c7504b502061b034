/** Training rows are checked once, here: at least two, of one width, finite, not all equal unless one point may be learned. */
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

function areRowsEqual({ cols, data }: Matrix, categoryColumn: number | null): boolean {
  for (let at = cols; at < data.length; at++) {
    if (data[at] !== data[at - cols] && at % cols !== categoryColumn) return false
  }
  return true
}
