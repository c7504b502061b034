/**
 * Scoring: f(x) = Σ α_i K(x_i, x) − ρ, higher = more normal, 0 the boundary.
 *
 * RBF: a few rows at a time; a row's score has the same bits in any batch and at any place, and
 * nothing is allocated. Linear: Σ α_i x_i is one vector, summed once for the workspace, and a score is one product.
 */
import type { Matrix } from '@oddflow/core'
import {
  exponentFactor,
  gaussianKernelRows,
  gaussianKernelRowsFloat32,
  MemoryLayout,
  matrixTimesVector,
  PANEL_LANES_F32,
  PANEL_LANES_F64,
  type Precision,
  packPanels,
  packRows,
  packRowsFloat32,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
  toFloat32Into,
} from '@oddflow/linalg'
import { addScaled } from './active-set.js'
import type { OneClassSvmModel } from './fit.js'

/**
 * KernelSums: Σ α_i K(x_i, x) for a few rows x at a time, in four partial sums (support vectors i ≡ 0, 1, 2, 3 mod 4),
 * over blocks of support vectors that stay in the processor's cache. SIMD lanes are the four partial sums, so the bits
 * are equal.
 */

/** Rows that `KernelSums` takes at most; fewer cost more each. */
const KERNEL_SUM_ROWS = 4

/** Support vectors of a block; a multiple of the lanes of either precision. */
const BLOCK_VECTORS = 512

const PARTIAL_SUMS = 4

interface KernelSumsOptions {
  readonly bandwidth: number
  readonly precision: Precision
  readonly simd: boolean
}

/** out[outStart + r] = Σ_i weights[i] · K(vectors_i, x_r) for `count` rows x_r from element `start` of `rows` on. */
type KernelSums = (
  rows: Float64Array,
  start: number,
  count: number,
  out: Float64Array,
  outStart: number,
) => void

/** Throws ArgumentError when the bandwidth is out of the precision's range. */
function createKernelSums(vectors: Matrix, weights: Float64Array, options: KernelSumsOptions): KernelSums {
  const kernels = options.simd ? simdKernels() : null
  return kernels === null
    ? createTypedSums(vectors, weights, options)
    : createSimdSums(kernels, vectors, weights, options)
}

function createSimdSums(
  kernels: SimdKernels,
  vectors: Matrix,
  weights: Float64Array,
  options: KernelSumsOptions,
): KernelSums {
  const { run } = kernels
  const { rows: n, cols, data } = vectors
  const isSingle = options.precision === 'f32'
  const factor = exponentFactor(options.bandwidth, options.precision)
  const lanes = isSingle ? PANEL_LANES_F32 : PANEL_LANES_F64
  const panels = panelCount(n, lanes)
  const padded = panels * lanes
  const block = Math.min(BLOCK_VECTORS, padded)
  const numberBytes = isSingle ? 4 : 8

  const layout = new MemoryLayout()
  const xAt = isSingle ? layout.float32(KERNEL_SUM_ROWS * cols) : layout.float64(KERNEL_SUM_ROWS * cols)
  const panelsAt = isSingle ? layout.float32(padded * cols) : layout.float64(padded * cols)
  const weightsAt = layout.float64(padded)
  const distancesAt = isSingle ? layout.float32(KERNEL_SUM_ROWS * block) : 0
  const kernelAt = layout.float64(KERNEL_SUM_ROWS * block)
  const sumsAt = layout.float64(PARTIAL_SUMS * KERNEL_SUM_ROWS)
  const program: SimdProgram = {
    bytes: layout.bytes,
    load({ f64, f32 }) {
      packPanels(data, 0, n, cols, lanes, isSingle ? f32 : f64, panelsAt / numberBytes)
      f64.set(weights, weightsAt / 8)
      f64.fill(0, weightsAt / 8 + n, weightsAt / 8 + padded)
    },
  }
  let fallback: KernelSums | undefined

  return (rows, start, count, out, outStart) => {
    const memory = kernels.enter(program)
    if (memory === null) {
      fallback ??= createTypedSums(vectors, weights, options)
      fallback(rows, start, count, out, outStart)
      return
    }
    const { f64, f32 } = memory
    if (isSingle) packRowsFloat32(rows, start, count, cols, f32, xAt / 4)
    else packRows(rows, start, count, cols, f64, xAt / 8)
    const sums = sumsAt / 8
    for (let i = 0; i < PARTIAL_SUMS * count; i++) f64[sums + i] = 0
    for (let first = 0; first < padded; first += BLOCK_VECTORS) {
      const width = Math.min(BLOCK_VECTORS, padded - first)
      const y = panelsAt + first * cols * numberBytes
      if (isSingle) {
        run.squaredDistancesF32(xAt, count, y, width / lanes, cols, distancesAt, width)
        run.expScaledF32(distancesAt, count * width, factor, kernelAt)
      } else {
        run.squaredDistancesF64(xAt, count, y, width / lanes, cols, kernelAt, width)
        run.expScaledF64(kernelAt, count * width, factor)
      }
      run.weightedSumsF64(kernelAt, count, width, weightsAt + 8 * first, width, sumsAt)
    }
    for (let r = 0; r < count; r++) out[outStart + r] = total(f64, sums + PARTIAL_SUMS * r)
  }
}

