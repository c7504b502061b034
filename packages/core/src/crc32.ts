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
