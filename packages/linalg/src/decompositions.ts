/**
 * Cholesky factors of small symmetric matrices, A = L·Lᵀ, and their inverses. Own, because ml-matrix's returns
 * non-finite numbers for a singular matrix, and EM asks for k factors of d × d a step on flat arrays.
 */
import { ArgumentError, createMatrix, exp, log, type Matrix } from '@oddflow/core'
import { EigenvalueDecomposition, Matrix as MlMatrix } from 'ml-matrix'

/**
 * Leading eigenpairs of a symmetric positive semidefinite matrix, by ml-matrix: symmetrised, because a difference in
 * the last place sends it down its unsymmetric path; entries below 1e-200 become 0, because denormals upset QL
 * iterations; NaN is refused. The entry of largest magnitude of an eigenvector is positive. The symmetric path uses + −
 * × ÷ and Math.sqrt, abs and max alone, so results have the same bits on every machine.
 */

export interface SymmetricEigen {
  /** Descending. */
  readonly values: Float64Array
  /** Row i is the eigenvector of values[i], of length 1: count × n. */
  readonly vectors: Matrix
}

const FLUSH_BELOW = 1e-200

/** The `count` largest eigenvalues of A (n × n) and their eigenvectors. Throws ArgumentError. */
export function symmetricEigen(a: Matrix, count: number): SymmetricEigen {
  const n = a.rows
  if (a.cols !== n || n === 0)
    throw new ArgumentError(`a: expected a square matrix, found ${n} × ${a.cols}`, 'a')
  if (!Number.isInteger(count) || count < 1 || count > n) {
    throw new ArgumentError(`count: expected a whole number from 1 to ${n}, found ${count}`, 'count')
  }
  const symmetric = MlMatrix.zeros(n, n)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      const mean = (a.data[i * n + j]! + a.data[j * n + i]!) / 2
      if (!Number.isFinite(mean)) {
        throw new ArgumentError(`a: row ${i}, column ${j}: expected a finite number, found ${mean}`, 'a')
      }
      const value = Math.abs(mean) < FLUSH_BELOW ? 0 : mean
      symmetric.set(i, j, value)
      symmetric.set(j, i, value)
    }
  }
  const evd = new EigenvalueDecomposition(symmetric, { assumeSymmetric: true })
  const all = evd.realEigenvalues
  const order = all.map((_, i) => i).sort((i, j) => all[j]! - all[i]! || i - j)
  const values = new Float64Array(count)
  const vectors = createMatrix(count, n)
  for (let r = 0; r < count; r++) {
    const column = order[r]!
    values[r] = all[column]!
    let largest = 0
    let sign = 1
    for (let i = 0; i < n; i++) {
      const entry = evd.eigenvectorMatrix.get(i, column)
      if (Math.abs(entry) > largest) {
        largest = Math.abs(entry)
        sign = entry < 0 ? -1 : 1
      }
    }
    for (let i = 0; i < n; i++) vectors.data[r * n + i] = sign * evd.eigenvectorMatrix.get(i, column)
  }
  return { values, vectors }
}

/**
 * log Σ exp(v), without overflow and without losing what underflows beside nothing.
 *
 * The largest term is taken out first, so the largest exponential is 1. Sums run from low index to high. Terms lower
 * than the largest by more than 60 are left out: e^−60 is 2^−87, and a thousand million of them are lost beside 1.
 */

const LOWEST_EXPONENT = -60

/** log Σ exp(values[i]) over start … start + length; −Infinity when all are, or when there are none. */
export function logSumExp(values: Float64Array, start: number, length: number): number {
  let largest = Number.NEGATIVE_INFINITY
  const end = start + length
  for (let i = start; i < end; i++) if (values[i]! > largest) largest = values[i]!
  if (!Number.isFinite(largest)) return largest
  let sum = 0
  for (let i = start; i < end; i++) {
    const exponent = values[i]! - largest
    if (!(exponent < LOWEST_EXPONENT)) sum += exp(exponent)
  }
  return largest + log(sum)
}

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
