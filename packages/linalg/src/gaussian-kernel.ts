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
import { squaredDistances } from './squared-distances.js'

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

/** out[outStart + j] = exp(factor · ‖x − y_j‖²) for j < count; see `squaredDistances` for the layout. */
export function gaussianKernelRow(
  x: Float64Array,
  xStart: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  factor: number,
  out: Float64Array,
  outStart: number,
): void {
  squaredDistances(x, xStart, y, yStart, count, dimension, out, outStart)
  const end = outStart + count
  for (let j = outStart; j < end; j++) out[j] = out[j]! * factor
  expInPlace(out, outStart, count)
}

/** The kernel between all rows of X and all rows of Y: X.rows × Y.rows. */
export function gaussianKernel(x: Matrix, y: Matrix, bandwidth: number): Matrix {
  if (x.cols !== y.cols) {
    throw new ArgumentError(`y: expected ${x.cols} columns as in x, found ${y.cols}`, 'y')
  }
  const factor = kernelExponentFactor(bandwidth)
  const out = createMatrix(x.rows, y.rows)
  for (let i = 0; i < x.rows; i++) {
    gaussianKernelRow(x.data, i * x.cols, y.data, 0, y.rows, x.cols, factor, out.data, i * y.rows)
  }
  return out
}
