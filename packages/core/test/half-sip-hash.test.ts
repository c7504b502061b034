import { expect, it } from 'vitest'
import { halfSipHash13 } from '../src/bytes.js'

it('agrees with Linux: lib/tests/siphash_kunit.c, test_vectors_hsiphash of 32-bit machines', () => {
  // The message is the bytes 0, 1, 2, …; the key the bytes 0 … 7. Vectors of whole words only.
  const vectors: [number, number][] = [
    [0, 0x5814c896],
    [4, 0x7e059ea6],
    [8, 0x577999b1],
    [16, 0x8b31d501],
    [40, 0x05327eb2],
  ]
  const words = Uint32Array.from({ length: 12 }, (_, i) => 0x03020100 + 0x04040404 * (i - 1))
  for (const [bytes, expected] of vectors) {
    expect(halfSipHash13(words, 1, bytes / 4, 0x03020100, 0x07060504) >>> 0).toBe(expected)
  }
})
