/**
 * Writing safetensors: the same tensors and metadata give the same bytes, whatever order they came in.
 *
 * Wide elements stand before narrow ones and equal widths in order of name, metadata keys in order too; the
 * header is padded with spaces to a multiple of 8 bytes. So every tensor starts at a multiple of its own
 * element's size although the format allows no gap between tensors.
 */
import { ArgumentError } from '../errors.js'
import { writeLittleEndian } from '../little-endian.js'
import { encodeUtf8, isWellFormed } from '../utf8.js'
import {
  ELEMENT_BYTES,
  MAXIMUM_HEADER_BYTES,
  MAXIMUM_TENSORS,
  METADATA_KEY,
  type Safetensors,
  shapeSize,
  type Tensor,
} from './tensor.js'

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
  const width = ELEMENT_BYTES.get(tensor.dtype)
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
