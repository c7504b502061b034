/**
 * Writing a model file. The value is checked as if it had been read, so that nothing is written which would
 * be refused later; the checks also rebuild it field by field, so the order in which a caller happened to
 * make its objects does not reach the bytes.
 */
import {
  checkFeatureContract,
  checkOnePacketRule,
  encodeSafetensors,
  type Matrix,
  type Tensor,
} from '@oddflow/core'
import { checkModel } from '../check-model.js'
import { checkThreshold } from '../threshold.js'
import { checkAgreement } from './agreement.js'
import {
  CHECKSUM_DIGITS,
  CHECKSUM_OFFSET,
  FORMAT_VERSION,
  type MetadataKey,
  modelFileChecksum,
  type TensorName,
} from './layout.js'
import { checkProvenance, type SavedModel } from './saved-model.js'

/**
 * The same value gives the same bytes, everywhere. Throws ArgumentError or FormatError naming the field that
 * is not as it should be.
 */
export function encodeModelFile(saved: SavedModel): Uint8Array<ArrayBuffer> {
  const { kind, parameters, scaler, embedding, mixture, supportGuard, fitReport } = checkModel(saved.detector)
  const contract = checkFeatureContract(saved.contract)
  const onePacketRule = saved.onePacketRule === null ? null : checkOnePacketRule(saved.onePacketRule)
  checkAgreement(contract, onePacketRule, saved.detector)
  const metadata: Record<MetadataKey, string> = {
    embedding: JSON.stringify({ kind: embedding.kind, bandwidth: embedding.bandwidth }),
    featureContract: JSON.stringify(contract),
    fitReport: JSON.stringify(fitReport),
    formatVersion: FORMAT_VERSION,
    kind,
    onePacketRule: JSON.stringify(onePacketRule),
    parameters: JSON.stringify(parameters),
    provenance: JSON.stringify(checkProvenance(saved.provenance)),
    threshold: JSON.stringify(checkThreshold(saved.threshold)),
  }
  const { rows: k, cols: d } = mixture.means
  const tensors = new Map<TensorName, Tensor>([
    ['embedding.landmarks', matrixTensor(embedding.landmarks)],
    ['embedding.projection', matrixTensor(embedding.projection)],
    ['mixture.means', matrixTensor(mixture.means)],
    ['mixture.precisionCholesky', { dtype: 'F64', shape: [k, d, d], data: mixture.precisionCholesky }],
    ['mixture.weights', vectorTensor(mixture.weights)],
  ])
  if (scaler.kind === 'standard') {
    tensors.set('scaler.mean', vectorTensor(scaler.mean))
    tensors.set('scaler.scale', vectorTensor(scaler.scale))
  }
  if (supportGuard !== null) {
    tensors.set('supportGuard.density', matrixTensor(supportGuard.density))
    tensors.set('supportGuard.squaredReaches', vectorTensor(supportGuard.squaredReaches))
    tensors.set('supportGuard.support', matrixTensor(supportGuard.support))
  }
  const bytes = encodeSafetensors({
    tensors,
    metadata: new Map([['checksum', '0'.repeat(CHECKSUM_DIGITS)], ...Object.entries(metadata)]),
  })
  const checksum = modelFileChecksum(bytes)
  for (let i = 0; i < CHECKSUM_DIGITS; i++) bytes[CHECKSUM_OFFSET + i] = checksum.charCodeAt(i)
  return bytes
}

function matrixTensor({ rows, cols, data }: Matrix): Tensor {
  return { dtype: 'F64', shape: [rows, cols], data }
}

function vectorTensor(data: Float64Array): Tensor {
  return { dtype: 'F64', shape: [data.length], data }
}
