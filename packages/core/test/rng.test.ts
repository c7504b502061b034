import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ArgumentError, createRng, sampleWithoutReplacement, shuffleInPlace } from '../src/index.js'

/* An independent statement of both algorithms on BigInt, where no 32-bit trick can go wrong unseen. */
const MASK = 0xffffffffn
const rotl = (x: bigint, k: bigint): bigint => ((x << k) | (x >> (32n - k))) & MASK

/** xoshiro128** 1.1, https://prng.di.unimi.it/xoshiro128starstar.c */
function* xoshiro128StarStar(state: bigint[]): Generator<number> {
  const s = [...state] as [bigint, bigint, bigint, bigint]
  for (;;) {
    yield Number((rotl((s[1] * 5n) & MASK, 7n) * 9n) & MASK)
    const t = (s[1] << 9n) & MASK
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = rotl(s[3], 11n)
  }
}

/** splitmix32: the finaliser of Steele, Lea and Flood's generator with 32-bit constants. */
function splitmix32(seed: bigint): bigint[] {
  let mix = seed & MASK
  return [0, 1, 2, 3].map(() => {
    mix = (mix + 0x9e3779b9n) & MASK
    let z = mix
    z = ((z ^ (z >> 16n)) * 0x21f0aaadn) & MASK
    z = ((z ^ (z >> 15n)) * 0x735a2d97n) & MASK
    return z ^ (z >> 15n)
  })
}

const take = (stream: Generator<number>, count: number): number[] =>
  Array.from({ length: count }, () => stream.next().value as number)

describe('createRng', () => {
  it('is held against a reference that gives the published vector', () => {
    // state 1, 2, 3, 4: the vector of the C source, as rand_xoshiro's tests carry it
    expect(take(xoshiro128StarStar([1n, 2n, 3n, 4n]), 10)).toEqual([
      11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597, 4258142804,
    ])
  })

  it.each([0, 1, 42, 2 ** 32 - 1, 2 ** 32, 123456789012345, Number.MAX_SAFE_INTEGER])(
    'seed %d: splitmix32 into xoshiro128**',
    (seed) => {
      const low = BigInt(seed) & MASK
      const high = BigInt(seed) >> 32n
      const state = splitmix32(low ^ ((high * 0x9e3779b1n) & MASK))
      state[2] = state[2]! ^ high
      const rng = createRng(seed)
      const found = Array.from({ length: 1000 }, () => rng.nextUint32())
      expect(found).toEqual(take(xoshiro128StarStar(state), 1000))
    },
  )

  it.each([-1, 0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY])('refuses seed %d', (seed) => {
    expect(() => createRng(seed)).toThrow(ArgumentError)
  })

  it('nextFloat has mean 1/2, variance 1/12 and no serial correlation, each within 5 standard errors', () => {
    const rng = createRng(7)
    const n = 200_000
    const x = Float64Array.from({ length: n }, () => rng.nextFloat())
    let sum = 0
    let square = 0
    let lag = 0
    for (let i = 0; i < n; i++) {
      expect(x[i]! >= 0 && x[i]! < 1).toBe(true)
      sum += x[i]! - 0.5
      square += (x[i]! - 0.5) ** 2
      if (i > 0) lag += (x[i]! - 0.5) * (x[i - 1]! - 0.5)
    }
    expect(Math.abs(sum / n)).toBeLessThan(5 * Math.sqrt(1 / 12 / n))
    expect(Math.abs(square / n - 1 / 12)).toBeLessThan(5 * Math.sqrt(1 / 180 / n))
    expect(Math.abs(lag / n)).toBeLessThan((5 * (1 / 12)) / Math.sqrt(n))
  })

  it('nextBelow is uniform: chi-squared over 10 cells below its 1-in-10^6 point', () => {
    const rng = createRng(8)
    const counts = new Array<number>(10).fill(0)
    for (let i = 0; i < 100_000; i++) counts[rng.nextBelow(10)]!++
    const chiSquared = counts.reduce((sum, c) => sum + (c - 10_000) ** 2 / 10_000, 0)
    expect(chiSquared).toBeLessThan(44.8) // 9 degrees of freedom, p = 1e-6
  })

  it('nextBelow has no modulo bias where bound is 3/4 of 2^32', () => {
    // plain modulo would put half of all draws into the lowest third
    const rng = createRng(9)
    const bound = 3 * 2 ** 30
    let low = 0
    for (let i = 0; i < 60_000; i++) low += rng.nextBelow(bound) < 2 ** 30 ? 1 : 0
    expect(Math.abs(low - 20_000)).toBeLessThan(5 * Math.sqrt((60_000 * 2) / 9))
  })

  it.each([0, -1, 1.5, 2 ** 32 + 1, Number.NaN])('nextBelow refuses %d', (bound) => {
    expect(() => createRng(1).nextBelow(bound)).toThrow(ArgumentError)
  })

  it('nextNormal has the moments and tails of a standard normal within 5 standard errors', () => {
    const rng = createRng(10)
    const n = 200_000
    let [m1, m2, m3, m4, beyondTwo] = [0, 0, 0, 0, 0]
    for (let i = 0; i < n; i++) {
      const z = rng.nextNormal()
      m1 += z / n
      m2 += z ** 2 / n
      m3 += z ** 3 / n
      m4 += z ** 4 / n
      beyondTwo += Math.abs(z) > 2 ? 1 : 0
    }
    const se = 1 / Math.sqrt(n)
    expect(Math.abs(m1)).toBeLessThan(5 * se)
    expect(Math.abs(m2 - 1)).toBeLessThan(5 * Math.SQRT2 * se)
    expect(Math.abs(m3)).toBeLessThan(5 * Math.sqrt(15) * se)
    expect(Math.abs(m4 - 3)).toBeLessThan(5 * Math.sqrt(96) * se)
    expect(Math.abs(beyondTwo / n - 0.0455003)).toBeLessThan(5 * Math.sqrt(0.0455 * 0.9545) * se)
  })

  it('fork depends on the seed and the label alone', () => {
    const a = createRng(3)
    const b = createRng(3)
    for (let i = 0; i < 17; i++) b.nextUint32()
    const draw = (rng: { nextUint32(): number }): number[] =>
      Array.from({ length: 8 }, () => rng.nextUint32())
    expect(draw(a.fork('landmarks'))).toEqual(draw(b.fork('landmarks')))
    const streams = ['landmarks', 'starts', '', 'startt'].map((label) => draw(a.fork(label)).join())
    streams.push(draw(createRng(3)).join(), draw(createRng(4).fork('landmarks')).join())
    expect(new Set(streams).size).toBe(streams.length)
  })
})

