/**
 * Kernel values between blocks of rows, for either kernel: the only place where the solver and the scorer
 * meet row vectors.
 *
 * Each value depends on its two rows alone and has the same bits wherever they stand and whichever comes
 * first (linalg's kernels promise that), so a cached row, its mirror image and a recomputed one agree.
 */
import { DataError, exp, type Matrix } from '@oddflow/core'
import {
  DISTANCE_TILE_ROWS,
  gaussianKernelRows,
  kernelExponentFactor,
  LARGEST_FLOAT32,
  MemoryLayout,
  matrixTimesVector,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
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
 * KernelColumns: kernel values of a few rows at a time against the rows that a solver works on.
 *
 * Those stay the same through thousands of calls, so on SIMD kernels they are laid out once and the values are left
 * where the kernels put them: `values` is a view that is good until the next call of anything that uses kernels.
 * Without SIMD, and for a linear kernel, `values` is a block of typed arrays; the bits are the same.
 */

export interface KernelColumns {
  /** K(x_r, column first + c) of the last call at offset + r · stride + c. */
  values: Float64Array
  offset: number
  stride: number
  /**
   * For `count` rows from element `start` of `rows` on, and `width` columns from `first` on, a multiple of 4; no
   * more than it was made for.
   */
  compute(rows: Float64Array, start: number, count: number, first: number, width: number): void
}

interface KernelColumnsShape {
  /** Columns in all, and numbers in each. */
  readonly columns: number
  readonly dimension: number
  /** Most rows and columns of one call. */
  readonly rows: number
  readonly width: number
}

/** Columns are the rows of `vectors`, read now and, without SIMD, at every call. */
export function createKernelColumns(
  kernel: PreparedKernel,
  vectors: Float64Array,
  shape: KernelColumnsShape,
  simd = true,
): KernelColumns {
  const kernels = simd && kernel.kind === 'rbf' ? simdKernels() : null
  return kernels === null || kernel.kind === 'linear'
    ? createTypedColumns(kernel, vectors, shape)
    : createSimdColumns(kernels, kernel, vectors, shape)
}

function createTypedColumns(
  kernel: PreparedKernel,
  vectors: Float64Array,
  { dimension, rows: most, width: widest }: KernelColumnsShape,
): KernelColumns {
  const block = new Float64Array(most * widest)
  return {
    values: block,
    offset: 0,
    stride: 0,
    compute(rows, start, count, first, width) {
      this.values = block
      this.offset = 0
      this.stride = width
      svmKernelRows(kernel, rows, start, count, vectors, first * dimension, width, dimension, block)
    },
  }
}

function createSimdColumns(
  kernels: SimdKernels,
  kernel: PreparedKernel & { readonly kind: 'rbf' },
  vectors: Float64Array,
  shape: KernelColumnsShape,
): KernelColumns {
  const { run } = kernels
  const { columns, dimension, rows: most, width: widest } = shape
  const layout = new MemoryLayout()
  const xAt = layout.float64(most * dimension)
  const valuesAt = layout.float64(most * PANEL_LANES_F64 * panelCount(widest, PANEL_LANES_F64))
  const panelsAt = layout.float64(panelCount(columns, PANEL_LANES_F64) * PANEL_LANES_F64 * dimension)
  const program: SimdProgram = {
    bytes: layout.bytes,
    load({ f64 }) {
      packPanels(vectors, 0, columns, dimension, PANEL_LANES_F64, f64, panelsAt / 8)
    },
  }
  let fallback: KernelColumns | undefined
  return {
    values: new Float64Array(0),
    offset: valuesAt / 8,
    stride: 0,
    compute(rows, start, count, first, width) {
      const memory = kernels.enter(program)
      if (memory === null) {
        fallback ??= createTypedColumns(kernel, vectors, shape)
        fallback.compute(rows, start, count, first, width)
        this.values = fallback.values
        this.offset = 0
        this.stride = width
        return
      }
      const { f64 } = memory
      packRows(rows, start, count, dimension, f64, xAt / 8)
      const panels = panelCount(width, PANEL_LANES_F64)
      const stride = panels * PANEL_LANES_F64
      const y = panelsAt + 8 * first * dimension
      run.squaredDistancesF64(xAt, count, y, panels, dimension, valuesAt, stride)
      run.expScaledF64(valuesAt, count * stride, kernel.factor)
      if (kernel.rounded) run.roundToF32(valuesAt, count * stride)
      this.values = f64
      this.offset = valuesAt / 8
      this.stride = stride
    },
  }
}
