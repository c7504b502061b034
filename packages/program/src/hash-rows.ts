/** SHA-256 of all training rows as row-major little-endian float64, in hexadecimal: a model's `dataSha256`. */
import { createHash } from 'node:crypto'
import { endianness } from 'node:os'
import type { Matrix } from '@oddflow/core'

export function hashRows({ data }: Matrix): string {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  const little = endianness() === 'LE' ? bytes : Buffer.from(bytes).swap64()
  return createHash('sha256').update(little).digest('hex')
}
