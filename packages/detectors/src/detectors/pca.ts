/**
 * pca: reconstruction error of principal components.
 */
import { failField } from '../check-parts.js'
import { standalone } from '../families/standalone.js'
import type { PcaModel } from '../model.js'
import { matrixTensor, vectorTensor } from '../model-file/parts.js'
import { badOption } from '../option-reader.js'
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
  options: ['varianceShare', 'components'],
  field: 'principalComponents',
  hasMetadata: false,
  checkParameters(given): PcaParameters {
    const components = given.components()
    if (components !== null && given.has('varianceShare')) {
      throw badOption('varianceShare', 'none beside a number of components', 'one')
    }
    const varianceShare = components === null ? given.fraction('varianceShare') : null
    return { detector: 'pca', scaler: given.scaler(), varianceShare, components }
  },
  fit: (rows, parameters) => fitPrincipalComponents(rows, parameters),
  wrap: (frame, principalComponents): PcaModel => ({ ...frame, principalComponents }),
  partOf: (model: PcaModel) => model.principalComponents,
  createWorkspace: createPrincipalComponentsWorkspace,
  score: scorePrincipalComponents,
  check(value, { components }, field) {
    const part = checkPrincipalComponentsModel(value, field)
    if (components !== null && part.components.rows !== components) {
      failField(`${field}.components.rows`, `${components}`, part.components.rows)
    }
    return part
  },
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
