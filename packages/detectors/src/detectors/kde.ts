/**
 * kde: the kernel density estimate over the training rows, or a sample of them.
 */
import { sizeUpTo } from '../check-parts.js'
import { BANDWIDTH_OPTIONS, bandwidthFact } from '../families/embedded.js'
import { standalone } from '../families/standalone.js'
import {
  checkKernelDensityModel,
  createKernelDensityWorkspace,
  fitKernelDensity,
  scoreKernelDensity,
} from '../kernel-density/kernel-density.js'
import type { KdeModel } from '../model.js'
import { fieldsOf } from '../model-fields.js'
import { matrixTensor } from '../model-file/parts.js'
import type { KdeParameters } from '../parameters.js'

export const kde = standalone({
  name: 'kde',
  summary: 'Gaussian kernel density over the training rows',
  options: [...BANDWIDTH_OPTIONS, 'maximumRows'],
  field: 'kernelDensity',
  hasMetadata: true,
  checkParameters: (given): KdeParameters => ({
    detector: 'kde',
    scaler: given.scaler(),
    ...given.bandwidth(),
    maximumRows: given.whole('maximumRows', 1, 1_000_000),
  }),
  fit: fitKernelDensity,
  wrap: (frame, kernelDensity): KdeModel => ({ ...frame, kernelDensity }),
  partOf: (model: KdeModel) => model.kernelDensity,
  createWorkspace: createKernelDensityWorkspace,
  score: scoreKernelDensity,
  check(value, { maximumRows }, field) {
    const part = checkKernelDensityModel(value, field)
    sizeUpTo(part.centres.rows, maximumRows, `${field}.centres.rows`)
    return part
  },
  dimensionOf: ({ centres }) => centres.cols,
  encode: ({ kind, bandwidth, centres }) => ({
    metadata: { kernelDensity: { kind, bandwidth } },
    tensors: { 'kernelDensity.centres': matrixTensor(centres) },
  }),
  decode(file) {
    const { kind, bandwidth } = fieldsOf(file.json('kernelDensity'), 'kernelDensity')
    return { kind, bandwidth, centres: file.matrix('kernelDensity.centres') }
  },
  spaceNumbers: ({ centres }) => centres.data.length,
  facts: ({ bandwidth, centres }, parameters) => [
    bandwidthFact(bandwidth, parameters),
    { label: 'kernels', value: `${centres.rows}` },
  ],
  figures: ({ bandwidth, centres }) => ({ bandwidth, kernels: centres.rows }),
})
