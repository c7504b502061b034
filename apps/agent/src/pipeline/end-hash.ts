/** A hash of one end of a packet: address and port, four words and one. The same end has the same in both directions. */
export function endHash(words: Uint32Array, at: number, port: number, seed: number): number {
  let hash = seed | 0
  for (let i = 0; i < 4; i++) {
    hash = Math.imul(hash ^ words[at + i], 0x85ebca6b)
    hash ^= hash >>> 13
  }
  hash = Math.imul(hash ^ port, 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
