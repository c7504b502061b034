/**
 * Working-set selection by second-order information (Fan, Chen, Lin, "Working set selection using second
 * order information for training support vector machines", JMLR 6, 2005; WSS 2 of libsvm).
 *
 * With G = Kα and all labels +1: i is the row of least G among those that may grow (α < 1); j is, among
 * those that may shrink (α > 0) and have a larger G, the one that promises the largest fall of the
 * objective, (G_j − G_i)² / (K_ii + K_jj − 2K_ij). Ties go to the later row, as in libsvm.
 */
import type { KernelValues } from './kernel-cache.js'

/** Stands for a curvature that is not positive: two rows that are the same to the kernel. */
export const LEAST_CURVATURE = 1e-12

/** Position of least gradient with alpha < 1 among the first `count`, or −1. */
export function selectRising(alpha: Float64Array, gradient: Float64Array, count: number): number {
  let best = -1
  let least = Number.POSITIVE_INFINITY
  for (let p = 0; p < count; p++) {
    const g = gradient[p]!
    if (g <= least && alpha[p]! < 1) {
      least = g
      best = p
    }
  }
  return best
}

/** What `selectFalling` finds; made once, filled at every step. */
export interface FallingChoice {
  /** j, or −1 when no row violates optimality beside i. */
  position: number
  /** The largest gradient with alpha > 0; −Infinity when there is none. */
  greatest: number
}

/** `row` from rowStart on holds K(x_i, ·); `rising` is i, and when that is −1 nothing is found. */
export function selectFalling(
  rising: number,
  row: KernelValues,
  rowStart: number,
  alpha: Float64Array,
  gradient: Float64Array,
  diagonal: Float64Array,
  count: number,
  choice: FallingChoice,
): void {
  choice.position = -1
  choice.greatest = Number.NEGATIVE_INFINITY
  if (rising < 0) return
  const least = gradient[rising]!
  const ownDiagonal = diagonal[rising]!
  let greatest = Number.NEGATIVE_INFINITY
  let position = -1
  let bestGain = 0
  for (let p = 0; p < count; p++) {
    if (!(alpha[p]! > 0)) continue
    const g = gradient[p]!
    if (g > greatest) greatest = g
    const difference = g - least
    if (difference > 0) {
      const curvature = ownDiagonal + diagonal[p]! - 2 * row[rowStart + p]!
      const gain = (difference * difference) / (curvature > 0 ? curvature : LEAST_CURVATURE)
      if (gain >= bestGain) {
        bestGain = gain
        position = p
      }
    }
  }
  choice.position = position
  choice.greatest = greatest
}
