import { ArgumentError, type Matrix } from '@oddflow/core'
import { selectPairs } from './pair-distance-quantiles.js'
import { DISTANCE_TILE_ROWS, squaredDistance, squaredDistancesOfRows } from './squared-distances.js'

/**
 * KdTree: points in boxes within boxes, so that whole groups of points can be passed over (Bentley, 1975). Each node
 * halves its points at the median of its widest dimension. A node's points lie side by side.
 *
 * Bounds are exact in floating point: a bound adds the same terms in the same order as `squaredDistance`, each no
 * larger (or no smaller) than the distance's own. Points are finite. n·log n time, about twice the points' memory.
 */

export interface KdTree {
  /** n × d, in the order of the leaves. */
  readonly points: Matrix
  /** Length n: where each of them stood in the matrix that was given. */
  readonly indices: Uint32Array
  /** Number of nodes; node 0 is the root, and the first child of node v is v + 1. */
  readonly nodes: number
  /** First point of each node and the one after its last. */
  readonly starts: Uint32Array
  readonly ends: Uint32Array
  /** Second child of each node; 0 for leaves. */
  readonly seconds: Uint32Array
  /** Smallest and largest coordinates of each node's points, nodes × d. */
  readonly lows: Float64Array
  readonly highs: Float64Array
}

const LEAF_POINTS = 16

/** A tree over the rows of `rows` (n × d, n ≥ 1). */
export function createKdTree(rows: Matrix): KdTree {
  const { rows: n, cols: d, data } = rows
  const room = 2 * Math.ceil((2 * n) / LEAF_POINTS) + 1
  const indices = Uint32Array.from({ length: n }, (_, i) => i)
  const starts = new Uint32Array(room)
  const ends = new Uint32Array(room)
  const seconds = new Uint32Array(room)
  const lows = new Float64Array(room * d)
  const highs = new Float64Array(room * d)
  const values = new Float64Array(n)
  const order = new Uint32Array(n)
  let nodes = 0

  /** Depth is log2(n / LEAF_POINTS), since each split halves. */
  function build(start: number, end: number): void {
    const node = nodes++
    starts[node] = start
    ends[node] = end
    const box = node * d
    for (let t = 0; t < d; t++) {
      let low = Number.POSITIVE_INFINITY
      let high = Number.NEGATIVE_INFINITY
      for (let i = start; i < end; i++) {
        const v = data[indices[i]! * d + t]!
        if (v < low) low = v
        if (v > high) high = v
      }
      lows[box + t] = low
      highs[box + t] = high
    }
    const count = end - start
    if (count <= LEAF_POINTS) return
    let widest = 0
    for (let t = 1; t < d; t++) {
      if (highs[box + t]! - lows[box + t]! > highs[box + widest]! - lows[box + widest]!) widest = t
    }
    const half = count >>> 1
    for (let i = 0; i < count; i++) {
      order[i] = indices[start + i]!
      values[i] = data[order[i]! * d + widest]!
    }
    // by value and index, so that the tree does not depend on the order in which the points came to this node
    selectPairs(values, order, count, half)
    indices.set(order.subarray(0, count), start)
    build(start, start + half)
    seconds[node] = nodes
    build(start + half, end)
  }
  if (n > 0) build(0, n)

  const points = { rows: n, cols: d, data: new Float64Array(n * d) }
  for (let i = 0; i < n; i++) {
    const from = indices[i]! * d
    for (let t = 0; t < d; t++) points.data[i * d + t] = data[from + t]!
  }
  return { points, indices, nodes, starts, ends, seconds, lows, highs }
}

/** A lower bound of ‖x − y‖² over all points y of the node. */
export function squaredDistanceToBox(
  { lows, highs, points }: KdTree,
  node: number,
  x: Float64Array,
  start: number,
): number {
  const d = points.cols
  let sum = 0
  for (let t = 0, at = node * d; t < d; t++, at++) {
    const v = x[start + t]!
    const below = lows[at]! - v
    const above = v - highs[at]!
    const gap = below > 0 ? below : Math.max(above, 0)
    sum += gap * gap
  }
  return sum
}

/** A lower bound of ‖x − y‖² over all pairs of points x of node `a` and y of node `b`. */
export function squaredGap({ lows, highs, points }: KdTree, a: number, b: number): number {
  const d = points.cols
  let sum = 0
  for (let t = 0, i = a * d, j = b * d; t < d; t++, i++, j++) {
    const below = lows[i]! - highs[j]!
    const above = lows[j]! - highs[i]!
    const gap = below > 0 ? below : Math.max(above, 0)
    sum += gap * gap
  }
  return sum
}

