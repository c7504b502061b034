/**
 * One-class SVM: what a fit takes and what it leaves (Schölkopf, Platt, Shawe-Taylor, Smola, Williamson,
 * "Estimating the support of a high-dimensional distribution", 2001).
 *
 * The dual in libsvm's scaling, which scikit-learn keeps:
 *
 *   minimise ½ αᵀKα   subject to 0 ≤ αᵢ ≤ 1, Σ αᵢ = ν·n
 *
 * and f(x) = Σ αᵢ K(xᵢ, x) − ρ. f is OddFlow's score: higher = more normal, and 0 is the boundary that the
 * SVM itself draws, with at most a share ν of the training rows below it. It equals scikit-learn's
 * `decision_function`, and ρ its `offset_`.
 *
 * The model keeps the rows with αᵢ > 0 in training order, repeated rows repeated: they are what the paper
 * counts as SV·(D + 1) numbers.
 */
import type { Matrix } from '@oddflow/core'

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
