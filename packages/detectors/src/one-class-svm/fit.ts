/**
 * fitOneClassSvm: rows in, model out. Checks what it is given, starts, solves, and keeps what scoring needs.
 *
 * Rows are taken as they are (scaling is the caller's). Nothing is random: the same rows in the same order
 * give the same bits; another order gives another solution within the tolerance.
 */
import { type Matrix, takeRows } from '@oddflow/core'
import { createActiveSet, initialCoefficients, initialGradient, KernelCache } from './active-set.js'
import { kernelDiagonal, prepareKernel } from './kernel.js'
import { offsetOf, solve } from './solver.js'

/**
 * One-class SVM (Schölkopf et al., "Estimating the support of a high-dimensional distribution", 2001), the dual in
 * libsvm's scaling, which scikit-learn keeps:
 *
 *   minimise ½ αᵀKα   subject to 0 ≤ αᵢ ≤ 1, Σ αᵢ = ν·n
 *
 * f(x) = Σ αᵢ K(xᵢ, x) − ρ is the score. The model keeps the rows with αᵢ > 0 in training order, repeated rows
 * repeated.
 */

export type SvmKernel =
  /** K(x, y) = exp(−‖x − y‖² / h²); libsvm's gamma is 1/h². */
  | { readonly kind: 'rbf'; readonly bandwidth: number }
  /** K(x, y) = x·y. */
  | { readonly kind: 'linear' }

export type SvmPrecision = 'float32' | 'float64'

export interface OneClassSvmOptions {
  readonly kernel: SvmKernel
  /** 0 < ν ≤ 1. */
  readonly nu: number
  /** Largest violation of the optimality conditions that is left, in units of f; > 0, default 1e-3. */
  readonly tolerance?: number
  /** Pairs of coefficients that are moved at most; default max(10⁷, 100·n), as in libsvm. */
  readonly maximumSteps?: number
  /** Bound on the memory of cached kernel rows, in bytes; two rows are always held. Default 200 MB. */
  readonly cacheBytes?: number
  /**
   * How kernel values are held while solving. `float32` is what libsvm does: half the memory, the same path to
   * the same coefficients, and a solution whose objective is right to about 1e-8; `float64` is for tolerances
   * below that, and for linear kernels on rows far from the origin, whose differences float32 would lose.
   * Default: float32 for `rbf`, float64 for `linear`. Scores are always float64.
   */
  readonly precision?: SvmPrecision
  /** Leave rows that will keep their bound out of the work in between; changes no result. Default true. */
  readonly shrinking?: boolean
  /** False: typed arrays even where there is WebAssembly SIMD; the result has the same bits. Default true. */
  readonly simd?: boolean
}

/**
 * Why the solver stopped: the violation fell below the tolerance; it fell below what float64 can resolve
 * beside gradients of this size; or the steps were used up, and the solution is not optimal.
 */
export type SvmStop = 'tolerance' | 'resolution' | 'steps'

export interface OneClassSvmReport {
  readonly precision: SvmPrecision
  /** Training rows. */
  readonly n: number
  readonly supportVectors: number
  /** Those with αᵢ = 1. */
  readonly boundSupportVectors: number
  /** Pairs of coefficients moved. */
  readonly iterations: number
  /** ½ αᵀKα, with K as it was held. */
  readonly objective: number
  /** False exactly when `stop` is `steps`. */
  readonly converged: boolean
  readonly stop: SvmStop
  /** The violation that is left, in units of f. */
  readonly violation: number
  /** Kernel rows computed after the first gradient: the misses of the cache. */
  readonly kernelRows: number
  /** Times that rows were left out. */
  readonly shrinkings: number
}

export interface OneClassSvmModel {
  readonly kernel: SvmKernel
  readonly nu: number
  /** SV × D. */
  readonly supportVectors: Matrix
  /** αᵢ in (0, 1], length SV; their sum is ν·n. */
  readonly dualCoefficients: Float64Array
  /** ρ. */
  readonly offset: number
  readonly report: OneClassSvmReport
}

export const DEFAULT_SVM_TOLERANCE = 1e-3
export const DEFAULT_SVM_CACHE_BYTES = 200_000_000

/** Fits to `rows` (n × D, n ≥ 1, D ≥ 1), which are finite. Throws DataError when they are too large for a linear kernel. */
export function fitOneClassSvm(
  rows: Matrix,
  {
    kernel: asked,
    nu,
    tolerance = DEFAULT_SVM_TOLERANCE,
    maximumSteps = Math.max(1e7, 100 * rows.rows),
    cacheBytes = DEFAULT_SVM_CACHE_BYTES,
    precision = asked.kind === 'linear' ? 'float64' : 'float32',
    shrinking = true,
    simd = true,
  }: OneClassSvmOptions,
): OneClassSvmModel {
  const kernel = prepareKernel(asked, precision)
  const diagonal = kernelDiagonal(kernel, rows)
  const cache = new KernelCache(rows.rows, cacheBytes, precision)
  const alpha = initialCoefficients(rows.rows, nu)
  const gradient = initialGradient(kernel, rows, alpha, cache, simd)
  const { stop, ...figures } = solve(createActiveSet(rows, alpha, gradient, diagonal), kernel, rows, cache, {
    tolerance,
    maximumSteps,
    shrinking,
    simd,
  })
  const chosen: number[] = []
  let bound = 0
  let twiceObjective = 0
  alpha.forEach((a, i) => {
    if (a <= 0) return
    chosen.push(i)
    if (a >= 1) bound++
    twiceObjective += a * gradient[i]!
  })
  return {
    kernel: asked.kind === 'rbf' ? { kind: 'rbf', bandwidth: asked.bandwidth } : { kind: 'linear' },
    nu,
    supportVectors: takeRows(rows, chosen),
    dualCoefficients: Float64Array.from(chosen, (i) => alpha[i]!),
    offset: offsetOf(alpha, gradient),
    report: {
      precision,
      n: rows.rows,
      supportVectors: chosen.length,
      boundSupportVectors: bound,
      objective: twiceObjective / 2,
      converged: stop !== 'steps',
      stop,
      ...figures,
    },
  }
}
