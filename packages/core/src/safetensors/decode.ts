/**
 * Reading safetensors from bytes that nobody vouches for.
 *
 * The header's entries are counted while they are read, and more than a file may have end the reading.
 * Everything the header claims is checked against the length of the file before anything is allocated: the
 * header's own length, every shape against its bytes, and the tensors against one another, which must lie
 * side by side from the header's end to the file's end without overlap or hole. The copies that are returned
 * hold no more bytes than the file does. An error names the tensor or field, and the byte of the file where
 * its entry stands.
 */
import { FormatError } from '../errors.js'
import { parseStrictJson } from '../json.js'
import { readLittleEndian } from '../little-endian.js'
import { decodeUtf8, encodeUtf8, isWellFormed } from '../utf8.js'
import {
  ELEMENT_BYTES,
  isSize,
  MAXIMUM_HEADER_BYTES,
  MAXIMUM_TENSORS,
  METADATA_KEY,
  type Safetensors,
  shapeSize,
  type Tensor,
  type TensorDtype,
} from './tensor.js'

interface Entry {
  readonly name: string
  readonly dtype: TensorDtype
  readonly shape: readonly number[]
  readonly begin: number
  readonly end: number
  /** Byte of the file where the header names the tensor; worked out only for an error. */
  readonly offset: () => number
}

/** The tensors are copies: the bytes may be reused afterwards. Throws FormatError. */
export function decodeSafetensors(bytes: Uint8Array): Safetensors {
  const headerBytes = readHeaderLength(bytes)
  const dataStart = 8 + headerBytes
  const text = decodeUtf8(bytes.subarray(8, dataStart))
  if (text === null) throw refuse('the header is not UTF-8', 8, 'header')
  const byteAt = (position: number): number => 8 + encodeUtf8(text.slice(0, position)).length
  const fail = (message: string, position: number): never => {
    throw refuse(`the header ${message}`, byteAt(position), 'header')
  }
  // the metadata is one entry more than the tensors
  const { value, keyPositions } = parseStrictJson(text, fail, MAXIMUM_TENSORS + 1)
  // it starts with a brace (checked above), so it is an object
  const header = new Map(Object.entries(value as Record<string, unknown>))
  const offsetOf = (key: string) => (): number => byteAt(keyPositions.get(key) ?? 0)

  const metadata = readMetadata(header.get(METADATA_KEY), offsetOf(METADATA_KEY))
  header.delete(METADATA_KEY)
  if (header.size > MAXIMUM_TENSORS) {
    throw refuse(`expected at most ${MAXIMUM_TENSORS} tensors, found ${header.size}`, 8, 'header')
  }
  const entries = [...header].map(([name, entry]) => readEntry(name, entry, offsetOf(name)))
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end)

  const dataBytes = bytes.length - dataStart
  let at = 0
  for (const entry of entries) {
    if (entry.begin !== at) {
      const what = entry.begin < at ? 'overlaps the tensor before it' : 'leaves a hole before it'
      throw refuse(
        `tensor ${quote(entry.name)} ${what}: expected it to begin at ${at}, found ${entry.begin}`,
        entry.offset(),
        entry.name,
      )
    }
    if (entry.end > dataBytes) {
      throw refuse(
        `tensor ${quote(entry.name)} ends at ${entry.end}, but only ${dataBytes} bytes follow the header`,
        entry.offset(),
        entry.name,
      )
    }
    at = entry.end
  }
  if (at !== dataBytes) {
    throw refuse(`${dataBytes - at} bytes follow the last tensor`, dataStart + at, 'data_offsets')
  }
  const tensors = new Map<string, Tensor>()
  for (const entry of entries) tensors.set(entry.name, copyTensor(bytes, dataStart, entry))
  return { tensors, metadata }
}

