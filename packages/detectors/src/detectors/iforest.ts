/**
 * iforest: isolation forest.
 */

import {
  ArgumentError,
  exp,
  MAXIMUM_DIMENSION,
  type Matrix,
  type Rng,
  sampleWithoutReplacement,
} from '@oddflow/core'
import type { DetectorDefinition, FitContext } from '../detector.js'
import { type CWriter, double } from '../export-c/c-text.js'
import { type Fitted, fitStandalone, standalone } from '../families/standalone.js'
import { failField, fieldsAt, int32At, literalAt, numbersAt, wholeAt } from '../fields.js'
import type { ModelFrame } from '../model.js'
import { constant, type ValuesOf, whole, wholeIn } from '../options.js'
import type { CommonParameters } from '../parameters.js'

/**
 * c(n) = 2·H(n − 1) − 2(n − 1)/n: the mean length of an unsuccessful search in a binary search tree of n keys (Liu,
 * Ting and Zhou 2008, equation 1). The paper estimates H(i), the harmonic number, by ln i + 0.5772; here it is summed.
 */

/** c(0) … c(n), n ≥ 1; c(0) is 0. */
export function meanSearchLengths(n: number): Float64Array {
  const lengths = new Float64Array(n + 1)
  let harmonic = 0
  for (let size = 2; size <= n; size++) {
    harmonic += 1 / (size - 1)
    lengths[size] = 2 * harmonic - (2 * (size - 1)) / size
  }
  return lengths
}

/** ceil(log2 n), n ≥ 1: the height at which a tree of n rows stops growing. */
export function heightLimit(n: number): number {
  let height = 0
  for (let size = 1; size < n; size *= 2) height++
  return height
}

/**
 * One isolation tree (Liu, Ting and Zhou 2008, algorithm 2): a node cuts a random column in which its rows differ, as
 * scikit-learn does, at a random point; rows at or below go left. A leaf has one row, equal rows, or the height limit.
 * Nodes are in pre-order: the left child of node v is v + 1, and only the right one is stored.
 */

/** Nodes of a growing forest; arrays of one length, `count` entries in use. */
interface NodeBuffer {
  readonly features: Int32Array
  readonly thresholds: Float64Array
  readonly rightChildren: Int32Array
  readonly sizes: Int32Array
  count: number
}

/** Marks a leaf in `features`. */
const LEAF = -1

/** Room for `trees` trees of `subsampleRows` rows: at most 2ψ − 1 nodes each. */
function createNodeBuffer(trees: number, subsampleRows: number): NodeBuffer {
  const room = trees * (2 * subsampleRows - 1)
  return {
    features: new Int32Array(room),
    thresholds: new Float64Array(room),
    rightChildren: new Int32Array(room),
    sizes: new Int32Array(room),
    count: 0,
  }
}

