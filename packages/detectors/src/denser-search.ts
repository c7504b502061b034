/**
 * The nearest denser point: of all points with a smaller radius the nearest, the one of lowest index when several are
 * as near. QuickShift++ climbs by it.
 *
 * A search in the tree that passes over the nodes with no radius small enough and those farther than the best so far,
 * the nearer child first.
 */
import { type KdTree, squaredDistance, squaredDistanceToBox } from '@oddflow/linalg'

/**
 * `radii` by row number. The function takes a place in the tree's own order and returns a row number, −1 when no point
 * is denser.
 */
export function createDenserSearch(tree: KdTree, radii: Float64Array): (place: number) => number {
  const { points, indices, nodes, starts, ends, seconds } = tree
  const { cols: d, data } = points
  const smallest = new Float64Array(nodes)
  for (let node = nodes - 1; node >= 0; node--) {
    let radius = Number.POSITIVE_INFINITY
    if (seconds[node] !== 0) radius = Math.min(smallest[node + 1]!, smallest[seconds[node]!]!)
    else for (let i = starts[node]!; i < ends[node]!; i++) radius = Math.min(radius, radii[indices[i]!]!)
    smallest[node] = radius
  }

  let start = 0
  let limit = 0
  let best = -1
  let bestDistance = Number.POSITIVE_INFINITY

  function search(node: number, gap: number): void {
    if (!(smallest[node]! < limit) || gap > bestDistance) return
    if (seconds[node] === 0) {
      for (let i = starts[node]!; i < ends[node]!; i++) {
        const q = indices[i]!
        if (!(radii[q]! < limit)) continue
        const distance = squaredDistance(data, start, data, i * d, d)
        if (best < 0 || distance < bestDistance || (distance === bestDistance && q < best)) {
          best = q
          bestDistance = distance
        }
      }
      return
    }
    const first = node + 1
    const second = seconds[node]!
    const firstGap = squaredDistanceToBox(tree, first, data, start)
    const secondGap = squaredDistanceToBox(tree, second, data, start)
    if (firstGap <= secondGap) {
      search(first, firstGap)
      search(second, secondGap)
    } else {
      search(second, secondGap)
      search(first, firstGap)
    }
  }

  return (place) => {
    start = place * d
    limit = radii[indices[place]!]!
    best = -1
    bestDistance = Number.POSITIVE_INFINITY
    search(0, 0)
    return best
  }
}
