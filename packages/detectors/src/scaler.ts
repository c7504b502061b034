/**
 * Scalers: what is done to rows before distances are taken.
 *
 * - `none` is the paper.
 * - `standard` subtracts the mean and divides by the population standard deviation of each column of the training
 *   rows; a column without spread keeps scale 1, so that it still counts when it moves. The mean is taken first
 *   and squares of differences from it afterwards, in row order.
 * - `log` is sign(x)·log(1 + |x|): interarrival times and sizes span decades. It is odd, so that the rare negative
 *   number is treated as its mirror image instead of being refused.
 * - `log-standard` is `standard` over `log`.
 * - `quantile` replaces a number by the share of training rows below it, by at most 101 knots a column; equal
 *   numbers share the middle of their ranks, as in scikit-learn's QuantileTransformer. That clips what lies beyond
 *   the training rows, which is what a detector is there to see: here it goes on linearly, in units of the
 *   column's range.
 *
 * A category column, whose numbers are names, is left out of scaled rows, whatever the scaler.
 */
import { createMatrix, DataError, log, type Matrix, type ScalerName } from '@oddflow/core'
import type { FitContext } from './detector.js'
import type { QuantileScaler, ScalerModel } from './model.js'

/** Steps between the knots of a quantile scaler. */
export const QUANTILE_STEPS = 100

/** Of all columns but the category column, if there is one. Throws DataError when a column's numbers are too large for a
 * mean, a deviation or a range. */
export function fitScaler(rows: Matrix, kind: ScalerName, categoryColumn: number | null = null): ScalerModel {
  if (categoryColumn === null) return fitColumns(rows, kind)
  return { ...fitColumns(scaleRows({ kind: 'none', categoryColumn }, rows), kind), categoryColumn }
}

function fitColumns(rows: Matrix, kind: ScalerName): ScalerModel {
  switch (kind) {
    case 'none':
    case 'log':
      return { kind }
    case 'standard':
      return { kind, ...fitMoments(rows) }
    case 'log-standard':
      return { kind, ...fitMoments(scaleRows({ kind: 'log' }, rows)) }
    case 'quantile':
      return fitQuantiles(rows)
  }
}

function fitMoments({ rows: n, cols, data }: Matrix): { mean: Float64Array; scale: Float64Array } {
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
    if (!Number.isFinite(deviation)) throw tooLarge(j)
    // rounding leaves a constant column a deviation of a few units in the last place of its mean
    scale[j] = deviation > Math.abs(mean[j]!) * 1e-14 ? deviation : 1
  }
  return { mean, scale }
}

function fitQuantiles({ rows: n, cols, data }: Matrix): QuantileScaler {
  const starts = new Uint32Array(cols + 1)
  const knots: number[] = []
  const positions: number[] = []
  const column = new Float64Array(n)
  for (let j = 0; j < cols; j++) {
    for (let i = 0; i < n; i++) column[i] = data[i * cols + j]!
    column.sort()
    if (!Number.isFinite(column[n - 1]! - column[0]!)) throw tooLarge(j)
    let used = 0
    for (let t = 0; t <= QUANTILE_STEPS; t++) {
      const rank = Math.round((t * (n - 1)) / QUANTILE_STEPS)
      if (rank < used) continue
      const value = column[rank]!
      let first = rank
      while (first > used && column[first - 1] === value) first--
      used = rank + 1
      while (used < n && column[used] === value) used++
      // −0 and 0 are one number
      knots.push(value + 0)
      positions.push((first + used - 1) / 2 / (n - 1))
    }
    starts[j + 1] = knots.length
  }
  return {
    kind: 'quantile',
    starts,
    knots: Float64Array.from(knots),
    positions: Float64Array.from(positions),
  }
}

function tooLarge(column: number): DataError {
  return new DataError(`column ${column}: its numbers are too large to scale; divide them first`, 'rows')
}

/** Columns of one number alone. */
export function constantColumns(rows: Matrix, categoryColumn: number | null): number {
  let constant = 0
  for (let j = 0; j < rows.cols; j++) {
    if (j === categoryColumn) continue
    let i = 1
    while (i < rows.rows && rows.data[i * rows.cols + j] === rows.data[j]) i++
    if (i >= rows.rows) constant++
  }
  return constant
}