/** Appends the tree of the rows in `members`, and reorders them. */
function growTree(rows: Matrix, members: Uint32Array, nodes: NodeBuffer, rng: Rng): void {
  const { cols, data } = rows
  const limit = heightLimit(members.length)
  const columns = Uint32Array.from({ length: cols }, (_, t) => t)

  /** A random cut of members[start … end); undefined if these rows are equal. */
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
      // from both ends, because high − low may overflow; stays in [low, high), so both sides get rows
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

/**
 * Isolation forest: rows that random cuts separate early are novel (Liu, Ting and Zhou, "Isolation Forest", ICDM 2008).
 *
 * The path length of x in a tree is the depth of its leaf plus c(rows in that leaf); the score is −s(x) = −2^(−mean
 * path length / c(ψ)), as scikit-learn's `score_samples` but for its estimate of harmonic numbers. A constant column is
 * never cut.
 *
 * All trees are in arrays of N ≤ t(2ψ − 1) nodes, in pre-order. Size: 20 N bytes and 4 t.
 */

export interface IsolationForestModel {
  readonly kind: 'isolation-forest'
  /** D. */
  readonly dimension: number
  /** ψ that was used. */
  readonly subsampleRows: number
  /** Length t, ascending from 0: the root of each tree. */
  readonly treeStarts: Int32Array
  /** Length N: column that a node cuts, −1 in leaves. */
  readonly features: Int32Array
  /** Length N: rows at or below go left, to the next node; 0 in leaves. */
  readonly thresholds: Float64Array
  /** Length N: where the others go; 0 in leaves. */
  readonly rightChildren: Int32Array
  /** Length N: number of subsample rows in the node. */
  readonly sizes: Int32Array
}

/** Constants of one model; holds no scratch. */
interface IsolationForestWorkspace {
  /** Length N: in leaves, depth + c(size). */
  readonly pathLengths: Float64Array
  /** −ln 2 / (t · c(ψ)). */
  readonly exponentFactor: number
}

const MAXIMUM_TREES = 10_000
const MAXIMUM_SUBSAMPLE_ROWS = 65_536
/** t·ψ: a forest has at most twice that many nodes, of 20 bytes. */
const MAXIMUM_LEAVES = 5_000_000

/** Draws from `rng.fork('tree-i')` for tree i. Throws ArgumentError (`trees`) for a forest that takes too much room. */
export function fitIsolationForest(
  rows: Matrix,
  { trees, subsampleRows }: Pick<IforestParameters, 'trees' | 'subsampleRows'>,
  rng: Rng,
): Fitted<IsolationForestModel> {
  const used = Math.min(subsampleRows, rows.rows)
  if (trees * used > MAXIMUM_LEAVES) {
    throw new ArgumentError(
      `trees: expected at most ${Math.floor(MAXIMUM_LEAVES / used)} with ${used} rows each, found ${trees}`,
      'trees',
    )
  }
  const notes =
    used < subsampleRows ? [`subsampleRows lowered from ${subsampleRows} to the ${used} training rows`] : []
  const treeStarts = new Int32Array(trees)
  const one = createNodeBuffer(1, used)
  const grown: Pick<IsolationForestModel, 'features' | 'thresholds' | 'rightChildren' | 'sizes'>[] = []
  let total = 0
  for (let tree = 0; tree < trees; tree++) {
    const own = rng.fork(`tree-${tree}`)
    one.count = 0
    one.thresholds.fill(0)
    one.rightChildren.fill(0)
    growTree(rows, sampleWithoutReplacement(rows.rows, used, own), one, own)
    treeStarts[tree] = total
    const { count } = one
    const base = total
    grown.push({
      features: one.features.slice(0, count),
      thresholds: one.thresholds.slice(0, count),
      rightChildren: one.rightChildren.slice(0, count).map((right) => (right === 0 ? 0 : right + base)),
      sizes: one.sizes.slice(0, count),
    })
    total += count
  }
  const model: IsolationForestModel = {
    kind: 'isolation-forest',
    dimension: rows.cols,
    subsampleRows: used,
    treeStarts,
    features: new Int32Array(total),
    thresholds: new Float64Array(total),
    rightChildren: new Int32Array(total),
    sizes: new Int32Array(total),
  }
  grown.forEach((nodes, tree) => {
    for (const key of ['features', 'thresholds', 'rightChildren', 'sizes'] as const) {
      model[key].set(nodes[key], treeStarts[tree]!)
    }
  })
  return { model, notes }
}

/** The model must come from a fit or from `checkIsolationForestModel`. */
export function createIsolationForestWorkspace(model: IsolationForestModel): IsolationForestWorkspace {
  const { features, rightChildren, sizes, treeStarts, subsampleRows } = model
  const lengths = meanSearchLengths(subsampleRows)
  const pathLengths = new Float64Array(features.length)
  // depths first, in place: parents come before children
  for (let node = 0; node < features.length; node++) {
    const depth = pathLengths[node]!
    if (features[node] === LEAF) {
      pathLengths[node] = depth + lengths[sizes[node]!]!
    } else {
      pathLengths[node + 1] = depth + 1
      pathLengths[rightChildren[node]!] = depth + 1
    }
  }
  return {
    pathLengths,
    exponentFactor: -Math.LN2 / (treeStarts.length * lengths[subsampleRows]!),
  }
}

/** out[i] = −s(row i), in (−1, 0); returns `out`. */
export function scoreIsolationForest(
  model: IsolationForestModel,
  { rows: n, data }: Matrix,
  out: Float64Array,
  { pathLengths, exponentFactor }: IsolationForestWorkspace,
): Float64Array {
  const { dimension, treeStarts, features, thresholds, rightChildren } = model
  for (let i = 0; i < n; i++) {
    const start = i * dimension
    let sum = 0
    for (let tree = 0; tree < treeStarts.length; tree++) {
      let node = treeStarts[tree]!
      for (let feature = features[node]!; feature >= 0; feature = features[node]!) {
        node = data[start + feature]! <= thresholds[node]! ? node + 1 : rightChildren[node]!
      }
      sum += pathLengths[node]!
    }
    out[i] = -exp(exponentFactor * sum)
  }
  return out
}

/**
 * Checks that a value is an isolation forest that a scorer can walk.
 *
 * Each tree must be a pre-order tree that fills its part of the arrays: children come after their parent, the right one
 * where the left subtree ends; sizes add up from leaves of at least one row to ψ at the root; no path is longer than
 * ceil(log2 ψ); leaves have no other data. So every walk ends inside the arrays.
 */

/** The value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError. */
export function checkIsolationForestModel(value: unknown, path = 'isolationForest'): IsolationForestModel {
  const fields = fieldsAt(value, path)
  const kind = literalAt(fields.kind, `${path}.kind`, 'isolation-forest')
  const dimension = wholeAt(fields.dimension, `${path}.dimension`, 1, MAXIMUM_DIMENSION)
  const subsampleRows = wholeAt(fields.subsampleRows, `${path}.subsampleRows`, 2, MAXIMUM_SUBSAMPLE_ROWS)
  const treeStarts = int32At(fields.treeStarts, `${path}.treeStarts`)
  wholeAt(treeStarts.length, `${path}.treeStarts.length`, 1, MAXIMUM_TREES)
  const features = int32At(fields.features, `${path}.features`)
  const count = features.length
  const thresholds = numbersAt(fields.thresholds, `${path}.thresholds`, count)
  const rightChildren = int32At(fields.rightChildren, `${path}.rightChildren`, count)
  const sizes = int32At(fields.sizes, `${path}.sizes`, count)
  const model: IsolationForestModel = {
    kind,
    dimension,
    subsampleRows,
    treeStarts,
    features,
    thresholds,
    rightChildren,
    sizes,
  }
  let end = 0
  for (let tree = 0; tree < treeStarts.length; tree++) {
    if (treeStarts[tree] !== end) {
      failField(`${path}.treeStarts[${tree}]`, `${end}, where the tree before ends`, treeStarts[tree])
    }
    end = checkTree(model, end, path)
  }
  if (end !== count) failField(`${path}.features`, `${end} nodes, all in trees`, count)
  return model
}

/** Checks the tree with its root at `root`; returns the node after its last. */
function checkTree(model: IsolationForestModel, root: number, path: string): number {
  const { dimension, subsampleRows, features, thresholds, rightChildren, sizes } = model
  const limit = heightLimit(subsampleRows)
  // the nodes above the present one with pending right subtrees, nearest last
  const waiting: { node: number; depth: number }[] = []
  let depth = 0
  for (let node = root; ; node++) {
    if (node >= features.length) failField(`${path}.features`, 'nodes to the end of the last tree', node)
    const size = sizes[node]!
    const feature = features[node]!
    if (node === root && size !== subsampleRows) {
      failField(`${path}.sizes[${node}]`, `${subsampleRows}, the rows of a tree`, size)
    }
    if (feature !== LEAF) {
      if (!(feature >= 0 && feature < dimension)) {
        failField(`${path}.features[${node}]`, `−1 or a column below ${dimension}`, feature)
      }
      if (depth >= limit) failField(`${path}.features[${node}]`, `a leaf at depth ${limit}`, feature)
      waiting.push({ node, depth })
      depth++
      continue
    }
    if (size < 1) failField(`${path}.sizes[${node}]`, 'at least one row in a leaf', size)
    if (thresholds[node] !== 0) failField(`${path}.thresholds[${node}]`, '0 in a leaf', thresholds[node])
    if (rightChildren[node] !== 0) {
      failField(`${path}.rightChildren[${node}]`, '0 in a leaf', rightChildren[node])
    }
    const parent = waiting.pop()
    if (parent === undefined) {
      checkSums(model, root, node + 1, path)
      return node + 1
    }
    if (rightChildren[parent.node] !== node + 1) {
      const expected = `${node + 1}, where its left subtree ends`
      failField(`${path}.rightChildren[${parent.node}]`, expected, rightChildren[parent.node])
    }
    depth = parent.depth + 1
  }
}

function checkSums(model: IsolationForestModel, root: number, end: number, path: string): void {
  const { features, rightChildren, sizes } = model
  for (let node = root; node < end; node++) {
    if (features[node] === LEAF) continue
    const sum = sizes[node + 1]! + sizes[rightChildren[node]!]!
    if (sizes[node] !== sum) {
      failField(`${path}.sizes[${node}]`, `${sum}, the rows of its children`, sizes[node])
    }
  }
}

const OWN = {
  trees: whole(1, 10_000, 100, { group: 'Other detectors', help: 'trees of the forest' }),
  /** Rows to grow each tree on; lowered to the number of training rows. */
  subsampleRows: constant<number>(256, wholeIn(2, 65_536)),
}

/** Checked parameters of an isolation forest. */
export interface IforestParameters extends CommonParameters<'iforest'>, ValuesOf<typeof OWN> {}

/** A fitted isolation forest. */
export interface IforestModel extends ModelFrame<IforestParameters> {
  readonly isolationForest: IsolationForestModel
}

export function fitIforest(rows: Matrix, parameters: IforestParameters, context: FitContext): IforestModel {
  const { frame, part } = fitStandalone(rows, parameters, context, fitIsolationForest)
  return { ...frame, isolationForest: part }
}

export const iforest: DetectorDefinition<IforestParameters, IforestModel, typeof OWN> = standalone({
  name: 'iforest',
  summary: 'isolation forest',
  own: OWN,
  field: 'isolationForest',
  metadata: ['kind', 'dimension', 'subsampleRows'],
  tensors: {
    treeStarts: 'int32',
    features: 'int32',
    thresholds: 'vector',
    rightChildren: 'int32',
    sizes: 'int32',
  },
  createWorkspace: createIsolationForestWorkspace,
  score: scoreIsolationForest,
  check(value, { trees, subsampleRows }, field) {
    const part = checkIsolationForestModel(value, field)
    if (part.treeStarts.length !== trees) {
      failField(`${field}.treeStarts`, `${trees} trees`, part.treeStarts.length)
    }
    if (part.subsampleRows > subsampleRows) {
      failField(`${field}.subsampleRows`, `at most ${subsampleRows}`, part.subsampleRows)
    }
    return part
  },
  dimensionOf: ({ dimension }) => dimension,
  // a threshold counts as one number; the four whole numbers of half its width count as two
  spaceNumbers: ({ features, treeStarts }) => 2.5 * features.length + 0.5 * treeStarts.length,
  facts: ({ treeStarts, subsampleRows, features }) => [
    {
      label: 'forest',
      value: `${treeStarts.length} trees of ${subsampleRows} rows, ${features.length} nodes`,
    },
  ],
  figures: ({ treeStarts, features }) => ({ trees: treeStarts.length, nodes: features.length }),
})

// ---- C

export function writeIforest(c: CWriter, { isolationForest: forest }: IforestModel, prefix: string): void {
  const { pathLengths, exponentFactor } = createIsolationForestWorkspace(forest)
  c.need('forest', 'exp')
  const tables = [
    c.table(`${prefix}tree_starts`, 'int32_t', forest.treeStarts),
    c.table(`${prefix}features`, 'int32_t', forest.features),
    c.table(`${prefix}thresholds`, 'double', forest.thresholds),
    c.table(`${prefix}right_children`, 'int32_t', forest.rightChildren),
    c.table(`${prefix}path_lengths`, 'double', pathLengths),
  ]
  const length = `$forest(x, ${tables.join(', ')}, ${forest.treeStarts.length})`
  c.scoreScaled(prefix, `-$exp(${double(exponentFactor)} * ${length})`)
}
