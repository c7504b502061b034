/**
 * Is this value an isolation forest that a scorer can walk?
 *
 * Each tree must be a pre-order tree that fills its stretch of the arrays: children stand after their parent,
 * the right one where the left subtree ends; sizes add up from leaves of at least one row to ψ at the root; no
 * path is longer than ceil(log2 ψ); leaves carry nothing else. A walk then always ends, inside the arrays.
 */
import { MAXIMUM_DIMENSION } from '@oddflow/core'
import { fieldsOf, float64Field, int32Field, literalField, refuseField, wholeField } from '../model-fields.js'
import { LEAF } from './grow-tree.js'
import { type IsolationForestModel, MAXIMUM_SUBSAMPLE_ROWS, MAXIMUM_TREES } from './isolation-forest.js'
import { heightLimit } from './path-length.js'

/** The value as a model with exactly the known fields (arrays are not copied). Throws FormatError. */
export function checkIsolationForestModel(value: unknown, path = 'isolationForest'): IsolationForestModel {
  const fields = fieldsOf(value, path)
  const kind = literalField(fields.kind, `${path}.kind`, 'isolation-forest')
  const dimension = wholeField(fields.dimension, `${path}.dimension`, 1, MAXIMUM_DIMENSION)
  const subsampleRows = wholeField(fields.subsampleRows, `${path}.subsampleRows`, 2, MAXIMUM_SUBSAMPLE_ROWS)
  const treeStarts = int32Field(fields.treeStarts, `${path}.treeStarts`)
  wholeField(treeStarts.length, `${path}.treeStarts.length`, 1, MAXIMUM_TREES)
  const features = int32Field(fields.features, `${path}.features`)
  const count = features.length
  const thresholds = float64Field(fields.thresholds, `${path}.thresholds`, count)
  const rightChildren = int32Field(fields.rightChildren, `${path}.rightChildren`, count)
  const sizes = int32Field(fields.sizes, `${path}.sizes`, count)
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
      refuseField(`${path}.treeStarts[${tree}]`, `${end}, where the tree before ends`, treeStarts[tree])
    }
    end = checkTree(model, end, path)
  }
  if (end !== count) refuseField(`${path}.features`, `${end} nodes, all in trees`, count)
  return model
}

/** Checks the tree with its root at `root`; returns the node after its last. */
function checkTree(model: IsolationForestModel, root: number, path: string): number {
  const { dimension, subsampleRows, features, thresholds, rightChildren, sizes } = model
  const limit = heightLimit(subsampleRows)
  // the nodes above the present one whose right subtrees are still to come, nearest last
  const waiting: { node: number; depth: number }[] = []
  let depth = 0
  for (let node = root; ; node++) {
    if (node >= features.length) refuseField(`${path}.features`, 'nodes to the end of the last tree', node)
    const size = sizes[node]!
    const feature = features[node]!
    if (node === root && size !== subsampleRows) {
      refuseField(`${path}.sizes[${node}]`, `${subsampleRows}, the rows of a tree`, size)
    }
    if (feature !== LEAF) {
      if (!(feature >= 0 && feature < dimension)) {
        refuseField(`${path}.features[${node}]`, `−1 or a column below ${dimension}`, feature)
      }
      if (depth >= limit) refuseField(`${path}.features[${node}]`, `a leaf at depth ${limit}`, feature)
      waiting.push({ node, depth })
      depth++
      continue
    }
    if (size < 1) refuseField(`${path}.sizes[${node}]`, 'at least one row in a leaf', size)
    if (thresholds[node] !== 0) refuseField(`${path}.thresholds[${node}]`, '0 in a leaf', thresholds[node])
    if (rightChildren[node] !== 0) {
      refuseField(`${path}.rightChildren[${node}]`, '0 in a leaf', rightChildren[node])
    }
    const parent = waiting.pop()
    if (parent === undefined) {
      checkSums(model, root, node + 1, path)
      return node + 1
    }
    if (rightChildren[parent.node] !== node + 1) {
      const expected = `${node + 1}, where its left subtree ends`
      refuseField(`${path}.rightChildren[${parent.node}]`, expected, rightChildren[parent.node])
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
      refuseField(`${path}.sizes[${node}]`, `${sum}, the rows of its children`, sizes[node])
    }
  }
}
