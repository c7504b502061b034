import { createHash } from 'node:crypto'
import { matrixOf } from '@oddflow/core'
import { expect, it } from 'vitest'
import { hashRows } from '../src/train-model.js'

it('hashes the numbers as little-endian float64, whatever buffer they lie in', () => {
  const numbers = [1, -2.5, 1e-300, 0, -0, 1 / 3]
  const bytes = Buffer.alloc(8 * numbers.length)
  for (const [i, value] of numbers.entries()) bytes.writeDoubleLE(value, 8 * i)
  const expected = createHash('sha256').update(bytes).digest('hex')
  expect(hashRows(matrixOf(2, 3, Float64Array.from(numbers)))).toBe(expected)
  const view = Float64Array.from([9, ...numbers, 9]).subarray(1, 1 + numbers.length)
  expect(hashRows(matrixOf(3, 2, view))).toBe(expected)
})

it('gives the published SHA-256 of no bytes for no rows', () => {
  // FIPS 180-4, empty message
  expect(hashRows(matrixOf(0, 3, new Float64Array(0)))).toBe(
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  )
})
