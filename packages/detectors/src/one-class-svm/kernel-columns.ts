/**
 * KernelColumns: kernel values of a few rows at a time against the rows that a solver works on.
 *
 * Those stay the same through thousands of calls, so on SIMD kernels they are laid out once and the values are left
 * where the kernels put them: `values` is a view that is good until the next call of anything that uses kernels.
 * Without SIMD, and for a linear kernel, `values` is a block of typed arrays; the bits are the same.
 */
import {
  MemoryLayout,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
} from '@oddflow/linalg'
import { type PreparedKernel, svmKernelRows } from './kernel.js'

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

export interface KernelColumnsShape {
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
