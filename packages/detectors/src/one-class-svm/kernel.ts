/**
 * Kernel values between blocks of rows, for either kernel: the only place where the solver and the scorer
 * meet row vectors.
 *
 * Each value depends on its two rows alone and has the same bits wherever they stand and whichever comes
 * first (linalg's kernels promise that), so a cached row, its mirror image and a recomputed one agree.
 */
import { DataError, exp, type Matrix } from '@oddflow/core'
import {
  createDistanceColumns,
  DISTANCE_TILE_ROWS,
  type DistanceColumns,
  type DistanceColumnsShape,
  gaussianKernelRows,
  kernelExponentFactor,
  LARGEST_FLOAT32,
  matrixTimesVector,
  squaredDistancesOfRows,
} from '@oddflow/linalg'
import type { SvmKernel, SvmPrecision } from './fit.js'

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

/** Throws ArgumentError (field `bandwidth`). */
export function prepareKernel(kernel: SvmKernel, precision: SvmPrecision): PreparedKernel {
  const rounded = precision === 'float32'
  return kernel.kind === 'linear'
    ? { kind: 'linear', rounded }
    : { kind: 'rbf', factor: kernelExponentFactor(kernel.bandwidth), rounded }
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
    squaredDistancesOfRows(x, xStart, xCount, y, yStart, count, dimension, out, 0, count)
    const { factor } = kernel
    for (let j = 0; j < length; j++) out[j] = Math.fround(exp(out[j]! * factor))
  } else {
    gaussianKernelRows(x, xStart, xCount, y, yStart, count, dimension, kernel.factor, out)
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

/**
 * Kernel values of a few rows at a time against the rows that a solver works on, the rows of `vectors`. A linear kernel
 * has no SIMD kernels.
 */
export function createKernelColumns(
  kernel: PreparedKernel,
  vectors: Float64Array,
  shape: DistanceColumnsShape,
  simd = true,
): DistanceColumns {
  const { dimension } = shape
  return createDistanceColumns(vectors, shape, {
    simd: simd && kernel.kind === 'rbf',
    typed(rows, start, count, vectorsStart, width, out) {
      svmKernelRows(kernel, rows, start, count, vectors, vectorsStart, width, dimension, out)
    },
    finish(run, address, length) {
      if (kernel.kind === 'rbf') run.expScaledF64(address, length, kernel.factor)
      if (kernel.rounded) run.roundToF32(address, length)
    },
  })
}
