/**
 * ρ from a solution: the gradient of the rows whose coefficient is free, 0 < α < 1, where f is 0.
 *
 * Optimality asks G_i ≤ ρ where α_i = 1, G_i ≥ ρ where α_i = 0 and G_i = ρ between; so ρ is the mean over the
 * free rows, and the middle of the gap between the two bounds when there are none, as in libsvm. With ν = 1
 * every α is 1 and any ρ from max G up is optimal; the least of them is taken, the only one that leaves a
 * training row on the boundary (libsvm returns infinity).
 */
export function offsetOf(alpha: Float64Array, gradient: Float64Array): number {
  let lower = Number.NEGATIVE_INFINITY
  let upper = Number.POSITIVE_INFINITY
  let sum = 0
  let free = 0
  for (let i = 0; i < alpha.length; i++) {
    const a = alpha[i]!
    const g = gradient[i]!
    if (a >= 1) lower = Math.max(lower, g)
    else if (a <= 0) upper = Math.min(upper, g)
    else {
      sum += g
      free++
    }
  }
  if (free > 0) return sum / free
  return upper === Number.POSITIVE_INFINITY ? lower : (lower + upper) / 2
}
