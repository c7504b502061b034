import { decodeUtf8, encodeUtf8, isWellFormed, readLittleEndian, writeLittleEndian } from './bytes.js'
import { ArgumentError, FormatError } from './errors.js'
import { parseStrictJson } from './json.js'

/**
 * What a safetensors file holds: named tensors and string metadata
 * (https://github.com/huggingface/safetensors#format).
 *
 *     8 bytes   N, the header's length, unsigned little-endian
 *     N bytes   a JSON object: name → { dtype, shape, data_offsets: [begin, end) }, offsets counted from the
 *               end of the header; optionally "__metadata__": an object of strings. Spaces may follow it.
 *     the rest  raw little-endian numbers, row-major, the tensors side by side without holes
 *
 * Six element types are read and written; others (BF16, F16, I64, …) are refused by name. Names and metadata are in Maps, so
 * that a tensor may be called `__proto__`.
 */

export type Tensor =
  | { readonly dtype: 'F64'; readonly shape: readonly number[]; readonly data: Float64Array }
  | { readonly dtype: 'F32'; readonly shape: readonly number[]; readonly data: Float32Array }
  | { readonly dtype: 'I32'; readonly shape: readonly number[]; readonly data: Int32Array }
  | { readonly dtype: 'U32'; readonly shape: readonly number[]; readonly data: Uint32Array }
  | { readonly dtype: 'U16'; readonly shape: readonly number[]; readonly data: Uint16Array }
  | { readonly dtype: 'U8'; readonly shape: readonly number[]; readonly data: Uint8Array }

/** The number types of tensors that are read and written. */
export type TensorDtype = Tensor['dtype']

/** The content of a safetensors file: tensors and metadata by name. */
export interface Safetensors {
  /** Decoded files list them in the order of their bytes. */
  readonly tensors: ReadonlyMap<string, Tensor>
  readonly metadata: ReadonlyMap<string, string>
}

const ARRAYS = {
  F64: Float64Array,
  F32: Float32Array,
  I32: Int32Array,
  U32: Uint32Array,
  U16: Uint16Array,
  U8: Uint8Array,
} as const

/** Bytes of an element; undefined for any other text. */
function elementBytes(dtype: unknown): number | undefined {
  const isKnown = typeof dtype === 'string' && Object.hasOwn(ARRAYS, dtype)
  return isKnown ? ARRAYS[dtype as TensorDtype].BYTES_PER_ELEMENT : undefined
}

/** The name under which the format keeps its metadata; no tensor may have it. */
export const METADATA_KEY = '__metadata__'

/** Longest header that is read or written. The format allows 100 MB; a model needs a few thousand bytes. */
const MAXIMUM_HEADER_BYTES = 8 * 1024 * 1024

/** Most tensors that a file may have, and most entries of its metadata. The format sets no limit; a model has ten. */
const MAXIMUM_TENSORS = 1024

function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** The product of a shape; null when a size is not a whole number ≥ 0 or the product passes 2^53. */
function shapeSize(shape: readonly unknown[]): number | null {
  let size = 1
  for (const length of shape) {
    if (!isSize(length)) return null
    size *= length
    if (size > Number.MAX_SAFE_INTEGER) return null
  }
  return size
}

/**
 * The same tensors and metadata give the same bytes, whatever their order: wide elements first, then by name, and the
 * header is padded to a multiple of 8 bytes, so every tensor is aligned.
 */

/** Throws ArgumentError when a shape does not fit its data or a name cannot be written. */
export function encodeSafetensors(file: Safetensors): Uint8Array<ArrayBuffer> {
  for (const part of ['tensors', 'metadata'] as const) {
    const { size } = file[part]
    if (size > MAXIMUM_TENSORS) {
      throw new ArgumentError(`${part}: expected at most ${MAXIMUM_TENSORS}, found ${size}`, part)
    }
  }
  const tensors = [...file.tensors].sort(
    ([nameA, a], [nameB, b]) => bytesOf(b) - bytesOf(a) || compareText(nameA, nameB),
  )
  const parts: string[] = []
  if (file.metadata.size > 0) parts.push(`${JSON.stringify(METADATA_KEY)}:${metadataJson(file.metadata)}`)
  let at = 0
  for (const [name, tensor] of tensors) {
    checkTensor(name, tensor)
    const end = at + tensor.data.byteLength
    const entry = { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [at, end] }
    parts.push(`${JSON.stringify(name)}:${JSON.stringify(entry)}`)
    at = end
  }
  const header = encodeUtf8(`{${parts.join(',')}}`)
  const headerBytes = Math.ceil(header.length / 8) * 8
  if (headerBytes > MAXIMUM_HEADER_BYTES) {
    throw new ArgumentError(
      `metadata: expected a header of at most ${MAXIMUM_HEADER_BYTES} bytes, found ${headerBytes}`,
      'metadata',
    )
  }
  const out = new Uint8Array(8 + headerBytes + at)
  new DataView(out.buffer).setUint32(0, headerBytes, true)
  out.set(header, 8)
  out.fill(0x20, 8 + header.length, 8 + headerBytes)
  at = 8 + headerBytes
  for (const [, tensor] of tensors) {
    writeLittleEndian(tensor.data, out, at)
    at += tensor.data.byteLength
  }
  return out
}

function metadataJson(metadata: ReadonlyMap<string, string>): string {
  const entries = [...metadata].sort(([a], [b]) => compareText(a, b))
  for (const [key, value] of entries) {
    if (typeof value !== 'string' || !isWellFormed(key) || !isWellFormed(value)) {
      throw new ArgumentError(`metadata.${key}: expected well-formed text`, 'metadata')
    }
  }
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(',')}}`
}

function checkTensor(name: string, tensor: Tensor): void {
  if (name === METADATA_KEY || !isWellFormed(name)) {
    throw new ArgumentError(`tensor name ${JSON.stringify(name)} cannot be written`, name)
  }
  const width = elementBytes(tensor.dtype)
  if (width === undefined || width !== tensor.data.BYTES_PER_ELEMENT) {
    throw new ArgumentError(`tensor ${name}: dtype ${tensor.dtype} does not fit its array`, name)
  }
  if (shapeSize(tensor.shape) !== tensor.data.length) {
    throw new ArgumentError(
      `tensor ${name}: expected ${tensor.shape.join(' × ')} numbers, found ${tensor.data.length}`,
      name,
    )
  }
}

function bytesOf(tensor: Tensor): number {
  return tensor.data.BYTES_PER_ELEMENT
}

/** By UTF-16 code unit: no locale may decide about bytes. */
function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/**
 * Reads untrusted bytes: everything the header claims is checked against the length of the file before anything is
 * allocated, and tensors must follow each other to the file's end. An error names the tensor or field, and the byte.
 */

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
  const width = elementBytes(dtype)
  if (width === undefined) {
    return fail(`expected dtype ${Object.keys(ARRAYS).join(', ')}, found ${quote(dtype)}`)
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

function copyTensor(bytes: Uint8Array, dataStart: number, { dtype, shape, begin, end }: Entry): Tensor {
  const elements = ARRAYS[dtype]
  const buffer = readLittleEndian(bytes, dataStart + begin, dataStart + end, elements.BYTES_PER_ELEMENT)
  return { dtype, shape, data: new elements(buffer) } as Tensor
}

function refuse(message: string, offsetBytes: number, field: string): FormatError {
  return new FormatError('safetensors', message, { offsetBytes, field })
}

/** Text from the file, made safe to print: escaped and short. */
function quote(value: unknown): string {
  return value === undefined ? 'nothing' : String(JSON.stringify(value)).slice(0, 60)
}
