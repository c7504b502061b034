import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tickLength, writeTicks } from '../src/pcapng-timestamp.js'

describe('writeTicks', () => {
  // draft-ietf-opsawg-pcapng, if_tsresol: floor(ticks · 10^9 / resolution) in whole numbers
  it('is exact integer division for every resolution, below 2^53 µs', () => {
    const resolution = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0x80, max: 0xbf }))
    fc.assert(
      fc.property(resolution, fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (byte, ticks) => {
        const micros = new Float64Array(1)
        const sub = new Uint16Array(1)
        const high = Number(ticks >> 32n)
        writeTicks(micros, sub, 0, tickLength(byte, 0), high, Number(ticks & 0xffffffffn))
        const perSecond = (byte & 0x80) !== 0 ? 2n ** BigInt(byte & 0x7f) : 10n ** BigInt(byte)
        const nanos = (ticks * 1_000_000_000n) / perSecond
        if (nanos / 1000n < 2n ** 53n) {
          expect(BigInt(micros[0]!) * 1000n + BigInt(sub[0]!)).toBe(nanos)
        } else {
          expect(Math.abs(micros[0]! / Number(nanos / 1000n) - 1)).toBeLessThan(1e-15)
        }
      }),
      { numRuns: 5000 },
    )
  })

  it('adds the offset in seconds', () => {
    const micros = new Float64Array(1)
    writeTicks(micros, new Uint16Array(1), 0, tickLength(6, -3600), 0, 7)
    expect(micros[0]).toBe(-3_599_999_993)
  })
})
