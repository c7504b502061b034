/**
 * Reading a model file, from a stranger if need be.
 *
 * Four steps, each of which trusts only those before it: the container's structure (core); signature and
 * checksum, which find damage; the format's version; then every part by its own check. Nothing is executed,
 * nothing but the tensors' copies and the header's text is allocated, and what comes out is exactly what
 * `encodeModelFile` was given.
 *
 * A refusal is a FormatError with the field and the byte of the file: where the metadata entry stands for a
 * field of JSON, where the numbers start for a tensor.
 */
import {
  ArgumentError,
  checkFeatureContract,
  checkOnePacketRule,
  decodeSafetensors,
  FormatError,
  type Matrix,
  parseStrictJson,
  type Safetensors,
} from '@oddflow/core'
import { checkModel } from '../check-model.js'
import { checkThreshold } from '../threshold.js'
import { checkAgreement } from './agreement.js'
import {
  CHECKSUM_DIGITS,
  CHECKSUM_OFFSET,
  FORMAT,
  FORMAT_VERSION,
  METADATA_KEYS,
  type MetadataKey,
  modelFileChecksum,
  SCALER_TENSOR_NAMES,
  SIGNATURE,
  SUPPORT_GUARD_TENSOR_NAMES,
  TENSOR_NAMES,
  type TensorName,
} from './layout.js'
import { fieldOffset } from './offsets.js'
import { checkProvenance, type SavedModel } from './saved-model.js'

/** The bytes may be reused afterwards. Throws FormatError. */
export function decodeModelFile(bytes: Uint8Array): SavedModel {
  const file = decodeSafetensors(bytes)
  checkChecksum(bytes)
  checkVersion(bytes, file.metadata.get('formatVersion'))
  try {
    return readParts(file)
  } catch (error) {
    if (!(error instanceof FormatError || error instanceof ArgumentError)) throw error
    const field = error.field ?? 'parameters'
    const message = error.message.replace(`${FORMAT}: `, '')
    throw new FormatError(FORMAT, message, { field, offsetBytes: fieldOffset(bytes, file, field) })
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
  const found = Array.from(bytes.subarray(CHECKSUM_OFFSET, CHECKSUM_OFFSET + CHECKSUM_DIGITS), (code) =>
    String.fromCharCode(code),
  ).join('')
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

function readParts(file: Safetensors): SavedModel {
  const known = new Set<string>(['checksum', ...METADATA_KEYS])
  for (const key of file.metadata.keys()) if (!known.has(key)) refuse(key, 'no such metadata is known')
  const embedding = readJson(file, 'embedding') as { kind?: unknown; bandwidth?: unknown } | null
  const kind = text(file, 'kind')
  const contract = checkFeatureContract(readJson(file, 'featureContract'))
  const scaled = contract.scaler === 'standard'
  const parameters = readJson(file, 'parameters') as { supportGuard?: unknown } | null
  const guarded = parameters?.supportGuard === true
  const names = new Set<string>([
    ...TENSOR_NAMES,
    ...(scaled ? SCALER_TENSOR_NAMES : []),
    ...(guarded ? SUPPORT_GUARD_TENSOR_NAMES : []),
  ])
  for (const name of file.tensors.keys()) if (!names.has(name)) refuse(name, 'no such tensor is known here')
  const detector = checkModel({
    kind,
    parameters,
    scaler: scaled
      ? { kind: 'standard', mean: vector(file, 'scaler.mean'), scale: vector(file, 'scaler.scale') }
      : { kind: 'none' },
    embedding: {
      kind: embedding?.kind,
      bandwidth: embedding?.bandwidth,
      landmarks: matrix(file, 'embedding.landmarks'),
      projection: matrix(file, 'embedding.projection'),
    },
    mixture: {
      covarianceType: 'full',
      weights: vector(file, 'mixture.weights'),
      means: matrix(file, 'mixture.means'),
      precisionCholesky: precisions(file),
    },
    supportGuard: guarded
      ? {
          density: matrix(file, 'supportGuard.density'),
          squaredReaches: vector(file, 'supportGuard.squaredReaches'),
          support: matrix(file, 'supportGuard.support'),
        }
      : null,
    fitReport: readJson(file, 'fitReport'),
  })
  const rule = readJson(file, 'onePacketRule')
  const onePacketRule = rule === null ? null : checkOnePacketRule(rule)
  checkAgreement(contract, onePacketRule, detector)
  return {
    detector,
    contract,
    threshold: checkThreshold(readJson(file, 'threshold')),
    onePacketRule,
    provenance: checkProvenance(readJson(file, 'provenance')),
  }
}

function text(file: Safetensors, key: MetadataKey): string {
  return file.metadata.get(key) ?? refuse(key, 'the metadata lacks it')
}

function readJson(file: Safetensors, key: MetadataKey): unknown {
  return parseStrictJson(text(file, key), (message) => refuse(key, `the text ${message}`)).value
}

function tensor(file: Safetensors, name: TensorName, dimensions: number) {
  const found = file.tensors.get(name) ?? refuse(name, 'the file lacks this tensor')
  if (found.dtype !== 'F64') return refuse(name, `expected dtype F64, found ${found.dtype}`)
  if (found.shape.length !== dimensions) {
    return refuse(name, `expected ${dimensions} dimensions, found ${found.shape.length}`)
  }
  return { shape: found.shape, data: found.data }
}

function matrix(file: Safetensors, name: TensorName): Matrix {
  const { shape, data } = tensor(file, name, 2)
  return { rows: shape[0]!, cols: shape[1]!, data }
}

function vector(file: Safetensors, name: TensorName): Float64Array {
  return tensor(file, name, 1).data
}

/** k × d × d in the file; checkModel knows k and d from elsewhere and compares the product only. */
function precisions(file: Safetensors): Float64Array {
  const name = 'mixture.precisionCholesky'
  const { shape, data } = tensor(file, name, 3)
  const { rows: k, cols: d } = matrix(file, 'mixture.means')
  if (shape[0] !== k || shape[1] !== d || shape[2] !== d) {
    return refuse(name, `expected ${k} × ${d} × ${d}, found ${shape.join(' × ')}`)
  }
  return data
}

function refuse(field: string, message: string): never {
  throw new FormatError(FORMAT, `${field}: ${message}`, { field })
}
