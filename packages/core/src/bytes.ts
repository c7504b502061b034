/** CRC-32 (ISO 3309, as in gzip; reflected polynomial 0xEDB88320). It does not protect against deliberate changes. */

const TABLE = new Uint32Array(256)
for (let n = 0; n < 256; n++) {
  let c = n
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1
  TABLE[n] = c
}

/** The checksum of `bytes`; pass the checksum so far as `previous` to continue with the next piece. */
export function crc32(bytes: Uint8Array, previous = 0): number {
  let c = ~previous
  for (let i = 0; i < bytes.length; i++) c = TABLE[(c ^ bytes[i]!) & 0xff]! ^ (c >>> 8)
  return ~c >>> 0
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/**
 * The bytes of our own modules as text: base64 with padding, without line breaks (RFC 4648, section 4), unchecked. Node's
 * Buffer and the browser's atob do not exist everywhere.
 */
export function decodeBase64(text: string): Uint8Array {
  const length = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length
  const out = new Uint8Array((length * 3) >> 2)
  let bits = 0
  for (let i = 0, at = 0; i < length; i++) {
    bits = (bits << 6) | ALPHABET.indexOf(text[i]!)
    if ((i & 3) > 0) out[at++] = bits >> (6 - 2 * (i & 3))
  }
  return out
}

/**
 * UTF-8 by the platform's encoder and decoder. The packages are compiled without the DOM's or Node's type libraries, so
 * the two classes are declared here.
 */

declare const TextEncoder: new () => { encode(text: string): Uint8Array<ArrayBuffer> }
declare const TextDecoder: new (label: 'utf-8', options: { fatal: true; ignoreBOM: true }) => Utf8Decoder

interface Utf8Decoder {
  /** Throws TypeError at a byte sequence that is not UTF-8. */
  decode(bytes?: Uint8Array, options?: { stream: boolean }): string
}

/** Lone surrogates become U+FFFD: callers that promise a round trip refuse them first (`isWellFormed`). */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

/** A decoder that keeps a byte order mark as a character and throws at malformed input. */
export function createUtf8Decoder(): Utf8Decoder {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
}

/** The text, or null when the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return createUtf8Decoder().decode(bytes)
  } catch {
    return null
  }
}

/** Whether a string has no lone surrogate, so that UTF-8 can carry it. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text)
}

/**
 * HalfSipHash-1-3 over 32-bit words (Aumasson and Bernstein 2012; `hsiphash` of Linux): the keyed hash of tables whose
 * keys come from traffic, so that a sender cannot choose keys that fall on one slot.
 */

/** Hash of `words[offset .. offset + count)` under the 64-bit key (key0, key1); a signed 32-bit integer. */
export function halfSipHash13(
  words: Uint32Array,
  offset: number,
  count: number,
  key0: number,
  key1: number,
): number {
  let v0 = key0 | 0
  let v1 = key1 | 0
  let v2 = key0 ^ 0x6c796765
  let v3 = key1 ^ 0x74656462
  // A round for each word, one for the length in bytes in the top byte of a word, and three to finish.
  const rounds = count + 4
  for (let i = 0; i < rounds; i++) {
    let word = 0
    if (i < count) word = words[offset + i]! | 0
    else if (i === count) word = (count << 26) | 0
    else if (i === count + 1) v2 ^= 0xff
    v3 ^= word
    v0 = (v0 + v1) | 0
    v1 = (v1 << 5) | (v1 >>> 27)
    v1 ^= v0
    v0 = (v0 << 16) | (v0 >>> 16)
    v2 = (v2 + v3) | 0
    v3 = (v3 << 8) | (v3 >>> 24)
    v3 ^= v2
    v0 = (v0 + v3) | 0
    v3 = (v3 << 7) | (v3 >>> 25)
    v3 ^= v0
    v2 = (v2 + v1) | 0
    v1 = (v1 << 13) | (v1 >>> 19)
    v1 ^= v2
    v2 = (v2 << 16) | (v2 >>> 16)
    v0 ^= word
  }
  return v1 ^ v3
}

/**
 * Little-endian numbers on any machine: one block copy on a little-endian machine; elsewhere the bytes of each element
 * are then reversed.
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
