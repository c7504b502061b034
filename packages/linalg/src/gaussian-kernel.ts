/**
 * The Gaussian kernel K(x, y) = exp(−‖x − y‖² / h²).
 *
 * That is the form of the paper's experimental section; with scikit-learn's or libsvm's gamma it is
 * gamma = 1/h², and whoever writes exp(−‖x − y‖² / 2σ²) has h = σ·√2.
 *
 * Distances in one pass, the scaling by −1/h² and exp in passes of their own: measured faster than one merged
 * loop, and each value depends on its two rows alone, so it has the same bits at any place in any batch.
 */
import { ArgumentError, createMatrix, expInPlace, type Matrix } from '@oddflow/core'
import { DISTANCE_TILE_ROWS, squaredDistances, squaredDistancesOfFour } from './squared-distances.js'

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
  let i = 0
  for (; i + DISTANCE_TILE_ROWS <= xCount; i += DISTANCE_TILE_ROWS) {
    squaredDistancesOfFour(x, xStart + i * dimension, y, yStart, count, dimension, out, i * count, count)
  }
  for (; i < xCount; i++) {
    squaredDistances(x, xStart + i * dimension, y, yStart, count, dimension, out, i * count)
  }
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
