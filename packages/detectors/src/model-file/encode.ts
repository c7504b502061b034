/**
 * Writing a model file. The value is checked as if it had been read, so that nothing is written which would
 * be refused later; the checks also rebuild it field by field, so the order in which a caller happened to
 * make its objects does not reach the bytes.
 */
import { checkFeatureContract, checkOnePacketRule, encodeSafetensors, type Tensor } from '@oddflow/core'
import { checkModel } from '../check-model.js'
import { DETECTORS } from '../registry.js'
import { checkThreshold } from '../threshold.js'
import { checkAgreement } from './agreement.js'
import {
  CHECKSUM_DIGITS,
  CHECKSUM_OFFSET,
  FORMAT_VERSION,
  type MetadataKey,
  modelFileChecksum,
} from './layout.js'
import { checkProvenance, type SavedModel } from './saved-model.js'
import { encodeScaler } from './scaler-parts.js'

/**
 * The same value gives the same bytes, everywhere. Throws ArgumentError or FormatError naming the field that
 * is not as it should be.
 */
export function encodeModelFile(saved: SavedModel): Uint8Array<ArrayBuffer> {
  const detector = checkModel(saved.detector)
  const { kind, parameters, scaler, fitReport } = detector
  const contract = checkFeatureContract(saved.contract)
  const onePacketRule = saved.onePacketRule === null ? null : checkOnePacketRule(saved.onePacketRule)
  checkAgreement(contract, onePacketRule, detector)
  const common: Record<MetadataKey, string> = {
    featureContract: JSON.stringify(contract),
    fitReport: JSON.stringify(fitReport),
    formatVersion: FORMAT_VERSION,
    kind,
    onePacketRule: JSON.stringify(onePacketRule),
    parameters: JSON.stringify(parameters),
    provenance: JSON.stringify(checkProvenance(saved.provenance)),
    threshold: JSON.stringify(checkThreshold(saved.threshold)),
  }
  const own = DETECTORS[kind].encode(detector)
  const metadata = new Map<string, string>([['checksum', '0'.repeat(CHECKSUM_DIGITS)]])
  for (const [key, text] of Object.entries(common)) metadata.set(key, text)
  for (const [key, value] of Object.entries(own.metadata)) metadata.set(key, JSON.stringify(value))
  const tensors = new Map<string, Tensor>(Object.entries({ ...own.tensors, ...encodeScaler(scaler) }))
  const bytes = encodeSafetensors({ tensors, metadata })
  const checksum = modelFileChecksum(bytes)
  for (let i = 0; i < CHECKSUM_DIGITS; i++) bytes[CHECKSUM_OFFSET + i] = checksum.charCodeAt(i)
  return bytes
}
