import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createTailFunction,
  fitTailTable,
  LOWEST_LOG_TAIL,
  logTail,
  MAXIMUM_KNOTS,
} from '../src/calibration/tail-probability.js'

const tail = (values: ArrayLike<number>) => createTailFunction(fitTailTable(Float64Array.from(values)))

const samples = fc.array(
  fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e12, max: 1e12 }),
    fc.integer({ min: -3, max: 3 }),
  ),
  { minLength: 1, maxLength: 300 },
)

describe('tail probabilities', () => {
  it('are the shares of values that are no larger, of n + 1', () => {
    const f = tail([4, 1, 3, 3])
    expect(logTail(f, 1)).toBeCloseTo(Math.log(1 / 5), 14)
    expect(logTail(f, 3)).toBeCloseTo(Math.log(3 / 5), 14)
    expect(logTail(f, 4)).toBeCloseTo(Math.log(4 / 5), 14)
    expect(logTail(f, 2)).toBeCloseTo((Math.log(1 / 5) + Math.log(3 / 5)) / 2, 14)
  })

  it('come within 4 % of the exact share, by 65 knots at most, for 5,000 values', () => {
    const values = Float64Array.from({ length: 5000 }, (_, i) => ((i * 2654435761) % 5000) ** 2)
    const table = fitTailTable(values.slice())
    expect(table.rows).toBeLessThanOrEqual(MAXIMUM_KNOTS)
    const f = createTailFunction(table)
    values.sort()
    for (let i = 0; i < 5000; i += 7) {
      expect(Math.abs(logTail(f, values[i]!) - Math.log((i + 1) / 5001))).toBeLessThan(0.04)
    }
  })

  it('stay in range and in order, whatever the values and wherever they are asked', () => {
    fc.assert(
      fc.property(samples, fc.array(fc.double({ noNaN: true }), { maxLength: 50 }), (values, asked) => {
        const f = tail(values)
        const sorted = Float64Array.from([...asked, ...values, -Infinity, Infinity]).sort()
        let before = Number.NEGATIVE_INFINITY
        for (const value of sorted) {
          const p = logTail(f, value)
          expect(p).toBeGreaterThanOrEqual(LOWEST_LOG_TAIL)
          expect(p).toBeLessThanOrEqual(0)
          expect(p).toBeGreaterThanOrEqual(before)
          before = p
        }
      }),
    )
  })

  it('tell different values apart: below, between and above those of training', () => {
    const f = tail(Array.from({ length: 500 }, (_, i) => i * i))
    let before = Number.NEGATIVE_INFINITY
    for (let value = -1e6; value < 1e6; value += 77.7) {
      const p = logTail(f, value)
      expect(p).toBeGreaterThan(before)
      before = p
    }
  })

  it('go on below the smallest value with the slope of the lowest 5 %', () => {
    const f = tail(Array.from({ length: 999 }, (_, i) => i))
    const slope = logTail(f, -1) - logTail(f, -2)
    expect(slope).toBeCloseTo(f.lowerSlope, 10)
    expect(slope).toBeGreaterThan(Math.log(40) / 60)
    expect(slope).toBeLessThan(Math.log(60) / 40)
  })

  it('have an answer where all values are equal, and where one is −Infinity', () => {
    const flat = tail([7, 7, 7])
    expect(logTail(flat, 7)).toBeCloseTo(Math.log(3 / 4), 14)
    expect(logTail(flat, 6)).toBeLessThan(logTail(flat, 7))
    const far = tail([Number.NEGATIVE_INFINITY, 1, 2])
    expect(logTail(far, Number.NEGATIVE_INFINITY)).toBeCloseTo(Math.log(1 / 4), 14)
  })
})
