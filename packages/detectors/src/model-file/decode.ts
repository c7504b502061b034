/**
 * Reads a model file, which may come from a stranger.
 *
 * Four steps, each relying only on those before: the container's structure (core); signature and checksum, which detect
 * damage; the format's version; every part by its own check. Nothing is executed, only copies of tensors and the
 * header's text are allocated, and the result is exactly what `encodeModelFile` was given.
 *
 * A refusal is a FormatError with the field and its byte in the file: the metadata entry for a JSON field, the first
 * number for a tensor.
 */
import {
  ArgumentError,
  checkFeatureContract,
  checkOnePacketRule,
  decodeSafetensors,
  FormatError,
  type Safetensors,
} from '@oddflow/core'
import { decodeGroups, GROUPS_KEY } from '../calibration/groups.js'
import { checkThreshold } from '../calibration/threshold.js'
import { checkModel } from '../checks.js'
import type { DetectorName } from '../detector.js'
import { type Fields, fieldsAt } from '../fields.js'
import { DETECTORS, isDetectorName } from '../registry.js'
import { decodeScaler } from '../scaler.js'
import { checkSameFields } from '../table-checks.js'
import {
  CHECKSUM_OFFSET,
  FORMAT,
  FORMAT_VERSION,
  LEARNED_KEY,
  LEARNED_PREFIX,
  METADATA_KEYS,
  ModelFileReader,
  modelFileChecksum,
  refusePart,
  SCALER_KEY,
  SIGNATURE,
  statedChecksum,
} from './layout.js'
import { checkAgreement, checkProvenance, metadataValues, type SavedModel } from './saved-model.js'

/** The place of a field in a model file. Only for error messages, so it may search again. */

/**
 * Byte of a tensor's first number, or of the metadata entry with the field: `mixture.weights` is a tensor,
 * `threshold.calibration.rows` is in the entry `threshold`. Any other field of a detector's check is one of its
 * parameters.
 */
