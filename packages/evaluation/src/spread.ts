/**
 * Mean and sample standard deviation (over n − 1), in two passes over the values as they come. One value has no
 * spread: null, not 0.
 */
export interface Spread {
  readonly mean: number
  /** null for a single value. */
  readonly sd: number | null
  readonly n: number
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]!
  return sum / values.length
}

/** null when there are no values. */
export function spread(values: ArrayLike<number>): Spread | null {
  const n = values.length
  if (n === 0) return null
  const centre = mean(values)
  let squares = 0
  for (let i = 0; i < n; i++) squares += (values[i]! - centre) * (values[i]! - centre)
  return { mean: centre, sd: n === 1 ? null : Math.sqrt(squares / (n - 1)), n }
}
