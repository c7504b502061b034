import { ArgumentError, createRng, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { equalPairShare, MAXIMUM_PAIR_ROWS, pairDistanceQuantiles } from '../src/index.js'

/** numpy's linear interpolation over all distances, by sorting them. */
function bruteForce(
  { rows: n, cols, data }: Matrix,
  q: readonly number[],
  rule: 'pairs' | 'authors',
): Float64Array {
  const all: number[] = []
  for (let i = 0; i < n; i++) {
    for (let j = rule === 'pairs' ? i + 1 : 0; j < n; j++) {
      let sum = 0
      for (let t = 0; t < cols; t++) sum += (data[i * cols + t]! - data[j * cols + t]!) ** 2
      all.push(Math.sqrt(sum))
    }
  }
  const sorted = Float64Array.from(all).sort()
  return Float64Array.from(q, (value) => {
    const position = value * (sorted.length - 1)
    const low = Math.floor(position)
    const a = sorted[low]!
    return a + (sorted[Math.min(low + 1, sorted.length - 1)]! - a) * (position - low)
  })
}

const rng = () => createRng(7)

describe('quantiles of pair distances', () => {
  it('are those of the sorted distances, both rules, many ties', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 4, maxLength: 60 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 4 }),
        fc.constantFrom('pairs' as const, 'authors' as const),
        (numbers, q, rule) => {
          const rows = matrixOf(
            numbers.length >> 1,
            2,
            Float64Array.from(numbers.slice(0, (numbers.length >> 1) * 2)),
          )
          expect(pairDistanceQuantiles(rows, q, rng(), rule).quantiles).toEqual(bruteForce(rows, q, rule))
        },
      ),
    )
  })

  it('are those of all pairs, or of a random sample of the rows asked for', () => {
    const source = createRng(3)
    const rows = matrixOf(
      90,
      2,
      Float64Array.from({ length: 180 }, () => source.nextNormal()),
    )
    const q = [0, 0.3, 1]
    const whole = pairDistanceQuantiles(rows, q, rng())
    expect(pairDistanceQuantiles(rows, q, rng(), 'pairs', 90)).toEqual(whole)
    const sampled = pairDistanceQuantiles(rows, q, rng(), 'pairs', 40)
    expect(sampled.rowsUsed).toBe(40)
    expect(sampled.quantiles[0]).toBeGreaterThanOrEqual(whole.quantiles[0]!)
    expect(sampled.quantiles[2]).toBeLessThanOrEqual(whole.quantiles[2]!)
    expect(sampled.quantiles[1]).not.toBe(whole.quantiles[1])
    for (const maximumRows of [1, 2.5, Number.NaN]) {
      expect(() => pairDistanceQuantiles(rows, q, rng(), 'pairs', maximumRows)).toThrow(
        expect.objectContaining({ field: 'maximumRows' }),
      )
    }
  })

  it('are exact where a sample has to guess the bracket, also when the data are built to mislead it', () => {
    const n = 400
    const source = createRng(3)
    const spread = matrixOf(
      n,
      1,
      Float64Array.from({ length: n }, () => source.nextNormal()),
    )
    // half of the rows equal, a few enormous, in an order that a regular sample sees unevenly
    const uneven = matrixOf(
      n,
      1,
      Float64Array.from({ length: n }, (_, i) => (i % 2 === 0 ? 1 : i > 390 ? 1e9 * i : 1 / i)),
    )
    const steps = matrixOf(
      n,
      1,
      Float64Array.from({ length: n }, (_, i) => 2 ** (i / 8)),
    )
    for (const rows of [spread, uneven, steps]) {
      const q = [0, 0.01, 0.2, 0.25, 0.3, 0.5, 0.9, 0.999, 1]
      expect(pairDistanceQuantiles(rows, q, rng()).quantiles).toEqual(bruteForce(rows, q, 'pairs'))
    }
  })

  it('come from a seeded sample above the stated number of rows', () => {
    const n = MAXIMUM_PAIR_ROWS + 500
    const source = createRng(5)
    const rows = matrixOf(
      n,
      1,
      Float64Array.from({ length: n }, () => source.nextFloat()),
    )
    const a = pairDistanceQuantiles(rows, [0.5], rng())
    expect(a.rowsUsed).toBe(MAXIMUM_PAIR_ROWS)
    expect(pairDistanceQuantiles(rows, [0.5], rng())).toEqual(a)
    // the median distance of two uniform numbers is 1 − √½
    expect(Math.abs(a.quantiles[0]! - (1 - Math.SQRT1_2))).toBeLessThan(0.01)
  })

  it('know the share of equal pairs', () => {
    expect(equalPairShare(matrixOf(4, 1, Float64Array.of(1, 1, 1, 2)), rng())).toBe(0.5)
  })

  it('tell equal rows from rows whose squared differences are 0', () => {
    const tiny = Float64Array.of(1e-320, 2e-320, 2e-320, 0, -0, 1e-200)
    expect(equalPairShare(matrixOf(6, 1, tiny), rng())).toBe(2 / 15)
    expect(pairDistanceQuantiles(matrixOf(6, 1, tiny), [1], rng()).quantiles[0]).toBe(0)
  })

  it('are infinite where squares overflow, never NaN', () => {
    const huge = matrixOf(3, 1, Float64Array.of(0, 1, 1e200))
    const q = [0, 0.25, 0.5, 0.75, 1]
    const infinite = Number.POSITIVE_INFINITY
    expect([...pairDistanceQuantiles(huge, q, rng()).quantiles]).toEqual([
      1,
      infinite,
      infinite,
      infinite,
      infinite,
    ])
  })

  it('refuse one row and quantiles outside [0, 1]', () => {
    expect(() => pairDistanceQuantiles(matrixOf(1, 1, new Float64Array(1)), [0.5], rng())).toThrow(
      ArgumentError,
    )
    for (const q of [-0.1, 1.1, Number.NaN]) {
      expect(() => pairDistanceQuantiles(matrixOf(2, 1, new Float64Array(2)), [q], rng())).toThrow(/q\[0\]/)
    }
  })
})
