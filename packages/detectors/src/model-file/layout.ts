/**
 * Layout of a model file (docs/model-file.md): which metadata and which tensors a safetensors file must have
 * to be an OddFlow model, and where its checksum stands.
 *
 * The metadata comes first in the header and its keys are in order, so `checksum`, the first of them, stands
 * at the same place in every file, and the bytes up to it serve as the format's signature. Later formats keep
 * it there: a damaged file is then told from a newer one.
 *
 * CRC-32 rather than a cryptographic hash: what it has to find is worn flash and cut copies, and it finds
 * every changed byte for certain. Somebody who edits a file can compute either again, which is why reading
 * validates everything all the same. It covers the whole file, its own eight digits taken as zeros.
 */
import { crc32 } from '@oddflow/core'

export const FORMAT = 'model-file'
export const FORMAT_VERSION = '1'

/** Text that starts at byte 8 of every model file. */
export const SIGNATURE = '{"__metadata__":{"checksum":"'
export const CHECKSUM_DIGITS = 8
export const CHECKSUM_OFFSET = 8 + SIGNATURE.length

/** Metadata of every model beside `checksum`; a detector may have its own. All but `formatVersion` and `kind` are JSON. */
export const METADATA_KEYS = [
  'featureContract',
  'fitReport',
  'formatVersion',
  'kind',
  'onePacketRule',
  'parameters',
  'provenance',
  'threshold',
] as const

/** Metadata of models whose rows have a column of names: which. Nothing else of a scaler is not in tensors. */
export const SCALER_KEY = 'scaler'

/** Metadata of models that learn on, and the beginning of their tensors' names. */
export const LEARNED_KEY = 'learned'

export type MetadataKey = (typeof METADATA_KEYS)[number]

/** The checksum that a file should carry: CRC-32 of all its bytes with the eight digits as '0'. */
export function modelFileChecksum(bytes: Uint8Array): string {
  const end = CHECKSUM_OFFSET + CHECKSUM_DIGITS
  const zeros = new Uint8Array(CHECKSUM_DIGITS).fill(0x30)
  const front = crc32(zeros, crc32(bytes.subarray(0, CHECKSUM_OFFSET)))
  return crc32(bytes.subarray(end), front).toString(16).padStart(CHECKSUM_DIGITS, '0')
}
