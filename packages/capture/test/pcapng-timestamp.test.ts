import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tickLength, writeTicks } from '../src/pcapng.js'
import { readFrames } from './support/frames.js'
import { enhancedPacket, interfaceBlock, section, u16, u32 } from './support/pcapng.js'

describe('writeTicks', () => {
  // draft-ietf-opsawg-pcapng, if_tsresol: floor(ticks · 10^9 / resolution) in whole numbers
  it('is exact integer division for every resolution and offset, NaN beyond ±(2^53 − 1) µs', () => {
    const resolution = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0x80, max: 0xbf }))
    const offset = fc.oneof(
      fc.constant(0n),
      fc.bigInt({ min: -(10n ** 10n), max: 10n ** 10n }),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    )
    const count = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
    fc.assert(
      fc.property(resolution, offset, count, (byte, offsetSeconds, ticks) => {
        const micros = new Float64Array(1)
        const sub = new Uint16Array(1)
        const length = tickLength(byte, offsetSeconds)
        writeTicks(micros, sub, 0, length, Number(ticks >> 32n), Number(ticks & 0xffffffffn))
        const perSecond = (byte & 0x80) !== 0 ? 2n ** BigInt(byte & 0x7f) : 10n ** BigInt(byte)
        const nanos = (ticks * 1_000_000_000n) / perSecond
        const whole = nanos / 1000n + offsetSeconds * 1_000_000n
        if (whole < 2n ** 53n && whole > -(2n ** 53n)) {
          expect([BigInt(micros[0]!), BigInt(sub[0]!)]).toEqual([whole, nanos % 1000n])
        } else {
          expect([micros[0], sub[0]]).toEqual([Number.NaN, 0])
        }
      }),
      { numRuns: sampleCount(5000) },
    )
  })

  it('is exact where huge ticks and a huge offset cancel, and at the bounds', () => {
    const at = (ticks: bigint, offsetSeconds: bigint): number => {
      const micros = new Float64Array(1)
      const length = tickLength(6, offsetSeconds)
      writeTicks(micros, new Uint16Array(1), 0, length, Number(ticks >> 32n), Number(ticks & 0xffffffffn))
      return micros[0]!
    }
    const offset = 10n ** 13n
    expect(at(offset * 1_000_000n + 12_345n, -offset)).toBe(12_345)
    expect(at(2n ** 53n - 1n, 0n)).toBe(Number.MAX_SAFE_INTEGER)
    expect(at(2n ** 53n, 0n)).toBeNaN()
    expect(at(2n ** 53n + 999_999n, -1n)).toBe(Number.MAX_SAFE_INTEGER)
    expect(at(2n ** 64n - 1n, 2n ** 62n)).toBeNaN()
  })

  it('adds the offset in seconds', () => {
    const micros = new Float64Array(1)
    writeTicks(micros, new Uint16Array(1), 0, tickLength(6, -3600n), 0, 7)
    expect(micros[0]).toBe(-3_599_999_993)
  })
})

describe('a pcapng with times that cannot be', () => {
  it('gives its packets without a time, and says how many', () => {
    const u64 = (value: bigint): number[] => [
      ...u32(Number(value & 0xffffffffn)),
      ...u32(Number(value >> 32n)),
    ]
    const options = [...u16(9), ...u16(1), 0xbf, 0, 0, 0, ...u16(14), ...u16(8), ...u64(2n ** 62n)]
    const { end, frames } = readFrames(
      Uint8Array.from([
        ...section(),
        ...interfaceBlock(options),
        ...interfaceBlock(),
        ...enhancedPacket(0, 2n ** 64n - 1n, [1, 2, 3, 4]),
        ...enhancedPacket(0, 0n, [1, 2, 3, 4]),
        ...enhancedPacket(1, 5n, [1, 2, 3, 4]),
      ]),
    )
    expect(frames).toHaveLength(3)
    expect(end).toMatchObject({ error: null, packets: 3 })
    expect(end.warnings).toEqual([
      '2 packets with a time not within 2^53 - 1 microseconds of 1970, read as without a time',
    ])
  })
})
