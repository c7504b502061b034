/**
 * Isolation forest: rows that random cuts separate early are novel (Liu, Ting and Zhou, "Isolation Forest",
 * ICDM 2008).
 *
 * t trees, each grown on ψ rows drawn without replacement (grow-tree.ts). The path length of x in a tree is the
 * depth of its leaf plus c(rows in that leaf), the anomaly score s(x) = 2^(−mean path length / c(ψ)), and the
 * score here −s(x), in (−1, 0): −0.5 is what an average row of structureless data gets. scikit-learn's
 * `score_samples` is the same number but for its estimate of harmonic numbers and its float32 rows.
 *
 * A column of one number is never cut, so a value that differs there later does not count: the paper's definition. Every
 * other detector here counts it.
 *
 * Shapes: all trees side by side in arrays of N nodes, N ≤ t(2ψ − 1), in pre-order; scoring a row visits at
 * most t·(ceil(log2 ψ) + 1) of them. Space: 20 N bytes and 4 t.
 */
import {
  ArgumentError,
  exp,
  type Matrix,
  type MatrixLike,
  type Rng,
  sampleWithoutReplacement,
} from '@oddflow/core'
import { checkedScoringRows, checkedTrainingRows, checkWhole, type Fitted } from '../checked-rows.js'
import { createNodeBuffer, growTree, LEAF } from './grow-tree.js'
import { meanSearchLengths } from './path-length.js'

export interface IsolationForestParameters {
  /** t, 1 … 10,000; the paper's 100. */
  readonly trees: number
  /** ψ, 2 … 65,536; the paper's 256. Lowered to the number of rows. */
  readonly subsampleRows: number
}

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
  /** Length N: rows of the subsample that came to the node. */
  readonly sizes: Int32Array
}

/** Constants of one model; holds no scratch. */
export interface IsolationForestWorkspace {
  readonly model: IsolationForestModel
  /** Length N: in leaves, depth + c(size). */
  readonly pathLengths: Float64Array
  /** −ln 2 / (t · c(ψ)). */
  readonly exponentFactor: number
}

export const MAXIMUM_TREES = 10_000
export const MAXIMUM_SUBSAMPLE_ROWS = 65_536
/** t·ψ: a forest has at most twice as many nodes, of 20 bytes. */
const MAXIMUM_LEAVES = 5_000_000

/**
 * Grows a forest on rows (n × D, n ≥ 2, not all equal), drawing from `rng.fork('tree-i')` for tree i. Throws
 * ArgumentError (`trees`, `subsampleRows`, `rows`) and DataError.
 */
export function fitIsolationForest(
  rows: Matrix | MatrixLike,
  { trees, subsampleRows }: IsolationForestParameters,
  rng: Rng,
): Fitted<IsolationForestModel> {
  checkWhole('trees', trees, 1, MAXIMUM_TREES)
  checkWhole('subsampleRows', subsampleRows, 2, MAXIMUM_SUBSAMPLE_ROWS)
  const matrix = checkedTrainingRows(rows)
  const used = Math.min(subsampleRows, matrix.rows)
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
  const grown: { features: Int32Array; thresholds: Float64Array; rights: Int32Array; sizes: Int32Array }[] =
    []
  let total = 0
  for (let tree = 0; tree < trees; tree++) {
    const own = rng.fork(`tree-${tree}`)
    one.count = 0
    one.thresholds.fill(0)
    one.rightChildren.fill(0)
    growTree(matrix, sampleWithoutReplacement(matrix.rows, used, own), one, own)
    treeStarts[tree] = total
    const { count } = one
    const base = total
    grown.push({
      features: one.features.slice(0, count),
      thresholds: one.thresholds.slice(0, count),
      rights: one.rightChildren.slice(0, count).map((right) => (right === 0 ? 0 : right + base)),
      sizes: one.sizes.slice(0, count),
    })
    total += count
  }
  const model: IsolationForestModel = {
    kind: 'isolation-forest',
    dimension: matrix.cols,
    subsampleRows: used,
    treeStarts,
    features: new Int32Array(total),
    thresholds: new Float64Array(total),
    rightChildren: new Int32Array(total),
    sizes: new Int32Array(total),
  }
  grown.forEach(({ features, thresholds, rights, sizes }, tree) => {
    const start = treeStarts[tree]!
    model.features.set(features, start)
    model.thresholds.set(thresholds, start)
    model.rightChildren.set(rights, start)
    model.sizes.set(sizes, start)
  })
  return { model, notes }
}

/** The model must have come from a fit or through `checkIsolationForestModel`. */
export function createIsolationForestWorkspace(model: IsolationForestModel): IsolationForestWorkspace {
  const { features, rightChildren, sizes, treeStarts, subsampleRows } = model
  const lengths = meanSearchLengths(subsampleRows)
  const pathLengths = new Float64Array(features.length)
  // depths first, in place: a parent stands before its children
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
    model,
    pathLengths,
    exponentFactor: -Math.LN2 / (treeStarts.length * lengths[subsampleRows]!),
  }
}

/**
 * out[i] = −s(row i), in (−1, 0); returns `out`. Throws ArgumentError when a row is not finite or not D wide,
 * `out` is too short or the workspace another model's.
 */
export function scoreIsolationForest(
  model: IsolationForestModel,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: IsolationForestWorkspace,
): Float64Array {
  const { dimension, treeStarts, features, thresholds, rightChildren } = model
  const { rows: n, data } = checkedScoringRows(model, dimension, rows, out, workspace)
  const { pathLengths, exponentFactor } = workspace
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
