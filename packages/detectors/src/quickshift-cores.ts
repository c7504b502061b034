/**
 * Cluster cores: the first half of QuickShift++ (Jiang, Jang, Kpotufe, "Quickshift++: Provably good
 * initializations for sample-based mean shift", 2018; the order of events of the authors' program).
 *
 * The density at a point is measured by its radius r, the distance to its k-th neighbour: small is dense.
 * Points enter a graph from dense to sparse; two points are joined when each is among the other's k
 * neighbours. A component that is still without a mark when the radius has grown by (1 − β)^(−1/d) since its
 * densest point becomes a core: its points of radius up to the present one. Later cores overwrite earlier.
 *
 * The original leaves two things open, and they are decided here. Mutual neighbourship follows the total
 * order of `nearestNeighbours` (distance, then index). When no core is found, because the radii differ too
 * little (fewer points than neighbours, or every point repeated k times and all radii 0), each component of
 * the graph over all points is a core, every point being joined to its nearest neighbour as well.
 */
import { exp, log, type Matrix } from '@oddflow/core'
import { type NearestNeighbours, squaredDistance } from '@oddflow/linalg'
import { DisjointSets } from './disjoint-sets.js'

export interface ClusterCores {
  /** Core of each point, −1 for points in none. */
  readonly cores: Int32Array
  readonly count: number
}

/** `points` n × d, `radii` their distances to their k-th neighbours, 0 < beta < 1. */
export function findCores(
  points: Matrix,
  neighbours: NearestNeighbours,
  radii: Float64Array,
  beta: number,
): ClusterCores {
  const n = points.rows
  const order = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => radii[a]! - radii[b]! || a - b)
  const shrink = exp(log(1 - beta) / points.cols)
  const sets = new DisjointSets(n)
  const inGraph = new Uint8Array(n)
  const marked = new Uint8Array(n)
  const cores = new Int32Array(n).fill(-1)
  let count = 0
  let added = 0
  let considered = 0
  const join = (a: number, b: number) => {
    const gone = sets.join(a, b)
    if (gone >= 0 && marked[gone] === 1) marked[sets.find(a)] = 1
  }
  const enter = (p: number) => {
    inGraph[p] = 1
    const { k, indices } = neighbours
    for (let at = p * k; at < (p + 1) * k; at++) {
      const q = indices[at]!
      if (inGraph[q] === 1 && isNeighbourOf(points, neighbours, p, q)) join(p, q)
    }
  }
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
    for (let p = 0; p < n; p++) join(p, neighbours.indices[p * neighbours.k]!)
    for (let p = 0; p < n; p++) mark(p, Number.POSITIVE_INFINITY)
  }
  return { cores, count }
}

/** Is p among the k neighbours of q? By the order that made the lists, without searching one. */
function isNeighbourOf(
  points: Matrix,
  { k, indices, squaredRadii }: NearestNeighbours,
  p: number,
  q: number,
): boolean {
  const { cols, data } = points
  const distance = squaredDistance(data, p * cols, data, q * cols, cols)
  const radius = squaredRadii[q]!
  return distance < radius || (distance === radius && p <= indices[(q + 1) * k - 1]!)
}
