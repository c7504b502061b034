/**
 * Rows that a model of precision f32 keeps: landmarks and support vectors, rounded to float32 at the end of the
 * fit, so that the file holds exactly what is computed with.
 *
 * Everything is learnt in float64 and is the same for both precisions: clusters are ill-conditioned, and a model
 * must not depend on a rounding that was meant for its scorer.
 *
 * They stay in Float64Arrays, whose numbers are then float32 numbers; only the file and the kernels hold them in
 * half the space.
 */
import { ArgumentError, DataError, type Matrix } from '@oddflow/core'
import { exponentFactor, LARGEST_FLOAT32, type Precision } from '@oddflow/linalg'
import { failField } from './check-parts.js'

/**
 * The rows in that precision: themselves for f64. Throws DataError when a number, or the bandwidth's square, is
 * out of float32's range.
 */
export function rowsInPrecision(rows: Matrix, bandwidth: number, precision: Precision): Matrix {
  if (precision === 'f64') return rows
  for (const value of rows.data) {
    if (Math.abs(value) > LARGEST_FLOAT32) {
      throw new DataError(`rows: ${value} is out of float32's range; take precision f64, or scale`, 'rows')
    }
  }
  try {
    exponentFactor(bandwidth, precision)
  } catch (error) {
    if (error instanceof ArgumentError) throw new DataError(error.message, 'precision')
    throw error
  }
  return { rows: rows.rows, cols: rows.cols, data: rows.data.map(Math.fround) }
}

/** Throws ArgumentError with the path `field` or `bandwidthField`. */
export function checkRowsInPrecision(
  rows: Matrix,
  field: string,
  bandwidth: number,
  bandwidthField: string,
  precision: Precision,
): void {
  if (precision === 'f64') return
  for (const value of rows.data) if (Math.fround(value) !== value) failField(field, 'float32 numbers', value)
  try {
    exponentFactor(bandwidth, precision)
  } catch {
    failField(bandwidthField, "one whose square is in float32's range", bandwidth)
  }
}
