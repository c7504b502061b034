/** Mixtures in a model file: weights (k), means (k × d), and factors in the shape of their covariance type. */
import type { Tensor } from '@oddflow/core'
import type { TypedMixture } from '../mixture-types/typed-mixture.js'
import type { MixtureModel } from '../model.js'
import type { Fields } from '../model-fields.js'
import { type ModelFileReader, matrixTensor, vectorTensor } from '../model-file/parts.js'
import type { CovarianceType } from '../parameters.js'

export function encodeFullMixture(mixture: MixtureModel): Readonly<Record<string, Tensor>> {
  return encodeMixture(mixture)
}

export function decodeFullMixture(file: ModelFileReader): Fields {
  return decodeMixture(file, 'full')
}

export function encodeMixture(mixture: MixtureModel | TypedMixture): Readonly<Record<string, Tensor>> {
  const { covarianceType, means, weights, precisionCholesky } = mixture
  const shape = factorShape(covarianceType, means.rows, means.cols)
  return {
    'mixture.means': matrixTensor(means),
    'mixture.precisionCholesky': { dtype: 'F64', shape, data: precisionCholesky },
    'mixture.weights': vectorTensor(weights),
  }
}

export function decodeMixture(file: ModelFileReader, covarianceType: CovarianceType): Fields {
  const means = file.matrix('mixture.means')
  return {
    covarianceType,
    weights: file.vector('mixture.weights'),
    means,
    precisionCholesky: file.shaped(
      'mixture.precisionCholesky',
      factorShape(covarianceType, means.rows, means.cols),
    ),
  }
}

function factorShape(type: CovarianceType, k: number, d: number): number[] {
  switch (type) {
    case 'full':
      return [k, d, d]
    case 'diagonal':
      return [k, d]
    case 'tied':
      return [d, d]
    case 'spherical':
      return [k]
  }
}
