/**
 * Precision: how kernel values are computed: distances and exponentials in float64, or in float32 at about twice
 * the speed. What is summed out of kernel values is summed in float64 either way.
 *
 * In float32 both rows are rounded first, so a distance is right to about 1e-7 of the larger row's length, not of
 * itself. Each precision has one order of operations, so a value has the same bits on every path and machine.
 */
import { ArgumentError } from '@oddflow/core'
import { kernelExponentFactor } from './gaussian-kernel.js'

/** The type of kernel values. */
export type Precision = 'f64' | 'f32'

/** The largest float32. */
export const LARGEST_FLOAT32 = 3.4028234663852886e38

const LEAST_NORMAL_FLOAT32 = 1.1754943508222875e-38

/** The nearest float32; larger values become the largest float32. */
export function toFloat32(value: number): number {
  return Math.fround(Math.max(-LARGEST_FLOAT32, Math.min(LARGEST_FLOAT32, value)))
}

/** out[outStart + i] = toFloat32(values[start + i]), i < length. */
export function toFloat32Into(
  values: Float64Array,
  start: number,
  length: number,
  out: Float32Array,
  outStart: number,
): void {
  for (let i = 0; i < length; i++) {
    const value = values[start + i]!
    out[outStart + i] = Math.abs(value) <= LARGEST_FLOAT32 ? value : toFloat32(value)
  }
}

/**
 * −1/h² in that precision. Throws ArgumentError (field `bandwidth`) unless h is positive and h² and 1/h² are in
 * the precision's range of normal numbers.
 */
export function exponentFactor(bandwidth: number, precision: Precision): number {
  const factor = kernelExponentFactor(bandwidth)
  if (precision === 'f64') return factor
  const rounded = Math.fround(factor)
  if (!(-rounded >= LEAST_NORMAL_FLOAT32 && -rounded <= LARGEST_FLOAT32)) {
    throw new ArgumentError(
      `bandwidth: expected one whose square is in float32's range, found ${bandwidth}; take precision f64`,
      'bandwidth',
    )
  }
  return rounded
}
