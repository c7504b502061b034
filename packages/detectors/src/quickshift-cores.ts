/**
 * Cluster cores: the first half of QuickShift++ (Jiang, Jang, Kpotufe, "Quickshift++: Provably good
 * initializations for sample-based mean shift", 2018; the order of events of the authors' program).
 *
 * The density at a point is measured by its radius r, the distance to its k-th neighbour: small is dense.
 * Points enter a graph from dense to sparse; two points are joined when each is among the other's k
 * neighbours. A component that is still without a mark when the radius has grown by (1 − β)^(−1/d) since its
 * densest point becomes a core: its points of radius up to the present one. Later cores overwrite earlier.
 *
 * The original leaves two things open, and they are decided here. Mutual neighbourship follows the total order
 * of distance, then index. When no core is found, because the radii differ too little (fewer points than
 * neighbours, or every point repeated k times and all radii 0), each component of the graph over all points is
 * a core, equal points being joined as well.
 */
import { exp, log } from '@oddflow/core'
import type { KdTree, NeighbourRadii } from '@oddflow/linalg'
import { createMutualNeighbours } from './mutual-neighbours.js'

export interface ClusterCores {
  /** Core of each point, −1 for points in none. */
  readonly cores: Int32Array
  readonly count: number
}

/** `nearest` has the radii of the tree's n points, 0 < beta < 1. */
export function findCores(tree: KdTree, nearest: NeighbourRadii, beta: number): ClusterCores {
  const { rows: n, cols: d } = tree.points
  const radii = nearest.squaredRadii.map(Math.sqrt)
  const order = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => radii[a]! - radii[b]! || a - b)
  const shrink = exp(log(1 - beta) / d)
  const marked = new Uint8Array(n)
  const cores = new Int32Array(n).fill(-1)
  let count = 0
  let added = 0
  let considered = 0
  const { sets, enter, joinEqual } = createMutualNeighbours(tree, nearest, (gone, into) => {
    if (marked[gone] === 1) marked[into] = 1
  })
  const mark = (p: number, upTo: number) => {
    const root = sets.find(p)
    if (marked[root] === 1) return
    marked[root] = 1
    let member = root
    do {
      if (radii[member]! <= upTo) cores[member] = count
      member = sets.after(member)
    } while (member !== root)
    count++
  }
  for (let i = 0; i < n; i++) {
    const radius = radii[order[i]!]!
    while (added < n && radii[order[added]!]! < radius) enter(order[added++]!)
    while (radii[order[considered]!]! < radius * shrink) mark(order[considered++]!, radius)
  }
  if (count === 0) {
    while (added < n) enter(order[added++]!)
    joinEqual()
    for (let p = 0; p < n; p++) mark(p, Number.POSITIVE_INFINITY)
  }
  return { cores, count }
}