function createTypedSums(
  { rows: n, cols, data }: Matrix,
  weights: Float64Array,
  { bandwidth, precision }: KernelSumsOptions,
): KernelSums {
  const factor = exponentFactor(bandwidth, precision)
  const block = new Float64Array(KERNEL_SUM_ROWS * Math.min(BLOCK_VECTORS, n))
  const sums = new Float64Array(PARTIAL_SUMS * KERNEL_SUM_ROWS)
  const single =
    precision === 'f64'
      ? null
      : {
          vectors: Float32Array.from(data),
          rows: new Float32Array(KERNEL_SUM_ROWS * cols),
          distances: new Float32Array(Math.min(BLOCK_VECTORS, n)),
        }
  return (rows, start, count, out, outStart) => {
    if (single !== null) toFloat32Into(rows, start, count * cols, single.rows, 0)
    sums.fill(0)
    for (let first = 0; first < n; first += BLOCK_VECTORS) {
      const width = Math.min(BLOCK_VECTORS, n - first)
      if (single === null) {
        gaussianKernelRows(rows, start, count, data, first * cols, width, cols, factor, block)
      } else {
        const { vectors, rows: x, distances } = single
        gaussianKernelRowsFloat32(x, count, vectors, first, width, cols, factor, distances, block)
      }
      for (let r = 0; r < count; r++) {
        addWeighted(block, r * width, weights, first, width, sums, PARTIAL_SUMS * r)
      }
    }
    for (let r = 0; r < count; r++) out[outStart + r] = total(sums, PARTIAL_SUMS * r)
  }
}

function total(sums: Float64Array, start: number): number {
  return sums[start]! + sums[start + 1]! + (sums[start + 2]! + sums[start + 3]!)
}

/** Adds values[j] · weights[j], j < length, to the four partial sums by j mod 4. */
function addWeighted(
  values: Float64Array,
  valuesStart: number,
  weights: Float64Array,
  weightsStart: number,
  length: number,
  sums: Float64Array,
  sumsStart: number,
): void {
  let s0 = sums[sumsStart]!
  let s1 = sums[sumsStart + 1]!
  let s2 = sums[sumsStart + 2]!
  let s3 = sums[sumsStart + 3]!
  let j = 0
  for (; j + 4 <= length; j += 4) {
    const v = valuesStart + j
    const w = weightsStart + j
    s0 += values[v]! * weights[w]!
    s1 += values[v + 1]! * weights[w + 1]!
    s2 += values[v + 2]! * weights[w + 2]!
    s3 += values[v + 3]! * weights[w + 3]!
  }
  if (j < length) s0 += values[valuesStart + j]! * weights[weightsStart + j]!
  if (j + 1 < length) s1 += values[valuesStart + j + 1]! * weights[weightsStart + j + 1]!
  if (j + 2 < length) s2 += values[valuesStart + j + 2]! * weights[weightsStart + j + 2]!
  sums[sumsStart] = s0
  sums[sumsStart + 1] = s1
  sums[sumsStart + 2] = s2
  sums[sumsStart + 3] = s3
}

/** Scratch and constants for one model and one caller at a time. */
export interface OneClassSvmWorkspace {
  /** Only for the RBF kernel. */
  readonly kernelSums: KernelSums | null
  /** Σ α_i x_i, length D; only for the linear kernel. */
  readonly normal: Float64Array
}

interface OneClassSvmWorkspaceOptions {
  /** Of RBF kernel values; default `f64`. A model for `f32` has support vectors that are float32 numbers. */
  readonly precision?: Precision
  /** False: typed arrays even where there is WebAssembly SIMD; scores have the same bits. Default true. */
  readonly simd?: boolean
}

/** The model must have come from a fit or have been checked. */
export function createOneClassSvmWorkspace(
  model: OneClassSvmModel,
  { precision = 'f64', simd = true }: OneClassSvmWorkspaceOptions = {},
): OneClassSvmWorkspace {
  const { supportVectors, dualCoefficients, kernel } = model
  const { rows, cols, data } = supportVectors
  const linear = kernel.kind === 'linear'
  const normal = new Float64Array(linear ? cols : 0)
  if (linear) for (let i = 0; i < rows; i++) addScaled(dualCoefficients[i]!, data, i * cols, cols, normal, 0)
  const kernelSums = linear
    ? null
    : createKernelSums(supportVectors, dualCoefficients, { bandwidth: kernel.bandwidth, precision, simd })
  return { kernelSums, normal }
}

/** out[i] = f(row i), i < rows.rows; returns `out`. Rows are finite and as wide as the model's. */
export function scoreOneClassSvm(
  model: OneClassSvmModel,
  rows: Matrix,
  out: Float64Array,
  { kernelSums, normal }: OneClassSvmWorkspace,
): Float64Array {
  const { cols } = rows
  if (kernelSums === null) {
    matrixTimesVector(rows.data, rows.rows, cols, normal, 0, out, 0)
  } else {
    for (let i = 0; i < rows.rows; i += KERNEL_SUM_ROWS) {
      kernelSums(rows.data, i * cols, Math.min(KERNEL_SUM_ROWS, rows.rows - i), out, i)
    }
  }
  for (let i = 0; i < rows.rows; i++) out[i]! -= model.offset
  return out
}
