/**
 * CRC-32 (ISO 3309, as in gzip and PNG; reflected polynomial 0xEDB88320).
 *
 * It finds every damage confined to 32 neighbouring bits, so every changed byte, for certain, and any other
 * with odds of 2^-32 against. It is no protection from somebody who means harm: nothing that is read is
 * trusted for its checksum alone.
 */

const TABLE = new Uint32Array(256)
for (let n = 0; n < 256; n++) {
  let c = n
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1
  TABLE[n] = c
}

/** The checksum of `bytes`; pass the checksum so far as `previous` to go on with the next piece. */
export function crc32(bytes: Uint8Array, previous = 0): number {
  let c = ~previous
  for (let i = 0; i < bytes.length; i++) c = TABLE[(c ^ bytes[i]!) & 0xff]! ^ (c >>> 8)
  return ~c >>> 0
}

/**
 * decodeBase64: bytes that stand in source files as text, such as WebAssembly modules.
 *
 * Own, because neither Node's Buffer nor the browser's atob is everywhere. For text that we wrote ourselves: what is
 * not of the alphabet is not looked for.
 */
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** The bytes of `text`, which is base64 with padding and without line breaks (RFC 4648, section 4). */
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
 * UTF-8, through the platform's own encoder and decoder, which every browser and Node have. The packages
 * are compiled without the DOM's or Node's type libraries so that neither can be leaned on by accident;
 * the two classes are therefore declared here, with no more than what is used.
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
 * HalfSipHash-1-3 over 32-bit words: the keyed hash of the tables whose keys come from traffic.
 *
 * Whoever sends traffic chooses addresses and ports, and so the keys of a flow table; with an unkeyed hash he
 * could choose keys that all fall on one slot. SipHash (Aumasson and Bernstein 2012) is a keyed function
 * made for tables under that attack; HalfSipHash is its 32-bit form, and one round a word with three to
 * finish is what Linux takes for tables (`hsiphash`, Documentation/security/siphash.rst). Words instead of
 * bytes: keys are words already, and every key of one IP version has the same length. The result is 32 bits
 * (v1 xor v3), of which the table uses the low ones.
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
