/**
 * Kernel rows in float32: the typed-array path of precision f32, for machines without SIMD.
 *
 * As `gaussianKernelRows`, every operation rounded to float32: Σ_t (x_t − y_t)² with t ascending, then
 * `expScaledFloat32`. Kernel values are written as float64, in which they are summed. Math.fround makes this
 * slower than float64; it is here for the bits, not for the speed.
 */
import { expScaledFloat32 } from './kernel-exp-float32.js'

/**
 * out[i · count + j] = exp(factor · ‖x_i − y_j‖²) for the first xCount rows of x and `count` rows of y from row
 * yFirst on, both `dimension` wide; `distances` is scratch for `count` numbers, `factor` a float32 number.
 */
export function gaussianKernelRowsFloat32(
  x: Float32Array,
  xCount: number,
  y: Float32Array,
  yFirst: number,
  count: number,
  dimension: number,
  factor: number,
  distances: Float32Array,
  out: Float64Array,
): void {
  for (let i = 0; i < xCount; i++) {
    squaredDistancesFloat32(x, i * dimension, y, yFirst * dimension, count, dimension, distances)
    const start = i * count
    for (let j = 0; j < count; j++) out[start + j] = expScaledFloat32(distances[j]!, factor)
  }
}

function squaredDistancesFloat32(
  x: Float32Array,
  xStart: number,
  y: Float32Array,
  yStart: number,
  count: number,
  dimension: number,
  out: Float32Array,
): void {
  for (let j = 0, at = yStart; j < count; j++) {
    let sum = 0
    for (let t = 0; t < dimension; t++) {
      const difference = Math.fround(x[xStart + t]! - y[at++]!)
      sum = Math.fround(sum + Math.fround(difference * difference))
    }
    out[j] = sum
  }
}
