/**
 * Cholesky factors of small symmetric matrices, and their inverses.
 *
 * Own, because ml-matrix's returns non-finite numbers for a singular matrix without a word, and because EM
 * asks for k factors of d × d a step on flat arrays. The factor is lower-triangular, A = L·Lᵀ; entries above
 * the diagonal are written as 0.
 */
import { DataError } from '@oddflow/core'

/**
 * Factors the n × n row-major block of `a` at `start` into `out` at `outStart` (may be the same place). Only
 * the lower triangle is read. Returns false, leaving `out` undefined, when a pivot is not a positive finite
 * number.
 */
export function choleskyInto(
  a: Float64Array,
  start: number,
  n: number,
  out: Float64Array,
  outStart: number,
): boolean {
  for (let i = 0; i < n; i++) {
    const rowI = outStart + i * n
    for (let j = 0; j <= i; j++) {
      const rowJ = outStart + j * n
      let sum = a[start + i * n + j]!
      for (let t = 0; t < j; t++) sum -= out[rowI + t]! * out[rowJ + t]!
      if (i === j) {
        if (!(sum > 0 && sum < Number.POSITIVE_INFINITY)) return false
        out[rowI + i] = Math.sqrt(sum)
      } else {
        out[rowI + j] = sum / out[rowJ + j]!
      }
    }
  }
  for (let i = 0; i < n; i++) out.fill(0, outStart + i * n + i + 1, outStart + (i + 1) * n)
  return true
}

/** L with A = L·Lᵀ of a row-major n × n matrix. Throws DataError when A is not positive definite. */
export function cholesky(a: Float64Array, n: number): Float64Array {
  const out = new Float64Array(n * n)
  if (!choleskyInto(a, 0, n, out, 0)) {
    throw new DataError(`a ${n} × ${n} matrix is not positive definite, so it has no Cholesky factor`)
  }
  return out
}

/** Replaces a lower-triangular block with positive diagonal by its inverse (lower-triangular as well). */
export function invertLowerInPlace(l: Float64Array, start: number, n: number): void {
  for (let j = 0; j < n; j++) {
    l[start + j * n + j] = 1 / l[start + j * n + j]!
    for (let i = j + 1; i < n; i++) {
      // row i of L still holds its own entries right of column j; column j above i is inverted already
      let sum = 0
      for (let t = j; t < i; t++) sum -= l[start + i * n + t]! * l[start + t * n + j]!
      l[start + i * n + j] = sum / l[start + i * n + i]!
    }
  }
}

/** out = WᵀW of a lower-triangular n × n block: the precision matrix that belongs to an inverted factor. */
export function lowerTransposeTimesSelf(
  w: Float64Array,
  start: number,
  n: number,
  out: Float64Array,
  outStart: number,
): void {
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = 0
      for (let t = i; t < n; t++) sum += w[start + t * n + i]! * w[start + t * n + j]!
      out[outStart + i * n + j] = sum
      out[outStart + j * n + i] = sum
    }
  }
}
