/**
 * Kernel values between blocks of rows, for either kernel: the only place where the solver and the scorer
 * meet row vectors.
 *
 * Each value depends on its two rows alone and has the same bits wherever they stand and whichever comes
 * first (linalg's kernels promise that), so a cached row, its mirror image and a recomputed one agree.
 */
import { ArgumentError, DataError, type Matrix } from '@oddflow/core'
import { gaussianKernelRows, kernelExponentFactor, matrixTimesVector } from '@oddflow/linalg'
import type { SvmKernel } from './model.js'

/** A kernel with its constant worked out: −1/h² for `rbf`. */
export type PreparedKernel = { readonly kind: 'rbf'; readonly factor: number } | { readonly kind: 'linear' }

/** Rows that `svmKernelRows` takes best at a time. */
export const KERNEL_TILE_ROWS = 4

/** Columns of a block of kernel values that is still in the processor's cache when it is used. */
export const KERNEL_BLOCK_COLUMNS = 512

/** Throws ArgumentError (field `kernel` or `bandwidth`). */
export function prepareKernel(kernel: SvmKernel): PreparedKernel {
  if (kernel?.kind === 'rbf') return { kind: 'rbf', factor: kernelExponentFactor(kernel.bandwidth) }
  if (kernel?.kind === 'linear') return { kind: 'linear' }
  throw new ArgumentError('kernel: expected { kind: "rbf", bandwidth } or { kind: "linear" }', 'kernel')
}

/**
 * out[i · count + j] = K(x_i, y_j) for i < xCount, j < count; x_i the rows from xStart on, y_j those from
 * yStart on, each `dimension` long.
 */
export function svmKernelRows(
  kernel: PreparedKernel,
  x: Float64Array,
  xStart: number,
  xCount: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  out: Float64Array,
): void {
  if (kernel.kind === 'rbf') {
    gaussianKernelRows(x, xStart, xCount, y, yStart, count, dimension, kernel.factor, out)
    return
  }
  const block = yStart === 0 ? y : y.subarray(yStart)
  for (let i = 0; i < xCount; i++) {
    matrixTimesVector(block, count, dimension, x, xStart + i * dimension, out, i * count)
  }
}

/**
 * K(x_i, x_i) for all rows. Throws DataError when the rows are so large that a linear kernel, or a sum of n
 * of its values, would leave the range of numbers.
 */
export function kernelDiagonal(kernel: PreparedKernel, rows: Matrix): Float64Array {
  const diagonal = new Float64Array(rows.rows).fill(1)
  if (kernel.kind === 'rbf') return diagonal
  const limit = Number.MAX_VALUE / (8 * rows.rows)
  for (let i = 0; i < rows.rows; i++) {
    let sum = 0
    for (let at = i * rows.cols; at < (i + 1) * rows.cols; at++) sum += rows.data[at]! * rows.data[at]!
    if (!(sum <= limit)) {
      throw new DataError(
        `rows: row ${i} is too large for a linear kernel: its squared length is ${sum}, with ${rows.rows} rows at most ${limit} is in range`,
        'rows',
      )
    }
    diagonal[i] = sum
  }
  return diagonal
}
