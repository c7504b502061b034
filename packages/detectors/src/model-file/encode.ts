/**
 * Writing a model file. The value is checked as if it had been read, so that nothing is written which would
 * be refused later; the checks also rebuild it field by field, so the order in which a caller happened to
 * make its objects does not reach the bytes.
 */
import { checkFeatureContract, checkOnePacketRule, encodeSafetensors, type Tensor } from '@oddflow/core'
import { checkModel } from '../check-model.js'
import { checkGroups, encodeGroups } from '../groups.js'
import { learningModel } from '../online/begin-learning.js'
import { DETECTORS } from '../registry.js'
import { checkThreshold } from '../threshold.js'
import { checkAgreement } from './agreement.js'
import { CHECKSUM_DIGITS, CHECKSUM_OFFSET, FORMAT_VERSION, modelFileChecksum } from './layout.js'
import { checkLearned, encodeLearned } from './learned-parts.js'
import { metadataValues } from './metadata.js'
import { checkProvenance, type SavedModel } from './saved-model.js'
import { encodeScaler } from './scaler-parts.js'

/**
 * The same value gives the same bytes, everywhere. Throws ArgumentError or FormatError naming the field that
 * is not as it should be.
 */
export function encodeModelFile(saved: SavedModel): Uint8Array<ArrayBuffer> {
  const detector = checkModel(saved.detector)
  const contract = checkFeatureContract(saved.contract)
  const onePacketRule = saved.onePacketRule === null ? null : checkOnePacketRule(saved.onePacketRule)
  checkAgreement(contract, onePacketRule, detector)
  const learned =
    saved.learned === undefined ? undefined : checkLearned(saved.learned, learningModel(detector))
  const groups = saved.groups === undefined ? undefined : checkGroups(saved.groups)
  const values = metadataValues({
    detector,
    contract,
    threshold: checkThreshold(saved.threshold),
    onePacketRule,
    provenance: checkProvenance(saved.provenance, (learned?.frozen.detector ?? detector).parameters),
    ...(groups === undefined ? {} : { groups }),
    ...(learned === undefined ? {} : { learned }),
  })
  const metadata = new Map<string, string>([
    ['checksum', '0'.repeat(CHECKSUM_DIGITS)],
    ['formatVersion', FORMAT_VERSION],
    ['kind', detector.kind],
  ])
  for (const [key, value] of Object.entries(values)) metadata.set(key, JSON.stringify(value))
  const tensors = new Map<string, Tensor>(
    Object.entries({
      ...DETECTORS[detector.kind].encode(detector).tensors,
      ...encodeScaler(detector.scaler),
      ...(groups === undefined ? {} : encodeGroups(groups).tensors),
      ...(learned === undefined ? {} : encodeLearned(learned).tensors),
    }),
  )
  const bytes = encodeSafetensors({ tensors, metadata })
  const checksum = modelFileChecksum(bytes)
  for (let i = 0; i < CHECKSUM_DIGITS; i++) bytes[CHECKSUM_OFFSET + i] = checksum.charCodeAt(i)
  return bytes
}
