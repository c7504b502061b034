/** SHA-256 of bytes and of scores, as 64 lower-case hexadecimal digits. */
import { createHash } from 'node:crypto'
import { endianness } from 'node:os'

export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Over the little-endian float64 values: equal hashes, equal scores to the last bit. */
export function hashScores(scores: Float64Array): string {
  const bytes = Buffer.from(scores.buffer, scores.byteOffset, scores.byteLength)
  return sha256(endianness() === 'LE' ? bytes : Buffer.from(bytes).swap64())
}
