/**
 * Leading eigenpairs of a symmetric positive semidefinite matrix, by ml-matrix.
 *
 * What trips, and what is done about it: a difference of one unit in the last place between A_ij and A_ji
 * sends ml-matrix down its unsymmetric path, so A is symmetrised and the symmetric path asked for; entries
 * below 1e-200 (a Gaussian kernel has them) upset QL iterations with denormals, so they become 0; NaN would
 * pass in silence, so it is refused. Signs of eigenvectors are arbitrary: here the entry of largest magnitude
 * is positive, the first of them when several tie.
 *
 * Determinism: the symmetric path (Householder tridiagonalisation, then QL with implicit shifts) uses
 * + − × ÷ and Math.sqrt, abs and max alone, its hypotenuse included, so its results have the same bits on
 * every machine.
 */
import { ArgumentError, createMatrix, type Matrix } from '@oddflow/core'
import { EigenvalueDecomposition, Matrix as MlMatrix } from 'ml-matrix'

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
