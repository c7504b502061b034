/**
 * SHA-1 (RFC 3174) of a few bytes, for identifiers that other tools compute too; not for security.
 *
 * Written out because Community IDs are wanted synchronously and in browsers, where the platform's own digest
 * is asynchronous. A flow record has two of them, so nothing is allocated where the caller brings the digest's place,
 * and the four kinds of rounds are loops of their own.
 */

/**
 * Twenty bytes, in `digest`.
 *
 * @param length how many bytes of `message` are hashed
 */
export function sha1(
  message: Uint8Array,
  length = message.length,
  digest: Uint8Array = new Uint8Array(20),
): Uint8Array {
  state[0] = 0x67452301
  state[1] = 0xefcdab89
  state[2] = 0x98badcfe
  state[3] = 0x10325476
  state[4] = 0xc3d2e1f0
  const blocks = ((length + 8) >> 6) + 1
  for (let b = 0; b < blocks; b++) {
    for (let t = 0; t < 16; t++) words[t] = paddedWord(message, length, 64 * b + 4 * t)
    if (b === blocks - 1) {
      words[14] = Math.floor(length / 0x20000000)
      words[15] = length << 3
    }
    mix()
  }
  for (let i = 0; i < 20; i++) digest[i] = state[i >> 2] >>> (24 - 8 * (i & 3))
  return digest
}

/** The state, and the schedule of the block at hand; nothing of them lasts between calls. */
const state = new Int32Array(5)
const words = new Int32Array(80)

/** Four bytes of the message with the bit behind its end, and zeros after. */
function paddedWord(message: Uint8Array, length: number, at: number): number {
  if (at + 4 <= length) {
    return (message[at] << 24) | (message[at + 1] << 16) | (message[at + 2] << 8) | message[at + 3]
  }
  let word = 0
  for (let k = 0; k < 4; k++) {
    const byte = at + k < length ? message[at + k] : at + k === length ? 0x80 : 0
    word = (word << 8) | byte
  }
  return word
}

function mix(): void {
  for (let t = 16; t < 80; t++) {
    const word = words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]
    words[t] = (word << 1) | (word >>> 31)
  }
  let a = state[0]
  let b = state[1]
  let c = state[2]
  let d = state[3]
  let e = state[4]
  for (let t = 0; t < 20; t++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (~b & d)) + e + 0x5a827999 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 20; t < 40; t++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0x6ed9eba1 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 40; t < 60; t++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (b & d) | (c & d)) + e + 0x8f1bbcdc + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 60; t < 80; t++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0xca62c1d6 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  state[0] += a
  state[1] += b
  state[2] += c
  state[3] += d
  state[4] += e
}
