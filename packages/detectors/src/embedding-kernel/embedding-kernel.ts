/**
 * EmbeddingKernel: what is computed for every row that is embedded: kernel row, projection and, where there is a
 * mixture, its log-density there; one object that owns its scratch.
 *
 * Two paths, one arithmetic: SIMD kernels where there are any (simd.ts), and typed arrays (typed-arrays.ts).
 * Both give the same bits, because lanes are landmarks, outputs or components and never terms of one sum.
 */
import type { Precision } from '@oddflow/linalg'
import type { MixtureModel } from '../model.js'

/** Rows that are taken at a time: enough for the kernels that take several, few enough for the cache. */
export const EMBEDDING_TILE_ROWS = 8

export interface EmbeddingKernelOptions {
  readonly precision: Precision
  /** Over the embedding's d dimensions; for `logDensities`. */
  readonly mixture?: MixtureModel
  /** Length m, positive; for `nearest`. */
  readonly nearestWeights?: Float64Array
  /** False: typed arrays even where there is SIMD. Default true. */
  readonly simd?: boolean
}

export interface EmbeddingKernel {
  /** d. */
  readonly dimensions: number
  /**
   * out[outStart + i · d …] = φ′ of `count` scaled rows from element `start` of `rows` on, at most
   * EMBEDDING_TILE_ROWS. Into `nearest` goes, for each row, weights[j] · ‖x − landmark_j‖² of the nearest landmark,
   * in float64 whatever the precision: which of two landmarks is nearer may be a matter of a last bit.
   */
  embed(
    rows: Float64Array,
    start: number,
    count: number,
    out: Float64Array,
    outStart: number,
    nearest?: Float64Array,
  ): void
  /** As `embed`, with the mixture's log-density of each row at out[outStart + i]. */
  logDensities(
    rows: Float64Array,
    start: number,
    count: number,
    out: Float64Array,
    outStart: number,
    nearest?: Float64Array,
  ): void
}

/** For kernels that were made without a mixture: a mistake of the caller's. */
export function refuseDensities(): never {
  throw new TypeError('this embedding has no mixture')
}