describe('sampleWithoutReplacement', () => {
  it('draws different numbers below n', () => {
    fc.assert(
      fc.property(fc.nat(300), fc.nat(300), fc.nat(), (a, b, seed) => {
        const [count, n] = a < b ? [a, b] : [b, a]
        const drawn = sampleWithoutReplacement(n, count, createRng(seed))
        expect(drawn.length).toBe(count)
        expect(new Set(drawn).size).toBe(count)
        expect(drawn.every((i) => i < n)).toBe(true)
      }),
    )
  })

  it('draws every ordered pair of 4 equally often', () => {
    const rng = createRng(11)
    const counts = new Map<string, number>()
    for (let i = 0; i < 24_000; i++) {
      const key = sampleWithoutReplacement(4, 2, rng).join()
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    expect(counts.size).toBe(12)
    let chiSquared = 0
    for (const c of counts.values()) chiSquared += (c - 2000) ** 2 / 2000
    expect(chiSquared).toBeLessThan(49) // 11 degrees of freedom, p = 1e-6
  })

  it('refuses more than there are', () => {
    expect(() => sampleWithoutReplacement(3, 4, createRng(1))).toThrow(ArgumentError)
  })
})

it('shuffleInPlace permutes', () => {
  const values = Uint32Array.from({ length: 100 }, (_, i) => i)
  const shuffled = shuffleInPlace(values, createRng(1))
  expect(shuffled).toBe(values)
  expect([...shuffled].sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i))
  expect([...shuffled]).not.toEqual(Array.from({ length: 100 }, (_, i) => i))
})
