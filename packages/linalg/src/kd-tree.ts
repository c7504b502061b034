/**
 * KdTree: points in boxes within boxes, so that whole groups of points can be passed over (Bentley, 1975).
 *
 * Each node halves its points at the median of the dimension in which they are spread widest; nodes of at most
 * LEAF_POINTS points are leaves. The points are copied in the order of the leaves, so a node's points lie side by
 * side and the distance kernels can take them in one run.
 *
 * Bounds are exact in floating point, not nearly so: rounding is monotonic, and a bound adds the same terms in the
 * same order as `squaredDistance` does, each term no larger (or no smaller) than the distance's own. So a group that
 * is passed over by its bound holds no point that the distances themselves would have let in.
 *
 * Points are finite. n·log n time, about twice the points' memory.
 */
import type { Matrix } from '@oddflow/core'
import { selectPairs } from './select-pairs.js'

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
