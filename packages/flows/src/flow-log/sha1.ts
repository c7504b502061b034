/**
 * SHA-1 (RFC 3174) of a few bytes, for identifiers that other tools compute too; not for security.
 *
 * Written out because Community IDs are wanted synchronously and in browsers, where the platform's own digest
 * is asynchronous.
 */

/** Twenty bytes. */
export function sha1(message: Uint8Array): Uint8Array {
  const blocks = ((message.length + 8) >> 6) + 1
  const padded = new Uint8Array(64 * blocks)
  padded.set(message)
  padded[message.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setUint32(padded.length - 8, Math.floor(message.length / 0x20000000))
  view.setUint32(padded.length - 4, message.length << 3)
  const state = new Int32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0])
  for (let at = 0; at < padded.length; at += 64) {
    for (let t = 0; t < 16; t++) words[t] = view.getInt32(at + 4 * t)
    for (let t = 16; t < 80; t++) {
      words[t] = rotateLeft(words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16], 1)
    }
    mix(state)
  }
  const digest = new Uint8Array(20)
  const out = new DataView(digest.buffer)
  for (let i = 0; i < 5; i++) out.setInt32(4 * i, state[i])
  return digest
}

/** The schedule of the block at hand; nothing of it lasts between calls. */
const words = new Int32Array(80)

function mix(state: Int32Array): void {
  let a = state[0]
  let b = state[1]
  let c = state[2]
  let d = state[3]
  let e = state[4]
  for (let t = 0; t < 80; t++) {
    const round = t < 20 ? CHOOSE : t < 40 ? PARITY : t < 60 ? MAJORITY : PARITY
    const f =
      round === CHOOSE ? (b & c) | (~b & d) : round === PARITY ? b ^ c ^ d : (b & c) | (b & d) | (c & d)
    const k = t < 20 ? 0x5a827999 : t < 40 ? 0x6ed9eba1 : t < 60 ? 0x8f1bbcdc : 0xca62c1d6
    const next = (rotateLeft(a, 5) + f + e + k + words[t]) | 0
    e = d
    d = c
    c = rotateLeft(b, 30)
    b = a
    a = next
  }
  state[0] += a
  state[1] += b
  state[2] += c
  state[3] += d
  state[4] += e
}

const CHOOSE = 0
const PARITY = 1
const MAJORITY = 2

function rotateLeft(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}
