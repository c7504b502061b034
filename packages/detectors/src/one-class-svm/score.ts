/**
 * Scoring: f(x) = Σ α_i K(x_i, x) − ρ, higher = more normal, 0 the boundary.
 *
 * RBF: blocks of 4 rows × 512 support vectors, the kernel's passes over each, then the weighted sums. A sum
 * has four partial sums (support vectors i ≡ 0, 1, 2, 3 mod 4) that are added at the end, so that additions
 * need not wait for each other; a row's score has the same bits in any batch and at any place, and nothing
 * is allocated. Linear: Σ α_i x_i is one vector, summed once for the workspace, and a score is one product.
 */
import { ArgumentError, asMatrix, checkFinite, type Matrix, type MatrixLike } from '@oddflow/core'
import { matrixTimesVector } from '@oddflow/linalg'
import { addScaled } from './initial-gradient.js'
import { KERNEL_TILE_ROWS, type PreparedKernel, prepareKernel, svmKernelRows } from './kernel.js'
import type { OneClassSvmModel } from './model.js'

/** Support vectors of a block; a multiple of 4. */
const BLOCK_VECTORS = 512

/** Scratch and constants for one model and one caller at a time. */
export interface OneClassSvmWorkspace {
  readonly model: OneClassSvmModel
  readonly kernel: PreparedKernel
  /** A block of kernel values. */
  readonly block: Float64Array
  /** Partial sums, 4 for each row of a block. */
  readonly sums: Float64Array
  /** Σ α_i x_i, length D; only for the linear kernel. */
  readonly normal: Float64Array
}

/** The model must have come from a fit or have been checked. */
export function createOneClassSvmWorkspace(model: OneClassSvmModel): OneClassSvmWorkspace {
  const { supportVectors, dualCoefficients } = model
  const { rows, cols, data } = supportVectors
  const linear = model.kernel.kind === 'linear'
  const normal = new Float64Array(linear ? cols : 0)
  if (linear) for (let i = 0; i < rows; i++) addScaled(dualCoefficients[i]!, data, i * cols, cols, normal, 0)
  return {
    model,
    kernel: prepareKernel(model.kernel, 'float64'),
    block: new Float64Array(linear ? 0 : KERNEL_TILE_ROWS * Math.min(BLOCK_VECTORS, rows)),
    sums: new Float64Array(4 * KERNEL_TILE_ROWS),
    normal,
  }
}

/**
 * out[i] = f(row i), i < rows.rows; returns `out`. Throws ArgumentError when a row is not finite or not as
 * wide as the model's, when `out` is too short, or when the workspace is another model's.
 */
export function scoreOneClassSvm(
  model: OneClassSvmModel,
  input: Matrix | MatrixLike,
  out: Float64Array,
  workspace: OneClassSvmWorkspace,
): Float64Array {
  if (workspace.model !== model) {
    throw new ArgumentError('workspace: made for another model; call createOneClassSvmWorkspace', 'workspace')
  }
  const rows = asMatrix(input)
  const { cols } = model.supportVectors
  if (rows.cols !== cols && rows.rows > 0) {
    throw new ArgumentError(`rows: expected ${cols} columns as in training, found ${rows.cols}`, 'rows')
  }
  checkFinite(rows, 'rows')
  if (!(out instanceof Float64Array) || out.length < rows.rows) {
    throw new ArgumentError(`out: expected a Float64Array of at least ${rows.rows} numbers`, 'out')
  }
  if (workspace.kernel.kind === 'linear') {
    matrixTimesVector(rows.data, rows.rows, cols, workspace.normal, 0, out, 0)
    for (let i = 0; i < rows.rows; i++) out[i]! -= model.offset
  } else {
    for (let i = 0; i < rows.rows; i += KERNEL_TILE_ROWS) {
      scoreTile(workspace, rows.data, i * cols, Math.min(KERNEL_TILE_ROWS, rows.rows - i), out, i)
    }
  }
  return out
}

function scoreTile(
  { model, kernel, block, sums }: OneClassSvmWorkspace,
  rows: Float64Array,
  start: number,
  count: number,
  out: Float64Array,
  outStart: number,
): void {
  const { supportVectors, dualCoefficients, offset } = model
  const { rows: vectors, cols, data } = supportVectors
  sums.fill(0)
  for (let first = 0; first < vectors; first += BLOCK_VECTORS) {
    const width = Math.min(BLOCK_VECTORS, vectors - first)
    svmKernelRows(kernel, rows, start, count, data, first * cols, width, cols, block)
    for (let r = 0; r < count; r++) addWeighted(block, r * width, dualCoefficients, first, width, sums, 4 * r)
  }
  for (let r = 0; r < count; r++) {
    const s = 4 * r
    out[outStart + r] = sums[s]! + sums[s + 1]! + (sums[s + 2]! + sums[s + 3]!) - offset
  }
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
