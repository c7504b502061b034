/**
 * The way back from a scaled row to one as it was measured, for showing it to people: exact to rounding. Where a
 * scaler maps many numbers to one (a quantile scaler has none such: its knots ascend strictly) nothing is lost.
 */
import { exp } from '@oddflow/core'
import type { QuantileScaler, ScalerModel } from '../model.js'

/** Writes the unscaled `scaled[start … start + cols)` to `out` at 0; a category column, which scaled rows lack, is left as it
 * is there. */
export function unscaleRow(
  scaler: ScalerModel,
  scaled: Float64Array,
  start: number,
  cols: number,
  out: Float64Array,
): void {
  const { categoryColumn = cols } = scaler
  for (let j = 0; j < cols; j++) {
    // what a forged model remembers may be no number that was measured
    const value = unscale(scaler, j, scaled[start + j]!)
    out[j < categoryColumn ? j : j + 1] = Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
  }
}

function unscale(scaler: ScalerModel, column: number, y: number): number {
  switch (scaler.kind) {
    case 'none':
      return y
    case 'log':
      return signedExp(y)
    case 'standard':
      return y * scaler.scale[column]! + scaler.mean[column]!
    case 'log-standard':
      return signedExp(y * scaler.scale[column]! + scaler.mean[column]!)
    case 'quantile':
      return numberAt(scaler, column, y)
  }
}

/** sign(y)·(exp|y| − 1). */
function signedExp(y: number): number {
  const size = exp(Math.abs(y)) - 1
  return y < 0 ? -size : size
}

function numberAt({ starts, knots, positions }: QuantileScaler, column: number, y: number): number {
  const first = starts[column]!
  const last = starts[column + 1]! - 1
  const range = last > first ? knots[last]! - knots[first]! : 1
  if (!(y > positions[first]!)) return knots[first]! + (y - positions[first]!) * range
  if (!(y < positions[last]!)) return knots[last]! + (y - positions[last]!) * range
  let low = first
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (positions[middle]! <= y) low = middle
    else high = middle
  }
  const share = (y - positions[low]!) / (positions[high]! - positions[low]!)
  return knots[low]! + (knots[high]! - knots[low]!) * share
}