/** An upper bound of ‖x − y‖² over all pairs of points x of node `a` and y of node `b`. */
export function squaredReach({ lows, highs, points }: KdTree, a: number, b: number): number {
  const d = points.cols
  let sum = 0
  for (let t = 0, i = a * d, j = b * d; t < d; t++, i++, j++) {
    const up = highs[i]! - lows[j]!
    const down = highs[j]! - lows[i]!
    const reach = Math.max(up, down)
    sum += reach * reach
  }
  return sum
}

/**
 * The distance of each point's k-th nearest neighbour, without lists of the others. |r(x) − r(y)| ≤ ‖x − y‖, so the
 * radius of one point brackets those around it: nearer groups of the tree are counted, farther ones passed over,
 * distances taken in the shell between. A bracket that rounding made too narrow shows in the counts, and the point is
 * searched again. Ties by index; the point is among its neighbours.
 */

export interface NeighbourRadii {
  /** Neighbours that were counted: min(k, n). */
  readonly k: number
  /** Length n, as the rows were numbered: squared distance of row i to the last of its k neighbours. */
  readonly squaredRadii: Float64Array
  /** Length n: the row number of that neighbour. */
  readonly lastNeighbours: Uint32Array
}

/** Relative room for rounding in the ends of a bracket. */
const ROOM = 1e-9

/** `k` counts the row itself and is lowered to n. `onRow` is called now and then with the rows done. */
export function neighbourRadii(tree: KdTree, k: number, onRow?: (done: number) => void): NeighbourRadii {
  if (!Number.isInteger(k) || k < 1) {
    throw new ArgumentError(`k: expected a whole number of 1 or more, found ${k}`, 'k')
  }
  const search = new RadiusSearch(tree, Math.min(k, tree.points.rows))
  let done = 0
  for (let leaf = 0; leaf < tree.nodes; leaf++) {
    if (tree.seconds[leaf] !== 0) continue
    const start = tree.starts[leaf]!
    const end = tree.ends[leaf]!
    if (start === 0) search.searchAll(leaf, 0)
    else search.searchFrom(leaf, start, 1, start - 1)
    for (let first = start + 1; first < end; first += DISTANCE_TILE_ROWS) {
      search.searchFrom(leaf, first, Math.min(DISTANCE_TILE_ROWS, end - first), start)
    }
    if (onRow !== undefined && end - done >= 256) {
      done = end
      onRow(done)
    }
  }
  return search.found
}

/** Searches the radii of points in the order of the leaves. */
class RadiusSearch {
  readonly found: NeighbourRadii
  readonly #tree: KdTree
  /** Distances of up to four points to all candidates. */
  readonly #tile: Float64Array
  readonly #kept: Float64Array
  readonly #keptIndices: Uint32Array
  /** Starts and ends of the candidates, which may lie in the bracket. */
  readonly #runs: Uint32Array
  readonly #stack: Uint32Array
  #runCount = 0
  #candidates = 0
  /** Points nearer than the bracket. */
  #inside = 0
  readonly #lows = new Float64Array(DISTANCE_TILE_ROWS)
  readonly #highs = new Float64Array(DISTANCE_TILE_ROWS)

  constructor(tree: KdTree, k: number) {
    const n = tree.points.rows
    this.#tree = tree
    this.found = { k, squaredRadii: new Float64Array(n), lastNeighbours: new Uint32Array(n) }
    this.#tile = new Float64Array(DISTANCE_TILE_ROWS * n)
    this.#kept = new Float64Array(n)
    this.#keptIndices = new Uint32Array(n)
    this.#runs = new Uint32Array(2 * (tree.nodes + 1))
    this.#stack = new Uint32Array(tree.nodes + 1)
  }

  /** Point p of `leaf`, without a bracket. */
  searchAll(leaf: number, p: number): void {
    this.#collect(leaf, 0, Number.POSITIVE_INFINITY)
    this.#measure(p, 1)
    this.#settle(p, 0, 0, Number.POSITIVE_INFINITY)
  }

