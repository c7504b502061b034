/**
 * Scoring: f(x) = Σ α_i K(x_i, x) − ρ, higher = more normal, 0 the boundary.
 *
 * RBF: kernel-sums.ts, a few rows at a time; a row's score has the same bits in any batch and at any place, and
 * nothing is allocated. Linear: Σ α_i x_i is one vector, summed once for the workspace, and a score is one product.
 */
import { ArgumentError, asMatrix, checkFinite, type Matrix, type MatrixLike } from '@oddflow/core'
import { matrixTimesVector, type Precision } from '@oddflow/linalg'
import { addScaled } from './initial-gradient.js'
import { createKernelSums, KERNEL_SUM_ROWS, type KernelSums } from './kernel-sums.js'
import type { OneClassSvmModel } from './model.js'

/** Scratch and constants for one model and one caller at a time. */
export interface OneClassSvmWorkspace {
  readonly model: OneClassSvmModel
  /** Only for the RBF kernel. */
  readonly kernelSums: KernelSums | null
  /** Σ α_i x_i, length D; only for the linear kernel. */
  readonly normal: Float64Array
}

export interface OneClassSvmWorkspaceOptions {
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
  return { model, kernelSums, normal }
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
  const { kernelSums, normal } = workspace
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
