import { describe, expect, it } from 'vitest'
import { crc32, createRng, exp, expInPlace, log } from '../src/index.js'
import { bigExp, bigLog, errorInUlps } from './big-float.js'

const rng = createRng(20)
const between = (low: number, high: number): number => low + (high - low) * rng.nextFloat()

/** Distance between two finite numbers of one sign, in steps of float64. */
function stepsApart(a: number, b: number): number {
  const view = new BigInt64Array(new Float64Array([a, b]).buffer)
  return Math.abs(Number(view[0]! - view[1]!))
}

describe('exp', () => {
  it('is within 1 ulp of the true value, subnormal results included', () => {
    let worst = 0
    for (let i = 0; i < 4000; i++) {
      const x = i < 2000 ? between(-745, 709.7) : between(-1, 1)
      const { mantissa, k } = bigExp(x)
      worst = Math.max(worst, errorInUlps(exp(x), mantissa, k))
    }
    expect(worst).toBeLessThan(1)
    expect(worst).toBeGreaterThan(0.3) // the measure itself measures something
  })

  it('is within 1 step of Math.exp', () => {
    for (let i = 0; i < 100_000; i++) {
      const x = between(-745.2, 709.9)
      expect(stepsApart(exp(x), Math.exp(x)), `exp(${x})`).toBeLessThanOrEqual(1)
    }
  })

  it.each([
    [0, 1],
    [-0, 1],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
    [Number.NEGATIVE_INFINITY, 0],
    [Number.NaN, Number.NaN],
    [709.782712893384, 1.7976931348622732e308],
    [709.7827128933841, Number.POSITIVE_INFINITY],
    [-745.1332191019411, 5e-324],
    [-745.1332191019412, 0],
    [5e-324, 1],
    [1e308, Number.POSITIVE_INFINITY],
    [-1e308, 0],
  ])('exp(%d) is %d', (x, expected) => {
    expect(exp(x)).toBe(expected)
  })

  it('is exact at the powers it scales by and never falls when x grows', () => {
    let before = 0
    for (let x = -745.2; x < 709.8; x += 0.037) {
      const value = exp(x)
      expect(value).toBeGreaterThanOrEqual(before)
      before = value
    }
  })

  it('works on part of an array in place', () => {
    const values = Float64Array.of(1, 2, 3, 4)
    expInPlace(values, 1, 2)
    expect([...values]).toEqual([1, exp(2), exp(3), 4])
  })
})

describe('log', () => {
  it('is within 1 ulp of the true value', () => {
    let worst = 0
    for (let i = 0; i < 4000; i++) {
      const x = i < 2000 ? 2 ** between(-1000, 1000) : between(0.5, 2)
      worst = Math.max(worst, errorInUlps(log(x), bigLog(x)))
    }
    expect(worst).toBeLessThan(1)
    expect(worst).toBeGreaterThan(0.3)
  })

  it('is within 1 step of Math.log, subnormal arguments included', () => {
    for (let i = 0; i < 100_000; i++) {
      const x = 2 ** between(-1074, 1024)
      expect(stepsApart(log(x), Math.log(x)), `log(${x})`).toBeLessThanOrEqual(1)
    }
  })

  it.each([
    [1, 0],
    [0, Number.NEGATIVE_INFINITY],
    [-0, Number.NEGATIVE_INFINITY],
    [-1, Number.NaN],
    [Number.NEGATIVE_INFINITY, Number.NaN],
    [Number.NaN, Number.NaN],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
    [2, Math.LN2],
    [10, Math.LN10],
    [5e-324, -744.4400719213812],
    [Number.MAX_VALUE, 709.782712893384],
  ])('log(%d) is %d', (x, expected) => {
    expect(log(x)).toBe(expected)
  })
})

it('gives these very bits on every machine', () => {
  // The two checksums were taken on x86-64; a machine where they differ would give other models and scores.
  const values = new Float64Array(200_000)
  const bytes = new DataView(new ArrayBuffer(values.length * 8))
  const checksum = (f: (i: number) => number): string => {
    for (let i = 0; i < values.length; i++) bytes.setFloat64(i * 8, f(i), true)
    return crc32(new Uint8Array(bytes.buffer)).toString(16)
  }
  expect(checksum((i) => exp((i - 102_400) / 137))).toBe('1f7402eb')
  expect(checksum((i) => log((i + 1) / 4096))).toBe('65dd9173')
})
