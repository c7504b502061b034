/**
 * The rows that the solver works on: all at first, fewer after shrinking, all again at the end.
 *
 * Everything a step reads is packed: row numbers ascending, their vectors, coefficients, gradients and the
 * kernel's diagonal in the first `count` places, so that the loops of a step run over plain ranges. What
 * has been left out waits in `inactive`.
 */
import type { Matrix } from '@oddflow/core'

export interface ActiveSet {
  /** Counts up whenever `vectors` change. */
  version: number
  /** Active rows; the first `count` places of each array below are theirs. */
  count: number
  /** D. */
  readonly dimension: number
  /** Row number of each place, ascending. */
  readonly ids: Int32Array
  /** n × D. */
  readonly vectors: Float64Array
  readonly alpha: Float64Array
  /** G = Kα. */
  readonly gradient: Float64Array
  readonly diagonal: Float64Array
  /** While rows are left out: the state before the first of them went. */
  inactive: Inactive | undefined
}

/** By row number, length n. */
export interface Inactive {
  /** α of all rows before shrinking, and the gradient that belongs to it. */
  readonly alphaThen: Float64Array
  readonly gradientThen: Float64Array
  readonly diagonal: Float64Array
  /** α of the rows that are left out; of the others, what it was when rows were last left out. */
  readonly alphaNow: Float64Array
}

/** `alpha`, `gradient` and `diagonal` are taken over and changed. */
export function createActiveSet(
  rows: Matrix,
  alpha: Float64Array,
  gradient: Float64Array,
  diagonal: Float64Array,
): ActiveSet {
  return {
    version: 0,
    count: rows.rows,
    dimension: rows.cols,
    ids: Int32Array.from({ length: rows.rows }, (_, i) => i),
    vectors: rows.data.slice(),
    alpha,
    gradient,
    diagonal,
    inactive: undefined,
  }
}
