/**
 * iforest: isolation forest.
 */
import { failField } from '../check-parts.js'
import { standalone } from '../families/standalone.js'
import { checkIsolationForestModel } from '../isolation-forest/check-isolation-forest.js'
import {
  createIsolationForestWorkspace,
  fitIsolationForest,
  MAXIMUM_SUBSAMPLE_ROWS,
  MAXIMUM_TREES,
  scoreIsolationForest,
} from '../isolation-forest/isolation-forest.js'
import type { IforestModel } from '../model.js'
import { fieldsOf } from '../model-fields.js'
import { int32Tensor, vectorTensor } from '../model-file/parts.js'
import type { IforestParameters } from '../parameters.js'

export const iforest = standalone({
  name: 'iforest',
  summary: 'isolation forest',
  options: ['trees', 'subsampleRows'],
  field: 'isolationForest',
  hasMetadata: true,
  checkParameters: (given): IforestParameters => ({
    detector: 'iforest',
    scaler: given.scaler(),
    trees: given.whole('trees', 1, MAXIMUM_TREES),
    subsampleRows: given.whole('subsampleRows', 2, MAXIMUM_SUBSAMPLE_ROWS),
  }),
  fit: fitIsolationForest,
  wrap: (frame, isolationForest): IforestModel => ({ ...frame, isolationForest }),
  partOf: (model: IforestModel) => model.isolationForest,
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
  encode: ({ kind, dimension, subsampleRows, ...arrays }) => ({
    metadata: { isolationForest: { kind, dimension, subsampleRows } },
    tensors: {
      'isolationForest.features': int32Tensor(arrays.features),
      'isolationForest.rightChildren': int32Tensor(arrays.rightChildren),
      'isolationForest.sizes': int32Tensor(arrays.sizes),
      'isolationForest.thresholds': vectorTensor(arrays.thresholds),
      'isolationForest.treeStarts': int32Tensor(arrays.treeStarts),
    },
  }),
  decode(file) {
    const { kind, dimension, subsampleRows } = fieldsOf(file.json('isolationForest'), 'isolationForest')
    return {
      kind,
      dimension,
      subsampleRows,
      treeStarts: file.int32('isolationForest.treeStarts'),
      features: file.int32('isolationForest.features'),
      thresholds: file.vector('isolationForest.thresholds'),
      rightChildren: file.int32('isolationForest.rightChildren'),
      sizes: file.int32('isolationForest.sizes'),
    }
  },
  // a threshold is one number, the four whole numbers of half its width are two
  spaceNumbers: ({ features, treeStarts }) => 2.5 * features.length + 0.5 * treeStarts.length,
  facts: ({ treeStarts, subsampleRows, features }) => [
    {
      label: 'forest',
      value: `${treeStarts.length} trees of ${subsampleRows} rows, ${features.length} nodes`,
    },
  ],
  figures: ({ treeStarts, features }) => ({ trees: treeStarts.length, nodes: features.length }),
})
