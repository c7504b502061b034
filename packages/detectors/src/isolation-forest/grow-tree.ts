/**
 * One isolation tree (Liu, Ting and Zhou 2008, algorithm 2).
 *
 * A node takes a column at random among those in which its rows differ and cuts it at random between their
 * smallest and largest value; rows at or below the cut go left. It is a leaf when it has one row, when its rows
 * are all equal or at the height limit ceil(log2 ψ). The paper draws from all columns; choosing among the
 * columns that can be cut, as scikit-learn does, wastes no level on constant ones.
 *
 * Nodes are written in pre-order: the left child of node v is v + 1, and only the right one is stored.
 */
import type { Matrix, Rng } from '@oddflow/core'
import { heightLimit } from './path-length.js'

/** Nodes of a forest under growth; arrays of one length, `count` of them in use. */
export interface NodeBuffer {
  readonly features: Int32Array
  readonly thresholds: Float64Array
  readonly rightChildren: Int32Array
  readonly sizes: Int32Array
  count: number
}

/** Marks a leaf in `features`. */
export const LEAF = -1

/** Room for `trees` trees of `subsampleRows` rows: at most 2ψ − 1 nodes each. */
export function createNodeBuffer(trees: number, subsampleRows: number): NodeBuffer {
  const room = trees * (2 * subsampleRows - 1)
  return {
    features: new Int32Array(room),
    thresholds: new Float64Array(room),
    rightChildren: new Int32Array(room),
    sizes: new Int32Array(room),
    count: 0,
  }
}

/** Appends the tree of the rows numbered in `members`, whose order is changed. */
export function growTree(rows: Matrix, members: Uint32Array, nodes: NodeBuffer, rng: Rng): void {
  const { cols, data } = rows
  const limit = heightLimit(members.length)
  const columns = Uint32Array.from({ length: cols }, (_, t) => t)

  /** A random cut of members[start … end); undefined when these rows are equal. */
  const chooseCut = (start: number, end: number): { feature: number; threshold: number } | undefined => {
    for (let left = cols; left > 0; left--) {
      const at = rng.nextBelow(left)
      const feature = columns[at]!
      columns[at] = columns[left - 1]!
      columns[left - 1] = feature
      let low = Number.POSITIVE_INFINITY
      let high = Number.NEGATIVE_INFINITY
      for (let i = start; i < end; i++) {
        const v = data[members[i]! * cols + feature]!
        if (v < low) low = v
        if (v > high) high = v
      }
      if (!(low < high)) continue
      const u = rng.nextFloat()
      // of both ends, because high − low may overflow; kept in [low, high), so that both sides get rows
      const cut = (1 - u) * low + u * high
      return { feature, threshold: cut >= low && cut < high ? cut : low }
    }
    return undefined
  }

  const grow = (start: number, end: number, height: number): void => {
    const node = nodes.count++
    nodes.sizes[node] = end - start
    const cut = end - start > 1 && height < limit ? chooseCut(start, end) : undefined
    if (cut === undefined) {
      nodes.features[node] = LEAF
      return
    }
    const { feature, threshold } = cut
    nodes.features[node] = feature
    nodes.thresholds[node] = threshold
    let middle = start
    for (let i = start; i < end; i++) {
      const member = members[i]!
      if (!(data[member * cols + feature]! <= threshold)) continue
      members[i] = members[middle]!
      members[middle++] = member
    }
    grow(start, middle, height + 1)
    nodes.rightChildren[node] = nodes.count
    grow(middle, end, height + 1)
  }

  grow(0, members.length, 0)
}
