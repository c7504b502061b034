/**
 * c(n): the mean length of an unsuccessful search in a binary search tree of n keys (Liu, Ting and Zhou 2008,
 * equation 1), by which path lengths are made comparable.
 *
 *     c(n) = 2·H(n − 1) − 2(n − 1)/n,   H(i) = 1 + 1/2 + … + 1/i
 *
 * The paper estimates H(i) by ln i + 0.5772, which is 0.46 short in c(3); here it is summed, so c(2) = 1 and
 * c(1) = 0 need no rule of their own and no logarithm is involved.
 */

/** c(0) … c(n), n ≥ 1; c(0) is 0. */
export function meanSearchLengths(n: number): Float64Array {
  const lengths = new Float64Array(n + 1)
  let harmonic = 0
  for (let size = 2; size <= n; size++) {
    harmonic += 1 / (size - 1)
    lengths[size] = 2 * harmonic - (2 * (size - 1)) / size
  }
  return lengths
}

/** ceil(log2 n), n ≥ 1: the height at which a tree of n rows stops growing. */
export function heightLimit(n: number): number {
  let height = 0
  for (let size = 1; size < n; size *= 2) height++
  return height
}
