/**
 * Where in a model file a field stands: for error messages alone, so it may look twice.
 */
import type { Safetensors } from '@oddflow/core'
import { METADATA_KEYS } from './layout.js'

/**
 * Byte of a tensor's first number, or of the metadata entry that holds the field: `mixture.weights` is a
 * tensor, `threshold.calibration.rows` lies in the entry `threshold`. Whatever else a detector's check names
 * is one of its parameters.
 */
export function fieldOffset(bytes: Uint8Array, file: Safetensors | undefined, field: string): number {
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

/** Inside JSON strings a quotation mark follows a backslash, so `key":"` can only be the entry itself. */
function findEntry(header: Uint8Array, key: string): number {
  const wanted = Array.from(`"${key}":"`, (c) => c.charCodeAt(0))
  for (let i = 8; i + wanted.length <= header.length; i++) {
    if (wanted.every((code, j) => header[i + j] === code)) return i
  }
  return 8
}
