/** The points that no other beats: none is at least as cheap and at least as good, and better in one of the two. */
export function paretoFront<T>(
  points: readonly T[],
  cost: (point: T) => number,
  worth: (point: T) => number,
): T[] {
  const sorted = [...points].sort((a, b) => cost(a) - cost(b) || worth(b) - worth(a))
  let best = Number.NEGATIVE_INFINITY
  return sorted.filter((point) => {
    if (worth(point) <= best) return false
    best = worth(point)
    return true
  })
}