function fieldOffset(bytes: Uint8Array, file: Safetensors | undefined, field: string): number {
  const headerBytes = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
  let at = 8 + headerBytes
  for (const [name, tensor] of file?.tensors ?? []) {
    if (field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`)) return at
    at += tensor.data.byteLength
  }
  const header = bytes.subarray(0, 8 + headerBytes)
  if (file?.metadata.has(field)) return findEntry(header, field)
  const first = field.split('.')[0]!
  const own = (METADATA_KEYS as readonly string[]).includes(first) || file?.metadata.has(first) === true
  return findEntry(header, own ? first : 'parameters')
}

/** Inside JSON strings a quotation mark follows a backslash, so `key":"` can only be the entry */
function findEntry(header: Uint8Array, key: string): number {
  const wanted = Array.from(`"${key}":"`, (c) => c.charCodeAt(0))
  for (let i = 8; i + wanted.length <= header.length; i++) {
    if (wanted.every((code, j) => header[i + j] === code)) return i
  }
  return 8
}

/**
 * The bytes may be reused afterwards. Throws FormatError.
 *
 * @param check - Checks more of the model; its ArgumentErrors and FormatErrors are refusals too. `learnedStateOf` of
 *   @oddflow/online checks the learned part, which is otherwise returned unchecked: scoring does not use it.
 */
export function decodeModelFile(bytes: Uint8Array, check?: (saved: SavedModel) => unknown): SavedModel {
  const file = decodeSafetensors(bytes)
  checkChecksum(bytes)
  checkVersion(bytes, file.metadata.get('formatVersion'))
  try {
    const saved = readParts(file)
    check?.(saved)
    return saved
  } catch (error) {
    if (!(error instanceof FormatError || error instanceof ArgumentError)) throw error
    const field = error.field ?? 'parameters'
    throw new FormatError(FORMAT, `${field}: ${error.detail}`, {
      field,
      offsetBytes: fieldOffset(bytes, file, field),
    })
  }
}

function checkChecksum(bytes: Uint8Array): void {
  for (let i = 0; i < SIGNATURE.length; i++) {
    if (bytes[8 + i] !== SIGNATURE.charCodeAt(i)) {
      throw new FormatError(FORMAT, `expected ${SIGNATURE} after the first 8 bytes: not an OddFlow model`, {
        field: 'checksum',
        offsetBytes: 8 + i,
      })
    }
  }
  const found = statedChecksum(bytes)
  const expected = modelFileChecksum(bytes)
  if (found !== expected) {
    throw new FormatError(
      FORMAT,
      `the file is damaged: it says its checksum is ${JSON.stringify(found)}, but its bytes give ${expected}; copy or train it again`,
      { field: 'checksum', offsetBytes: CHECKSUM_OFFSET },
    )
  }
}

function checkVersion(bytes: Uint8Array, version: string | undefined): void {
  if (version === FORMAT_VERSION) return
  const newer = version !== undefined && /^\d{1,9}$/.test(version) && Number(version) > Number(FORMAT_VERSION)
  const message = newer
    ? `the file has format ${version}, from a newer OddFlow; this one reads format ${FORMAT_VERSION}: update it, or train the model again`
    : `expected formatVersion ${FORMAT_VERSION}, found ${JSON.stringify(version ?? null).slice(0, 40)}`
  throw new FormatError(FORMAT, message, {
    field: 'formatVersion',
    offsetBytes: fieldOffset(bytes, undefined, 'formatVersion'),
  })
}

function readParts(source: Safetensors): SavedModel {
  const file = ModelFileReader.of(source)
  const parameters = file.json('parameters')
  const name = (parameters as { detector?: unknown } | null)?.detector
  const kind = file.text('kind')
  if (!isDetectorName(name)) checkModel({ kind, parameters })
  const definition = DETECTORS[name as DetectorName]
  const known = new Set<string>([
    'checksum',
    SCALER_KEY,
    GROUPS_KEY,
    LEARNED_KEY,
    ...METADATA_KEYS,
    ...definition.metadataKeys,
  ])
  for (const key of source.metadata.keys()) if (!known.has(key)) refusePart(key, 'no such metadata is known')
  const contract = checkFeatureContract(file.json('featureContract'))
  const value = {
    kind,
    parameters,
    scaler: {
      ...decodeScaler(file, contract.scaler),
      ...(source.metadata.has(SCALER_KEY)
        ? { categoryColumn: fieldsAt(file.json(SCALER_KEY), SCALER_KEY).categoryColumn ?? null }
        : {}),
    },
    ...definition.decode(file, parameters as Fields),
    fitReport: file.json('fitReport'),
  }
  const groups = source.metadata.has(GROUPS_KEY) ? decodeGroups(file) : undefined
  const learned = source.metadata.has(LEARNED_KEY)
    ? { metadata: fieldsAt(file.json(LEARNED_KEY), LEARNED_KEY), tensors: file.allWith(LEARNED_PREFIX) }
    : undefined
  file.refuseOthers()
  const detector = checkModel(value)
  const rule = file.json('onePacketRule')
  const onePacketRule = rule === null ? null : checkOnePacketRule(rule)
  checkAgreement(contract, onePacketRule, detector)
  const saved: SavedModel = {
    detector,
    contract,
    threshold: checkThreshold(file.json('threshold')),
    onePacketRule,
    provenance: checkProvenance(file.json('provenance'), detector.parameters, learned !== undefined),
    ...(groups === undefined ? {} : { groups }),
    ...(learned === undefined ? {} : { learned }),
  }
  // `parameters` are compared by their own check, which knows the fields that older files lack
  const { parameters: _, ...metadata } = metadataValues(saved)
  for (const [key, written] of Object.entries(metadata)) checkSameFields(file.json(key), written, key)
  return saved
}