function readHeaderLength(bytes: Uint8Array): number {
  if (bytes.length < 10) {
    throw refuse(
      `expected at least 10 bytes, found ${bytes.length}: not a safetensors file, or a cut one`,
      0,
      'header length',
    )
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, 8)
  const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32
  const limit = Math.min(MAXIMUM_HEADER_BYTES, bytes.length - 8)
  if (length < 2 || length > limit) {
    throw refuse(
      `the first 8 bytes give a header of ${length} bytes, but at most ${limit} are possible here: not a safetensors file, or a cut one`,
      0,
      'header length',
    )
  }
  if (bytes[8] !== 0x7b) throw refuse('expected the header to start with {', 8, 'header')
  return length
}

function readMetadata(value: unknown, offset: () => number): Map<string, string> {
  const metadata = new Map<string, string>()
  if (value === undefined) return metadata
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw refuse('expected __metadata__ to be an object of strings', offset(), METADATA_KEY)
  }
  for (const [key, text] of Object.entries(value as Record<string, unknown>)) {
    if (typeof text !== 'string' || !isWellFormed(key) || !isWellFormed(text)) {
      throw refuse(
        `expected __metadata__.${quote(key)} to be well-formed text`,
        offset(),
        `${METADATA_KEY}.${key}`,
      )
    }
    metadata.set(key, text)
  }
  return metadata
}

function readEntry(name: string, value: unknown, offset: () => number): Entry {
  const fail = (message: string): never => {
    throw refuse(`tensor ${quote(name)}: ${message}`, offset(), name)
  }
  if (!isWellFormed(name)) return fail('the name is not well-formed text')
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return fail('expected an object with dtype, shape and data_offsets')
  }
  const fields = new Map(Object.entries(value as Record<string, unknown>))
  for (const key of fields.keys()) {
    if (key !== 'dtype' && key !== 'shape' && key !== 'data_offsets')
      return fail(`unknown field ${quote(key)}`)
  }
  const dtype = fields.get('dtype')
  const width = typeof dtype === 'string' ? ELEMENT_BYTES.get(dtype) : undefined
  if (width === undefined) {
    return fail(`expected dtype ${[...ELEMENT_BYTES.keys()].join(', ')}, found ${quote(dtype)}`)
  }
  const shape = fields.get('shape')
  const size = Array.isArray(shape) ? shapeSize(shape) : null
  if (size === null) return fail(`expected shape to be whole numbers, found ${quote(shape)}`)
  const offsets = fields.get('data_offsets')
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize)) {
    return fail(`expected data_offsets [begin, end], found ${quote(offsets)}`)
  }
  const [begin, end] = offsets as [number, number]
  if (end - begin !== size * width) {
    return fail(`expected ${size * width} bytes for this shape, found data_offsets ${begin} to ${end}`)
  }
  return { name, dtype: dtype as TensorDtype, shape: shape as number[], begin, end, offset }
}

function copyTensor(bytes: Uint8Array, dataStart: number, entry: Entry): Tensor {
  const { dtype, shape } = entry
  const width = ELEMENT_BYTES.get(dtype)!
  const buffer = readLittleEndian(bytes, dataStart + entry.begin, dataStart + entry.end, width)
  switch (dtype) {
    case 'F64':
      return { dtype, shape, data: new Float64Array(buffer) }
    case 'F32':
      return { dtype, shape, data: new Float32Array(buffer) }
    case 'I32':
      return { dtype, shape, data: new Int32Array(buffer) }
    case 'U32':
      return { dtype, shape, data: new Uint32Array(buffer) }
    case 'U16':
      return { dtype, shape, data: new Uint16Array(buffer) }
    case 'U8':
      return { dtype, shape, data: new Uint8Array(buffer) }
  }
}

function refuse(message: string, offsetBytes: number, field: string): FormatError {
  return new FormatError('safetensors', message, { offsetBytes, field })
}

/** Text from the file, made safe to print: escaped and short. */
function quote(value: unknown): string {
  return value === undefined ? 'nothing' : String(JSON.stringify(value)).slice(0, 60)
}
