import { ArgumentError, checkFinite, exp, log, type Matrix } from '@oddflow/core'
import {
  createKdTree,
  type KdTree,
  type NeighbourRadii,
  neighbourRadii,
  squaredDistance,
  squaredDistanceToBox,
} from '@oddflow/linalg'
import { wholeAt } from '../fields.js'

/**
 * The nearest denser point: of all points with a smaller radius the nearest, with the lowest index on ties.
 * QuickShift++ climbs along it.
 *
 * The tree search skips nodes without a small enough radius and nodes farther away than the best so far, nearer child
 * first.
 */

/**
 * `radii` by row number. The function takes a place in the tree's order and returns a row number, or −1 if no point is
 * denser.
 */
function createDenserSearch(tree: KdTree, radii: Float64Array): (place: number) => number {
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

/**
 * Cluster cores: the first half of QuickShift++ (Jiang, Jang, Kpotufe 2018; in the order of the authors' program).
 *
 * Points enter a graph from dense to sparse, by the distance r to their k-th neighbor; two are joined if each is among
 * the other's k neighbors. A component still unmarked when the radius has grown by (1 − β)^(−1/d) since its densest
 * point becomes a core. Ties follow the index. If there is no core (fewer points than neighbors, or every point
 * repeated k times), each component of the graph over all points is one, with equal points joined too.
 */

interface ClusterCores {
  /** Core of each point, −1 for points in none. */
  readonly cores: Int32Array
  readonly count: number
}

/** `nearest` has the radii of the tree's n points, 0 < beta < 1. */
function findCores(tree: KdTree, nearest: NeighbourRadii, beta: number): ClusterCores {
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

/**
 * DisjointSets: union-find over 0 … n−1 whose sets can be listed.
 *
 * Path halving and union by size. The members of a set form a ring through `next`: joining two sets swaps two links,
 * and listing a set takes time proportional to its size.
 */

class DisjointSets {
  private readonly parent: Uint32Array
  private readonly size: Uint32Array
  private readonly next: Uint32Array

  constructor(n: number) {
    this.parent = new Uint32Array(n)
    this.next = new Uint32Array(n)
    for (let i = 0; i < n; i++) {
      this.parent[i] = i
      this.next[i] = i
    }
    this.size = new Uint32Array(n).fill(1)
  }

  /** The representative of a's set. */
  find(a: number): number {
    const { parent } = this
    let x = a
    while (parent[x] !== x) {
      parent[x] = parent[parent[x]!]!
      x = parent[x]!
    }
    return x
  }

  /** Joins two sets; returns the replaced representative, or −1 if they were one set already. */
  join(a: number, b: number): number {
    let keep = this.find(a)
    let lose = this.find(b)
    if (keep === lose) return -1
    if (this.size[keep]! < this.size[lose]!) [keep, lose] = [lose, keep]
    this.parent[lose] = keep
    this.size[keep]! += this.size[lose]!
    const link = this.next[keep]!
    this.next[keep] = this.next[lose]!
    this.next[lose] = link
    return lose
  }

  /** The member after `a` in its set; repeated calls visit the whole set and return to a. */
  after(a: number): number {
    return this.next[a]!
  }
}

/**
 * QuickShift++ (Jiang, Jang, Kpotufe, "Quickshift++: Provably good initializations for sample-based mean shift", 2018;
 * paper, "Choice of number of components k"): every point outside the cores follows its nearest denser point, and the
 * points of a core form a cluster. Results equal google/quickshift where it is defined. Changes of 1e-15 can change the
 * number of clusters, so differences are direct and ties go by index.
 */

export interface Clustering {
  /** Cluster of each point, 0 … count − 1 by first appearance. */
  readonly labels: Uint32Array
  readonly count: number
}

/** Clusters by QuickShift++, with the cluster core of each point. */
export interface QuickShiftResult extends Clustering {
  /** First-numbered core of each point, −1 for points in none. */
  readonly cores: Int32Array
}

/** floor(n^(2/3)), exactly: the paper's number of neighbours. */
export function defaultNeighbours(n: number): number {
  let k = 1
  while ((k + 1) * (k + 1) * (k + 1) <= n * n) k++
  return k
}

/**
 * Clusters `points` (n × d, n ≥ 1, finite). `neighbours` counts the point itself, at most n; 0 < beta < 1. Memory grows
 * with n. Time grows slightly faster in few dimensions, and like n² where the tree does not help. `onProgress` gets the
 * share done. Throws ArgumentError.
 */
export function quickShiftPlusPlus(
  points: Matrix,
  neighbours: number,
  beta: number,
  onProgress?: (fraction: number) => void,
): QuickShiftResult {
  if (!(beta > 0 && beta < 1)) {
    throw new ArgumentError(`beta: expected a number between 0 and 1, found ${beta}`, 'beta')
  }
  const n = points.rows
  if (n === 0 || points.cols === 0) throw new ArgumentError('points: expected at least one', 'points')
  checkFinite(points, 'points')
  wholeAt(neighbours, 'neighbours', 1, n)
  const tree = createKdTree(points)
  const nearest = neighbourRadii(
    tree,
    neighbours,
    onProgress === undefined ? undefined : (done) => onProgress(done / n),
  )
  const { cores, count } = findCores(tree, nearest, beta)
  const sets = new DisjointSets(n)
  const lastOfCore = new Int32Array(count).fill(-1)
  for (let i = 0; i < n; i++) {
    const core = cores[i]!
    if (core < 0) continue
    if (lastOfCore[core]! >= 0) sets.join(lastOfCore[core]!, i)
    lastOfCore[core] = i
  }
  const findDenser = createDenserSearch(tree, nearest.squaredRadii.map(Math.sqrt))
  for (let at = 0; at < n; at++) {
    const i = tree.indices[at]!
    if (cores[i]! >= 0) continue
    const denser = findDenser(at)
    if (denser >= 0) sets.join(i, denser)
  }
  return { ...numberByAppearance(sets, n), cores }
}

function numberByAppearance(sets: DisjointSets, n: number): Clustering {
  const labels = new Uint32Array(n)
  const labelOfRoot = new Int32Array(n).fill(-1)
  let count = 0
  for (let i = 0; i < n; i++) {
    const root = sets.find(i)
    if (labelOfRoot[root]! < 0) labelOfRoot[root] = count++
    labels[i] = labelOfRoot[root]!
  }
  return { labels, count }
}

/**
 * MutualNeighbours: the graph that joins two points if each is among the other's k nearest, built point by point. Only
 * its components matter: a tree node is skipped if its points in the graph are all in the entering point's component,
 * or if it lies beyond all their radii.
 *
 * p is among the k nearest of q if ‖p − q‖ < r_q, or if it equals r_q and p is not above q's last neighbor.
 */

interface MutualNeighbours {
  /** The components, over row numbers. */
  readonly sets: DisjointSets
  /** Takes row p into the graph, once. */
  enter(p: number): void
  /** Joins equal rows, all of them in the graph. */
  joinEqual(): void
}

/** Tags of nodes: no points in the graph, points of several components, or the number of the only one. */
const NONE = -1
const SEVERAL = -2

/** The parent of each node; the place and the leaf of each row. */
function placesIn({ points, indices, nodes, starts, ends, seconds }: KdTree) {
  const parents = new Uint32Array(nodes)
  const positions = new Uint32Array(points.rows)
  const leaves = new Uint32Array(points.rows)
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
  return { parents, positions, leaves }
}

/** `onJoin` receives the replaced representative and its replacement. */
function createMutualNeighbours(
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
  const { parents, positions, leaves } = placesIn(tree)

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
      // with many equal rows, a row may be missing from the k nearest of all others
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
