/** Scalers in a model file: their kind stands in the feature contract, their numbers in tensors. */
import type { ScalerName, Tensor } from '@oddflow/core'
import type { ScalerModel } from '../model.js'
import type { Fields } from '../model-fields.js'
import { type ModelFileReader, vectorTensor } from './parts.js'

export function encodeScaler(scaler: ScalerModel): Readonly<Record<string, Tensor>> {
  switch (scaler.kind) {
    case 'none':
    case 'log':
      return {}
    case 'standard':
    case 'log-standard':
      return { 'scaler.mean': vectorTensor(scaler.mean), 'scaler.scale': vectorTensor(scaler.scale) }
    case 'quantile':
      return {
        'scaler.knots': vectorTensor(scaler.knots),
        'scaler.positions': vectorTensor(scaler.positions),
        'scaler.starts': { dtype: 'U32', shape: [scaler.starts.length], data: scaler.starts },
      }
  }
}

export function decodeScaler(file: ModelFileReader, kind: ScalerName): Fields {
  switch (kind) {
    case 'none':
    case 'log':
      return { kind }
    case 'standard':
    case 'log-standard':
      return { kind, mean: file.vector('scaler.mean'), scale: file.vector('scaler.scale') }
    case 'quantile':
      return {
        kind,
        starts: file.uint32('scaler.starts'),
        knots: file.vector('scaler.knots'),
        positions: file.vector('scaler.positions'),
      }
  }
}
