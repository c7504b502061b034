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
  for (let i = 0; i < count; i++) {
    const word = words[offset + i]! | 0
    v3 ^= word
    // One SipRound.
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
  // The last block holds the length in bytes in its top byte; then three rounds to finish.
  const last = (count << 26) | 0
  v3 ^= last
  for (let round = 0; round < 4; round++) {
    if (round === 1) {
      v0 ^= last
      v2 ^= 0xff
    }
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
  }
  return v1 ^ v3
}
