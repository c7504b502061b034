/**
 * MutualNeighbours: the graph that joins two points when each is among the other's k nearest, grown point by point.
 *
 * Its components are all that is asked of it, so most edges need never be looked at: a node of the tree whose points
 * in the graph are in one component already, and that the entering point's, has nothing to add, and one that lies
 * beyond the radii of all its points in the graph holds no mutual neighbour. What is left are a few leaves a point, in
 * place of the k neighbours of each.
 *
 * p is among the k nearest of q when ‖p − q‖ < r_q, or equal to it and the index of p is not above that of q's last
 * neighbour: the total order of `neighbourRadii`. Points may enter in any order.
 */
import { type KdTree, type NeighbourRadii, squaredDistance, squaredDistanceToBox } from '@oddflow/linalg'
import { DisjointSets } from './disjoint-sets.js'

export interface MutualNeighbours {
  /** The components, over row numbers. */
  readonly sets: DisjointSets
  /** Takes row p into the graph, once. */
  enter(p: number): void
  /** Joins rows that are equal, all of them being in the graph. */
  joinEqual(): void
}

/** Tags of nodes: no points in the graph, or points of several components; else a point of the only one. */
const NONE = -1
const SEVERAL = -2

/** `onJoin` hears which representative gave way to which. */
export function createMutualNeighbours(
  tree: KdTree,
  { squaredRadii, lastNeighbours }: NeighbourRadii,
  onJoin: (gone: number, into: number) => void,
): MutualNeighbours {
  const { points, indices, nodes, starts, ends, seconds } = tree
  const { rows: n, cols: d, data } = points
  const sets = new DisjointSets(n)
  const inGraph = new Uint8Array(n)
  const tags = new Int32Array(nodes).fill(NONE)
  /** Largest squared radius of the node's points in the graph. */
  const reaches = new Float64Array(nodes).fill(-1)
  const parents = new Uint32Array(nodes)
  const positions = new Uint32Array(n)
  const leaves = new Uint32Array(n)
  for (let node = 0; node < nodes; node++) {
    if (seconds[node] !== 0) {
      parents[node + 1] = node
      parents[seconds[node]!] = node
    } else {
      for (let i = starts[node]!; i < ends[node]!; i++) {
        positions[indices[i]!] = i
        leaves[indices[i]!] = node
      }
    }
  }

  // the point that is searched for
  let p = 0
  let start = 0
  let limit = 0
  let onlyEqual = false

  function join(q: number): void {
    const gone = sets.join(p, q)
    if (gone >= 0) onJoin(gone, sets.find(p))
  }

  function areNeighbours(distance: number, q: number): boolean {
    if (onlyEqual) return distance === 0
    const radius = squaredRadii[q]!
    return (
      (distance < radius || (distance === radius && p <= lastNeighbours[q]!)) &&
      (distance < limit || (distance === limit && q <= lastNeighbours[p]!))
    )
  }

  function search(node: number): void {
    const tag = tags[node]!
    if (tag >= 0 && sets.find(tag) === sets.find(p)) return
    const gap = squaredDistanceToBox(tree, node, data, start)
    if (gap > limit || gap > reaches[node]!) return
    let common = NONE
    if (seconds[node] === 0) {
      for (let i = starts[node]!; i < ends[node]!; i++) {
        const q = indices[i]!
        if (inGraph[q] === 0) continue
        if (sets.find(q) !== sets.find(p) && areNeighbours(squaredDistance(data, start, data, i * d, d), q)) {
          join(q)
        }
        common = together(common, q)
      }
    } else {
      search(node + 1)
      search(seconds[node]!)
      common = together(tags[node + 1]!, tags[seconds[node]!]!)
    }
    tags[node] = common
  }

  function together(a: number, b: number): number {
    if (a === NONE) return b
    if (b === NONE) return a
    return a >= 0 && b >= 0 && sets.find(a) === sets.find(b) ? a : SEVERAL
  }

  function searchFrom(row: number): void {
    p = row
    start = positions[p]! * d
    search(0)
  }

  return {
    sets,
    enter(row) {
      limit = squaredRadii[row]!
      // one of so many equal rows that the k nearest are others of them is nobody's neighbour
      if (limit > 0 || row <= lastNeighbours[row]!) searchFrom(row)
      inGraph[row] = 1
      for (let node = leaves[row]!; ; node = parents[node]!) {
        tags[node] = together(tags[node]!, row)
        reaches[node] = Math.max(reaches[node]!, squaredRadii[row]!)
        if (node === 0) break
      }
    },
    joinEqual() {
      limit = 0
      onlyEqual = true
      for (let row = 0; row < n; row++) searchFrom(row)
      onlyEqual = false
    },
  }
}
