/**
 * pca: reconstruction error of principal components.
 */
import { standalone } from '../families/standalone.js'
import type { PcaModel } from '../model.js'
import { matrixTensor, vectorTensor } from '../model-file/parts.js'
import type { PcaParameters } from '../parameters.js'
import {
  checkPrincipalComponentsModel,
  createPrincipalComponentsWorkspace,
  fitPrincipalComponents,
  scorePrincipalComponents,
} from '../principal-components/principal-components.js'

export const pca = standalone({
  name: 'pca',
  summary: 'reconstruction error of principal components',
  options: ['varianceShare'],
  field: 'principalComponents',
  hasMetadata: false,
  checkParameters: (given): PcaParameters => ({
    detector: 'pca',
    scaler: given.scaler(),
    varianceShare: given.fraction('varianceShare'),
  }),
  fit: (rows, parameters) => fitPrincipalComponents(rows, parameters),
  wrap: (frame, principalComponents): PcaModel => ({ ...frame, principalComponents }),
  partOf: (model: PcaModel) => model.principalComponents,
  createWorkspace: createPrincipalComponentsWorkspace,
  score: scorePrincipalComponents,
  check: (value, _, field) => checkPrincipalComponentsModel(value, field),
  dimensionOf: ({ mean }) => mean.length,
  encode: ({ mean, components }) => ({
    metadata: {},
    tensors: {
      'principalComponents.components': matrixTensor(components),
      'principalComponents.mean': vectorTensor(mean),
    },
  }),
  decode: (file) => ({
    kind: 'principal-components',
    mean: file.vector('principalComponents.mean'),
    components: file.matrix('principalComponents.components'),
  }),
  spaceNumbers: ({ mean, components }) => mean.length + components.data.length,
  facts: ({ components }) => [{ label: 'components', value: `${components.rows} of ${components.cols}` }],
  figures: ({ components }) => ({ components: components.rows }),
})
