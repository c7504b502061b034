/**
 * The q-quantile by linear interpolation between order statistics: type 7 of Hyndman and Fan (1996), numpy's
 * default, with numpy's two-sided interpolation so that results agree with it to the last bit.
 */

/** @param values - at least one finite number, in any order; not changed. @param q - in [0, 1]. */
export function linearQuantile(values: ArrayLike<number>, q: number): number {
  const sorted = Float64Array.from(values).sort()
  return quantileOfSorted(sorted, sorted.length, q)
}

/** The same of the first `count` numbers of `sorted`, which ascend. */
export function quantileOfSorted(sorted: Float64Array, count: number, q: number): number {
  const position = q * (count - 1)
  const below = Math.floor(position)
  const t = position - below
  const a = sorted[below]
  const b = sorted[Math.min(below + 1, count - 1)]
  const difference = b - a
  return t >= 0.5 ? b - difference * (1 - t) : a + difference * t
}