/** Columns of scaled rows whose originals have `cols`. */
export function scaledWidth({ categoryColumn }: ScalerModel, cols: number): number {
  return categoryColumn === undefined ? cols : cols - 1
}

/** Writes `count` scaled rows of `source`, `cols` wide from its element `start` on, to `out` at 0, `scaledWidth` wide. */
export function scaleInto(
  scaler: ScalerModel,
  source: Float64Array,
  start: number,
  count: number,
  cols: number,
  out: Float64Array,
): void {
  const { categoryColumn } = scaler
  if (categoryColumn === undefined) {
    scaleColumns(scaler, source, start, count, cols, out)
    return
  }
  let at = 0
  for (let i = 0; i < count; i++) {
    const row = start + i * cols
    for (let j = 0; j < categoryColumn; j++) out[at++] = source[row + j]!
    for (let j = categoryColumn + 1; j < cols; j++) out[at++] = source[row + j]!
  }
  if (scaler.kind !== 'none') scaleColumns(scaler, out, 0, count, cols - 1, out)
}

/** `out` may be `source` where `start` is 0. */
function scaleColumns(
  scaler: ScalerModel,
  source: Float64Array,
  start: number,
  count: number,
  cols: number,
  out: Float64Array,
): void {
  const length = count * cols
  switch (scaler.kind) {
    case 'none':
      for (let i = 0; i < length; i++) out[i] = source[start + i]!
      break
    case 'log':
      for (let i = 0; i < length; i++) out[i] = signedLog(source[start + i]!)
      break
    case 'standard': {
      const { mean, scale } = scaler
      for (let i = 0, at = 0; i < count; i++) {
        for (let j = 0; j < cols; j++, at++) out[at] = (source[start + at]! - mean[j]!) / scale[j]!
      }
      break
    }
    case 'log-standard': {
      const { mean, scale } = scaler
      for (let i = 0, at = 0; i < count; i++) {
        for (let j = 0; j < cols; j++, at++) out[at] = (signedLog(source[start + at]!) - mean[j]!) / scale[j]!
      }
      break
    }
    case 'quantile':
      for (let i = 0, at = 0; i < count; i++) {
        for (let j = 0; j < cols; j++, at++) out[at] = quantileOf(scaler, j, source[start + at]!)
      }
      break
  }
}

/** sign(x)·log(1 + |x|), without losing small x to the 1 (W. Kahan's correction). */
function signedLog(x: number): number {
  const size = Math.abs(x)
  const u = 1 + size
  const value = u === 1 ? size : log(u) * (size / (u - 1))
  return x < 0 ? -value : value
}

function quantileOf({ starts, knots, positions }: QuantileScaler, column: number, x: number): number {
  const first = starts[column]!
  const last = starts[column + 1]! - 1
  const range = last > first ? knots[last]! - knots[first]! : 1
  if (!(x > knots[first]!)) return positions[first]! + (x - knots[first]!) / range
  if (!(x < knots[last]!)) return positions[last]! + (x - knots[last]!) / range
  // knots[low] ≤ x < knots[high]
  let low = first
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (knots[middle]! <= x) low = middle
    else high = middle
  }
  const from = positions[low]!
  return from + (positions[high]! - from) * ((x - knots[low]!) / (knots[high]! - knots[low]!))
}

/** A scaler of that name fitted to the rows, and the rows scaled. */
export function fitScaledRows(
  rows: Matrix,
  kind: ScalerName,
  { shared, categoryColumn }: Pick<FitContext, 'shared' | 'categoryColumn'>,
): { readonly scaler: ScalerModel; readonly scaled: Matrix } {
  return shared.once('scaled rows', [rows, kind, categoryColumn], () => {
    const scaler = fitScaler(rows, kind, categoryColumn)
    return { scaler, scaled: scaleRows(scaler, rows) }
  })
}

/** Scaled copy of all rows; the rows themselves where nothing changes. */
export function scaleRows(scaler: ScalerModel, rows: Matrix): Matrix {
  if (scaler.kind === 'none' && scaler.categoryColumn === undefined) return rows
  const out = createMatrix(rows.rows, scaledWidth(scaler, rows.cols))
  scaleInto(scaler, rows.data, 0, rows.rows, rows.cols, out.data)
  return out
}
