/**
 * Limits and samples that a few wild values cannot spoil.
 *
 * Log-densities of novel flows reach −100,000 where normal ones lie within ten of each other, and an embedding
 * has outliers alike: quantiles decide what a chart shows, and what lies beyond is counted and said.
 */

/**
 * No axis reaches further than this: beyond, sums and differences near the end of the doubles would overflow.
 */
export const FURTHEST = 1e100

/** A number brought within ± FURTHEST; what is not a number stays so. */
export function within(value: number): number {
  return Math.max(-FURTHEST, Math.min(FURTHEST, value))
}

/** The finite values, sorted, as a copy. */
export function sortedFinite(values: Iterable<number>): Float64Array {
  const finite: number[] = []
  for (const value of values) if (Number.isFinite(value)) finite.push(value)
  return Float64Array.from(finite).sort()
}

/** Quantile by linear interpolation (type 7) of sorted values; NaN when there are none. */
export function quantileSorted(sorted: Float64Array, q: number): number {
  if (sorted.length === 0) return Number.NaN
  const position = q * (sorted.length - 1)
  const below = Math.floor(position)
  const low = sorted[below]!
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!
  // Weighted rather than low + f·(high − low): the difference of two huge values may overflow.
  const f = position - below
  return f === 0 ? low : low * (1 - f) + high * f
}

/**
 * Every k-th element, so that at most `limit` are left: the same choice each time, spread over the whole list.
 */
export function thin<T>(items: readonly T[], limit: number): readonly T[] {
  if (items.length <= limit) return items
  const kept: T[] = []
  for (let i = 0; i < limit; i++) kept.push(items[Math.floor((i * items.length) / limit)]!)
  return kept
}
