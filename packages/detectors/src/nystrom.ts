/**
 * Nyström: the best rank-d map through the landmarks (paper, equation for φ′ under "Nyström"; Yang et al.,
 * "Nyström method vs random Fourier features", 2012).
 *
 * P = Λ^(−1/2)·Vᵀ with the d largest eigenpairs of the landmarks' gram matrix. Directions whose eigenvalue is
 * rounding noise (repeated landmarks) would be blown up by λ^(−1/2), so they are dropped and d is lowered.
 */
import { createMatrix, type Matrix } from '@oddflow/core'
import { symmetricEigen } from '@oddflow/linalg'

/** P, at most d × m: as many rows as there are eigenvalues above m·2⁻⁵²·λ₁. */
export function nystromProjection(gram: Matrix, d: number): Matrix {
  const m = gram.rows
  const { values, vectors } = symmetricEigen(gram, Math.min(d, m))
  const floor = values[0]! * m * Number.EPSILON
  let rank = 0
  while (rank < values.length && values[rank]! > floor) rank++
  const projection = createMatrix(rank, m)
  for (let r = 0; r < rank; r++) {
    const root = Math.sqrt(values[r]!)
    for (let j = 0; j < m; j++) projection.data[r * m + j] = vectors.data[r * m + j]! / root
  }
  return projection
}