  /** `queries` points of `leaf` from `first` on, bracketed by the radius of the settled point `known`. */
  searchFrom(leaf: number, first: number, queries: number, known: number): void {
    const lows = this.#lows
    const highs = this.#highs
    this.#bracket(first, queries, known)
    let low = Number.POSITIVE_INFINITY
    let high = 0
    for (let q = 0; q < queries; q++) {
      if (!(lows[q]! >= low)) low = lows[q]!
      if (!(highs[q]! <= high)) high = highs[q]!
    }
    let failed = 0
    if (high < Number.POSITIVE_INFINITY) {
      this.#collect(leaf, low, high)
      this.#measure(first, queries)
      for (let q = 0; q < queries; q++) {
        if (!this.#settle(first + q, q, lows[q]!, highs[q]!)) failed |= 1 << q
      }
    } else failed = (1 << queries) - 1
    for (let q = 0; q < queries; q++) if ((failed >> q) & 1) this.searchAll(leaf, first + q)
  }

  /** Collects the runs of points that may lie between `low` and `high` of a point of `leaf`; counts those nearer. */
  #collect(leaf: number, low: number, high: number): void {
    const tree = this.#tree
    const { starts, ends, seconds } = tree
    const runs = this.#runs
    const stack = this.#stack
    let runCount = 0
    let candidates = 0
    let inside = 0
    let depth = 0
    stack[depth++] = 0
    while (depth > 0) {
      const node = stack[--depth]!
      if (squaredGap(tree, leaf, node) > high) continue
      const size = ends[node]! - starts[node]!
      if (low > 0 && squaredReach(tree, leaf, node) < low) {
        inside += size
      } else if (seconds[node] === 0) {
        candidates += size
        if (runCount > 0 && runs[2 * runCount - 1] === starts[node]) runs[2 * runCount - 1] = ends[node]!
        else {
          runs[2 * runCount] = starts[node]!
          runs[2 * runCount + 1] = ends[node]!
          runCount++
        }
      } else {
        stack[depth++] = seconds[node]!
        stack[depth++] = node + 1
      }
    }
    this.#runCount = runCount
    this.#candidates = candidates
    this.#inside = inside
  }

  /** Distances of `queries` points from `first` on to all candidates, row by row of the tile. */
  #measure(first: number, queries: number): void {
    const { cols: d, data } = this.#tree.points
    const runs = this.#runs
    for (let r = 0, at = 0; r < this.#runCount; r++) {
      const start = runs[2 * r]!
      const size = runs[2 * r + 1]! - start
      squaredDistancesOfRows(
        data,
        first * d,
        queries,
        data,
        start * d,
        size,
        d,
        this.#tile,
        at,
        this.#candidates,
      )
      at += size
    }
  }

  /** Settles point p from row `row` of the tile and the bracket of its squared radius; false when it was too narrow. */
  #settle(p: number, row: number, low: number, high: number): boolean {
    const { indices } = this.#tree
    const { k, squaredRadii, lastNeighbours } = this.found
    const tile = this.#tile
    const runs = this.#runs
    const kept = this.#kept
    const keptIndices = this.#keptIndices
    const runCount = this.#runCount
    let below = this.#inside
    let found = 0
    for (let r = 0, at = row * this.#candidates; r < runCount; r++) {
      for (let i = runs[2 * r]!, end = runs[2 * r + 1]!; i < end; i++, at++) {
        const v = tile[at]!
        if (v < low) below++
        else if (v <= high) {
          kept[found] = v
          keptIndices[found] = indices[i]!
          found++
        }
      }
    }
    const rank = k - 1 - below
    if (rank < 0 || rank >= found) return false
    selectPairs(kept, keptIndices, found, rank)
    squaredRadii[indices[p]!] = kept[rank]!
    lastNeighbours[indices[p]!] = keptIndices[rank]!
    return true
  }

  /** Brackets of `queries` squared radii from `first` on, by the radius of the settled point `known`. */
  #bracket(first: number, queries: number, known: number): void {
    const { indices, points } = this.#tree
    const { cols: d, data } = points
    const radius = Math.sqrt(this.found.squaredRadii[indices[known]!]!)
    for (let q = 0; q < queries; q++) {
      const way = Math.sqrt(squaredDistance(data, known * d, data, (first + q) * d, d))
      const low = (radius - way) * (1 - ROOM)
      const high = (radius + way) * (1 + ROOM)
      this.#lows[q] = low > 0 ? low * low : 0
      this.#highs[q] = high * high
    }
  }
}
