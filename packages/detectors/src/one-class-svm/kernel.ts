/**
 * Kernel values between blocks of rows, for either kernel: the only place where the solver and the scorer
 * meet row vectors.
 *
 * Each value depends on its two rows alone and has the same bits wherever they stand and whichever comes
 * first (linalg's kernels promise that), so a cached row, its mirror image and a recomputed one agree.
 */
import { ArgumentError, DataError, exp, type Matrix } from '@oddflow/core'
import {
  DISTANCE_TILE_ROWS,
  gaussianKernelRows,
  kernelExponentFactor,
  matrixTimesVector,
  squaredDistances,
  squaredDistancesOfFour,
} from '@oddflow/linalg'
import type { SvmKernel, SvmPrecision } from './model.js'

/** A kernel with its constant worked out. */
export type PreparedKernel = RbfKernel | LinearKernel

interface RbfKernel {
  readonly kind: 'rbf'
  /** −1/h². */
  readonly factor: number
  /** Whether values are rounded to float32. */
  readonly rounded: boolean
}

interface LinearKernel {
  readonly kind: 'linear'
  readonly rounded: boolean
}

/** Rows that `svmKernelRows` takes best at a time. */
export const KERNEL_TILE_ROWS = DISTANCE_TILE_ROWS

/** Columns of a block of kernel values that is still in the processor's cache when it is used. */
export const KERNEL_BLOCK_COLUMNS = 512

const LARGEST_FLOAT32 = 3.4028234663852886e38

/** Throws ArgumentError (field `kernel` or `bandwidth`). */
export function prepareKernel(kernel: SvmKernel, precision: SvmPrecision): PreparedKernel {
  const rounded = precision === 'float32'
  if (kernel?.kind === 'rbf') return { kind: 'rbf', factor: kernelExponentFactor(kernel.bandwidth), rounded }
  if (kernel?.kind === 'linear') return { kind: 'linear', rounded }
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
  const length = xCount * count
  if (kernel.kind === 'linear') {
    const block = yStart === 0 ? y : y.subarray(yStart)
    for (let i = 0; i < xCount; i++) {
      matrixTimesVector(block, count, dimension, x, xStart + i * dimension, out, i * count)
    }
    if (kernel.rounded) for (let j = 0; j < length; j++) out[j] = Math.fround(out[j]!)
  } else if (kernel.rounded) {
    distanceRows(x, xStart, xCount, y, yStart, count, dimension, out)
    const { factor } = kernel
    for (let j = 0; j < length; j++) out[j] = Math.fround(exp(out[j]! * factor))
  } else {
    gaussianKernelRows(x, xStart, xCount, y, yStart, count, dimension, kernel.factor, out)
  }
}

/** Squared distances, laid out as in `svmKernelRows`. */
function distanceRows(
  x: Float64Array,
  xStart: number,
  xCount: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  out: Float64Array,
): void {
  let i = 0
  for (; i + KERNEL_TILE_ROWS <= xCount; i += KERNEL_TILE_ROWS) {
    squaredDistancesOfFour(x, xStart + i * dimension, y, yStart, count, dimension, out, i * count, count)
  }
  for (; i < xCount; i++) {
    squaredDistances(x, xStart + i * dimension, y, yStart, count, dimension, out, i * count)
  }
}

/**
 * K(x_i, x_i) for all rows. Throws DataError when the rows are so large that a linear kernel, or a sum of n
 * of its values, would leave the range of numbers.
 */
export function kernelDiagonal(kernel: PreparedKernel, rows: Matrix): Float64Array {
  const diagonal = new Float64Array(rows.rows).fill(1)
  if (kernel.kind === 'rbf') return diagonal
  const limit = (kernel.rounded ? LARGEST_FLOAT32 : Number.MAX_VALUE) / (8 * rows.rows)
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
