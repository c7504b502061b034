/**
 * Scalers: what is done to rows before distances are taken.
 *
 * `none` is the paper. `standard` subtracts the mean and divides by the population standard deviation of each
 * column of the training rows; a column without spread keeps scale 1, so that it still counts when it moves.
 * The mean is taken first and squares of differences from it afterwards, in row order.
 */
import { createMatrix, DataError, type Matrix, type ScalerName } from '@oddflow/core'
import type { ScalerModel } from './model.js'

/** Throws DataError when a column's numbers are too large for a mean or a deviation. */
export function fitScaler(rows: Matrix, kind: ScalerName): ScalerModel {
  if (kind === 'none') return { kind: 'none' }
  const { rows: n, cols, data } = rows
  const mean = new Float64Array(cols)
  const scale = new Float64Array(cols)
  for (let i = 0, at = 0; i < n; i++) for (let j = 0; j < cols; j++) mean[j]! += data[at++]!
  for (let j = 0; j < cols; j++) mean[j] = mean[j]! / n
  for (let i = 0, at = 0; i < n; i++) {
    for (let j = 0; j < cols; j++) {
      const difference = data[at++]! - mean[j]!
      scale[j]! += difference * difference
    }
  }
  for (let j = 0; j < cols; j++) {
    const deviation = Math.sqrt(scale[j]! / n)
    if (!Number.isFinite(deviation)) {
      throw new DataError(`column ${j}: its numbers are too large to standardise; divide them first`, 'rows')
    }
    // rounding leaves a constant column a deviation of a few units in the last place of its mean
    scale[j] = deviation > Math.abs(mean[j]!) * 1e-14 ? deviation : 1
  }
  return { kind: 'standard', mean, scale }
}

/** Columns that `fitScaler` found without spread. */
export function constantColumns(rows: Matrix): number {
  let constant = 0
  for (let j = 0; j < rows.cols; j++) {
    let i = 1
    while (i < rows.rows && rows.data[i * rows.cols + j] === rows.data[j]) i++
    if (i >= rows.rows) constant++
  }
  return constant
}

/** Writes `count` scaled rows of `source`, from its element `start` on, to `out` at 0. */
export function scaleInto(
  scaler: ScalerModel,
  source: Float64Array,
  start: number,
  count: number,
  cols: number,
  out: Float64Array,
): void {
  if (scaler.kind === 'none') {
    for (let i = 0; i < count * cols; i++) out[i] = source[start + i]!
    return
  }
  const { mean, scale } = scaler
  for (let i = 0, at = 0; i < count; i++) {
    for (let j = 0; j < cols; j++, at++) out[at] = (source[start + at]! - mean[j]!) / scale[j]!
  }
}

/** Scaled copy of all rows; the rows themselves when there is nothing to scale. */
export function scaleRows(scaler: ScalerModel, rows: Matrix): Matrix {
  if (scaler.kind === 'none') return rows
  const out = createMatrix(rows.rows, rows.cols)
  scaleInto(scaler, rows.data, 0, rows.rows, rows.cols, out.data)
  return out
}
