/** SHA-256 over matrices, in order, each as its two sizes and its row-major little-endian float64 values. */
import { createHash } from 'node:crypto'
import { endianness } from 'node:os'
import type { Matrix } from '@oddflow/core'

/** 64 lower-case hexadecimal digits. */
export function hashMatrices(matrices: readonly Matrix[]): string {
  const hash = createHash('sha256')
  for (const { rows, cols, data } of matrices) {
    hash.update(`${rows}x${cols};`)
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    hash.update(endianness() === 'LE' ? bytes : Buffer.from(bytes).swap64())
  }
  return hash.digest('hex')
}
