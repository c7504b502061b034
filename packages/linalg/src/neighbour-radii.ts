/**
 * How far is each point's k-th nearest neighbour? Without finding the other k − 1.
 *
 * Density methods ask for the radius alone, and with k growing as n^(2/3) lists of neighbours would be most of their
 * time and nearly all of their memory. The radius changes by no more than one moves: |r(x) − r(y)| ≤ ‖x − y‖. So the
 * radius of one point brackets those of the points around it; in a tree, the groups within the lower end of the bracket
 * are counted as they are, those beyond the upper end passed over, and distances are taken in the shell between. There
 * the one of the right rank is selected. A bracket that rounding made too narrow shows in the counts, and the point is
 * searched again without one: the result never depends on it.
 *
 * Distances are by direct differences and ties by index, the point itself among its neighbours: radii and last
 * neighbours are those of `nearestNeighbours`. n·k memory becomes n; time depends on how the points lie, far below n²
 * in few dimensions and near it where boxes tell nothing.
 */
import { ArgumentError } from '@oddflow/core'
import { type KdTree, squaredGap, squaredReach } from './kd-tree.js'
import { selectPairs } from './select-pairs.js'
import {
  DISTANCE_TILE_ROWS,
  squaredDistance,
  squaredDistances,
  squaredDistancesOfFour,
} from './squared-distances.js'

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
  const { points, indices, starts, ends, seconds } = tree
  const { rows: n, cols: d, data } = points
  const count = Math.min(k, n)
  const squaredRadii = new Float64Array(n)
  const lastNeighbours = new Uint32Array(n)
  const tile = new Float64Array(DISTANCE_TILE_ROWS * n)
  const kept = new Float64Array(n)
  const keptIndices = new Uint32Array(n)
  const runs = new Uint32Array(2 * (tree.nodes + 1))
  const stack = new Uint32Array(tree.nodes + 1)
  let runCount = 0
  let candidates = 0
  let inside = 0

  /** Collects the runs of points that may lie between `low` and `high` of a point of `leaf`; counts those nearer. */
  function collect(leaf: number, low: number, high: number): void {
    runCount = 0
    candidates = 0
    inside = 0
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
  }

  /** Distances of `queries` points from `first` on to all candidates, row by row of `tile`. */
  function measure(first: number, queries: number): void {
    for (let r = 0, at = 0; r < runCount; r++) {
      const start = runs[2 * r]!
      const size = runs[2 * r + 1]! - start
      if (queries === DISTANCE_TILE_ROWS) {
        squaredDistancesOfFour(data, first * d, data, start * d, size, d, tile, at, candidates)
      } else {
        for (let q = 0; q < queries; q++) {
          squaredDistances(data, (first + q) * d, data, start * d, size, d, tile, q * candidates + at)
        }
      }
      at += size
    }
  }

  /** Settles point p from row `row` of `tile` and the bracket of its squared radius; false when it was too narrow. */
  function settle(p: number, row: number, low: number, high: number): boolean {
    let below = inside
    let found = 0
    for (let r = 0, at = row * candidates; r < runCount; r++) {
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
    const rank = count - 1 - below
    if (rank < 0 || rank >= found) return false
    selectPairs(kept, keptIndices, found, rank)
    squaredRadii[indices[p]!] = kept[rank]!
    lastNeighbours[indices[p]!] = keptIndices[rank]!
    return true
  }

  function searchAll(leaf: number, p: number): void {
    collect(leaf, 0, Number.POSITIVE_INFINITY)
    measure(p, 1)
    settle(p, 0, 0, Number.POSITIVE_INFINITY)
  }

  const lows = new Float64Array(DISTANCE_TILE_ROWS)
  const highs = new Float64Array(DISTANCE_TILE_ROWS)

  /** Brackets of `queries` squared radii from `first` on, by the radius of the settled point `known`. */
  function bracket(first: number, queries: number, known: number): void {
    const radius = Math.sqrt(squaredRadii[indices[known]!]!)
    for (let q = 0; q < queries; q++) {
      const way = Math.sqrt(squaredDistance(data, known * d, data, (first + q) * d, d))
      const low = (radius - way) * (1 - ROOM)
      const high = (radius + way) * (1 + ROOM)
      lows[q] = low > 0 ? low * low : 0
      highs[q] = high * high
    }
  }

  let done = 0
  for (let leaf = 0; leaf < tree.nodes; leaf++) {
    if (seconds[leaf] !== 0) continue
    const start = starts[leaf]!
    const end = ends[leaf]!
    if (start === 0) searchAll(leaf, 0)
    else settleFrom(leaf, start, 1, start - 1)
    for (let first = start + 1; first < end; first += DISTANCE_TILE_ROWS) {
      settleFrom(leaf, first, Math.min(DISTANCE_TILE_ROWS, end - first), start)
    }
    if (onRow !== undefined && end - done >= 256) {
      done = end
      onRow(done)
    }
  }

  function settleFrom(leaf: number, first: number, queries: number, known: number): void {
    bracket(first, queries, known)
    let low = Number.POSITIVE_INFINITY
    let high = 0
    for (let q = 0; q < queries; q++) {
      if (!(lows[q]! >= low)) low = lows[q]!
      if (!(highs[q]! <= high)) high = highs[q]!
    }
    if (!(high < Number.POSITIVE_INFINITY)) {
      for (let q = 0; q < queries; q++) searchAll(leaf, first + q)
      return
    }
    collect(leaf, low, high)
    measure(first, queries)
    let failed = 0
    for (let q = 0; q < queries; q++) {
      if (!settle(first + q, q, lows[q]!, highs[q]!)) failed |= 1 << q
    }
    for (let q = 0; q < queries; q++) if ((failed >> q) & 1) searchAll(leaf, first + q)
  }
  return { k: count, squaredRadii, lastNeighbours }
}
