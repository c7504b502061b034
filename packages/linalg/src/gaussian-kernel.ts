/**
 * The Gaussian kernel K(x, y) = exp(−‖x − y‖² / h²).
 *
 * That is the form of the paper's experimental section; with scikit-learn's or libsvm's gamma it is
 * gamma = 1/h², and for exp(−‖x − y‖² / 2σ²) h = σ·√2.
 *
 * Distances in one pass, the scaling by −1/h² and exp in passes of their own: measured faster than one merged
 * loop, and each value depends on its two rows alone, so it has the same bits at any place in any batch.
 */
import { ArgumentError, createMatrix, expInPlace, type Matrix } from '@oddflow/core'
import { squaredDistancesOfRows } from './squared-distances.js'

/**
 * exp(factor · v) in float32 for v ≥ 0 and factor ≤ 0: x = k·ln 2 + r, a polynomial of degree 7 in r (coefficients of
 * Moshier's Cephes library, expf.c), scaled by 2^k. Every operation is rounded to float32, so SIMD lanes and
 * Math.fround agree. Relative error below 2^-22.9 (test/kernel-exp-float32.test.ts); exponents below −87 give 0.
 */

const INVERSE_LN2 = Math.fround(Math.LOG2E)
const LN2_HIGH = Math.fround(0.693359375)
const LN2_LOW = Math.fround(-0.00021219444)
const P5 = Math.fround(0.00019875691)
const P4 = Math.fround(0.0013981999)
const P3 = Math.fround(0.0083334519)
const P2 = Math.fround(0.041665796)
const P1 = Math.fround(0.16666665)
const LOWEST = -87

/** 2^k for k = −126 … 0, at index k + 126. */
const POWERS = new Float64Array(127)
for (let k = 0, power = 1; k >= -126; k--, power /= 2) POWERS[k + 126] = power

/** `v` and `factor` are float32 numbers. */
export function expScaledFloat32(v: number, factor: number): number {
  const x = Math.fround(v * factor)
  if (!(x >= LOWEST)) return 0
  const k = Math.floor(Math.fround(Math.fround(x * INVERSE_LN2) + 0.5))
  let r = Math.fround(x - Math.fround(k * LN2_HIGH))
  r = Math.fround(r - Math.fround(k * LN2_LOW))
  let p = Math.fround(Math.fround(P5 * r) + P4)
  p = Math.fround(Math.fround(p * r) + P3)
  p = Math.fround(Math.fround(p * r) + P2)
  p = Math.fround(Math.fround(p * r) + P1)
  p = Math.fround(Math.fround(p * r) + 0.5)
  p = Math.fround(Math.fround(Math.fround(p * Math.fround(r * r)) + r) + 1)
  return p * POWERS[k + 126]!
}

/**
 * Kernel rows of precision f32 for machines without SIMD, every operation rounded to float32. Math.fround makes this
 * slower than float64; it is here for the bits, not for the speed.
 */

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

/**
 * −1/h², the factor that squared distances are multiplied by. Throws ArgumentError (field `bandwidth`) unless
 * h is positive and neither h² nor 1/h² leaves the range of numbers.
 */
export function kernelExponentFactor(bandwidth: number): number {
  const square = bandwidth * bandwidth
  const inverse = 1 / square
  if (!(bandwidth > 0 && square > 0 && inverse > 0 && Number.isFinite(inverse))) {
    throw new ArgumentError(
      `bandwidth: expected a positive number whose square is in range, found ${bandwidth}`,
      'bandwidth',
    )
  }
  return -inverse
}

/** values[i] = weights[j] · ‖x_i − y_j‖² with y_j the row of Y nearest to x_i, the first of several. */
export interface NearestDistances {
  /** One for each row of Y, positive. */
  readonly weights: Float64Array
  /** One for each row of X or more; written. */
  readonly values: Float64Array
}

/**
 * out[i · count + j] = exp(factor · ‖x_i − y_j‖²) for i < xCount, j < count, the rows x_i from xStart and y_j
 * from yStart on; see `squared-distances.ts` for the layout. Four rows of X at a time, the rest one by one:
 * the bits are the same either way. The distances are there for a moment, so `nearest` can have the
 * smallest of them, which is exact where the kernel itself is rounded to 0.
 */
export function gaussianKernelRows(
  x: Float64Array,
  xStart: number,
  xCount: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  factor: number,
  out: Float64Array,
  nearest?: NearestDistances,
): void {
  squaredDistancesOfRows(x, xStart, xCount, y, yStart, count, dimension, out, 0, count)
  if (nearest !== undefined) nearestOfRows(out, xCount, count, nearest)
  const length = xCount * count
  for (let j = 0; j < length; j++) out[j] = out[j]! * factor
  expInPlace(out, 0, length)
}

/** Fills `nearest` from `rows` × `count` squared distances. */
export function nearestOfRows(
  squares: Float64Array,
  rows: number,
  count: number,
  { weights, values }: NearestDistances,
): void {
  for (let r = 0; r < rows; r++) {
    const start = r * count
    let smallest = squares[start]!
    let found = 0
    for (let j = 1; j < count; j++) {
      const square = squares[start + j]!
      if (square < smallest) {
        smallest = square
        found = j
      }
    }
    values[r] = weights[found]! * smallest
  }
}

/** The kernel between all rows of X and all rows of Y: X.rows × Y.rows. */
export function gaussianKernel(x: Matrix, y: Matrix, bandwidth: number): Matrix {
  if (x.cols !== y.cols) {
    throw new ArgumentError(`y: expected ${x.cols} columns as in x, found ${y.cols}`, 'y')
  }
  const factor = kernelExponentFactor(bandwidth)
  const out = createMatrix(x.rows, y.rows)
  gaussianKernelRows(x.data, 0, x.rows, y.data, 0, y.rows, x.cols, factor, out.data)
  return out
}

/**
 * Precision: kernel values in float64, or in float32 at about twice the speed; sums are float64 either way. In float32
 * both rows are rounded first, so a distance is right to about 1e-7 of the larger row's length.
 */

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
