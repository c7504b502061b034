/**
 * The effective rank of a gram matrix, as far as anybody asks: Cholesky with diagonal pivoting (Higham, "Accuracy and
 * Stability of Numerical Algorithms", 2nd ed., section 10.3), stopped after `enough` pivots.
 *
 * Distinct landmarks have a Gaussian gram matrix of full rank on paper. Repeated ones do not, and neither do those that
 * differ by less than the kernel can tell: after the pivots that matter, what is left on the diagonal is rounding, below
 * m·2⁻⁵² of the largest entry, as `nystromProjection` has it for eigenvalues. Cost: m · enough² operations.
 */
import type { Matrix } from '@oddflow/core'

/** Of a positive semidefinite matrix (m × m, m ≥ 1), counted up to `enough`. */
export function effectiveRank({ rows: m, data }: Matrix, enough: number): number {
  const left = Float64Array.from({ length: m }, (_, i) => data[i * m + i]!)
  const floor = m * Number.EPSILON * left.reduce((a, b) => Math.max(a, b), 0)
  const factor: Float64Array[] = []
  while (factor.length < Math.min(enough, m)) {
    let pivot = 0
    for (let i = 1; i < m; i++) if (left[i]! > left[pivot]!) pivot = i
    if (!(left[pivot]! > floor)) break
    const root = Math.sqrt(left[pivot]!)
    const column = new Float64Array(m)
    for (let i = 0; i < m; i++) {
      let entry = data[i * m + pivot]!
      for (const earlier of factor) entry -= earlier[i]! * earlier[pivot]!
      column[i] = entry / root
      left[i] = left[i]! - column[i]! * column[i]!
    }
    left[pivot] = 0
    factor.push(column)
  }
  return factor.length
}
