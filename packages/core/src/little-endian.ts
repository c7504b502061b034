/**
 * Little-endian numbers on any machine: files hold them low byte first, typed arrays hold them as the
 * processor does. On the usual little-endian machine both helpers are one block copy; elsewhere the bytes
 * of each element are turned round after it.
 */

const HOST_IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1

/** Reverses the bytes of every element in place. */
export function swapElementBytes(bytes: Uint8Array, elementBytes: number): void {
  for (let i = 0; i + elementBytes <= bytes.length; i += elementBytes) {
    bytes.subarray(i, i + elementBytes).reverse()
  }
}

/** Writes the elements of `source` to out[at …] as little-endian numbers. */
export function writeLittleEndian(
  source: { buffer: ArrayBufferLike; byteOffset: number; byteLength: number; BYTES_PER_ELEMENT: number },
  out: Uint8Array,
  at: number,
): void {
  out.set(new Uint8Array(source.buffer, source.byteOffset, source.byteLength), at)
  if (!HOST_IS_LITTLE_ENDIAN)
    swapElementBytes(out.subarray(at, at + source.byteLength), source.BYTES_PER_ELEMENT)
}

/** A copy of bytes[begin … end) in the host's byte order, in a buffer of its own (so aligned). */
export function readLittleEndian(
  bytes: Uint8Array,
  begin: number,
  end: number,
  elementBytes: number,
): ArrayBuffer {
  // not bytes.slice: a Node Buffer's slice is a view
  const copy = new Uint8Array(end - begin)
  copy.set(bytes.subarray(begin, end))
  if (!HOST_IS_LITTLE_ENDIAN) swapElementBytes(copy, elementBytes)
  return copy.buffer
}
