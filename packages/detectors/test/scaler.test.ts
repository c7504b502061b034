import { DataError, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fitScaler, SCALER_NAMES, scaleInto, scaleRows } from '../src/scaler.js'
import { expectClose } from './close.js'
import { clusteredRows } from './rows.js'

const column = (...values: number[]) => matrixOf(values.length, 1, Float64Array.from(values))
const scaled = (scaler: ReturnType<typeof fitScaler>, ...values: number[]) => [
  ...scaleRows(scaler, column(...values)).data,
]

describe('scalers', () => {
  it('log is log1p of the size with the sign kept, small numbers included', () => {
    const values = [0, 1e-300, 1e-17, 1e-9, 0.5, 1, 65535, 1e300, Number.MAX_VALUE]
    const scaler = fitScaler(column(...values), 'log')
    for (const [i, y] of scaled(scaler, ...values).entries()) {
      const exact = Math.log1p(values[i]!)
      expect(Math.abs(y - exact)).toBeLessThanOrEqual(4e-16 * exact)
    }
    expect(scaled(scaler, -1, -65535)).toEqual(scaled(scaler, 1, 65535).map((y) => -y))
  })

  it('standard and log-standard give columns of mean 0 and deviation 1', () => {
    const rows = clusteredRows(200, 3)
    for (const kind of ['standard', 'log-standard'] as const) {
      const { data } = scaleRows(fitScaler(rows, kind), rows)
      for (let j = 0; j < 3; j++) {
        const values = Array.from({ length: 200 }, (_, i) => data[3 * i + j]!)
        const mean = values.reduce((a, b) => a + b) / 200
        expect(mean).toBeCloseTo(0, 12)
        expect(values.reduce((a, v) => a + (v - mean) ** 2, 0) / 200).toBeCloseTo(1, 12)
      }
    }
  })

  it('quantile gives shares of training rows, the middle of their ranks to equal ones', () => {
    const scaler = fitScaler(column(30, 10, 20, 20, 20), 'quantile')
    expectClose(scaled(scaler, 10, 20, 30), [0, 0.5, 1], 1e-15)
    expectClose(scaled(scaler, 15, 25), [0.25, 0.75], 1e-15)
    // beyond the outermost, in units of the range
    expectClose(scaled(scaler, 0, 50, -10), [-0.5, 2, -1], 1e-15)
  })

  it('quantile keeps 101 knots at most, and the exact share at each', () => {
    const values = Array.from({ length: 1001 }, (_, i) => i ** 3)
    const scaler = fitScaler(column(...values), 'quantile')
    if (scaler.kind !== 'quantile') throw new Error('another scaler')
    expect(scaler.knots).toHaveLength(101)
    expectClose(
      scaled(scaler, ...values.filter((_, i) => i % 10 === 0)),
      [...Array(101).keys()].map((t) => t / 100),
      1e-12,
    )
  })

  it('a constant column still counts when it moves', () => {
    for (const kind of ['standard', 'log-standard', 'quantile'] as const) {
      const scaler = fitScaler(column(5, 5, 5), kind)
      const [low, same, high] = scaled(scaler, 4, 5, 6)
      expect(low!).toBeLessThan(same!)
      expect(high!).toBeGreaterThan(same!)
    }
  })

  it('each keeps the order of numbers, and the bits of a row wherever it stands', () => {
    const numbers = fc.double({ min: -1e150, max: 1e150, noNaN: true })
    fc.assert(
      fc.property(
        fc.constantFrom(...SCALER_NAMES),
        fc.array(numbers, { minLength: 2, maxLength: 150 }),
        fc.array(numbers, { minLength: 1, maxLength: 20 }),
        (kind, training, asked) => {
          const scaler = fitScaler(column(...training), kind)
          const sorted = Float64Array.from([...asked, ...training]).sort()
          const all = scaled(scaler, ...sorted)
          const one = new Float64Array(1)
          sorted.forEach((x, i) => {
            scaleInto(scaler, Float64Array.of(x), 0, 1, 1, one)
            expect(one[0]).toBe(all[i])
            if (i > 0) expect(all[i]!).toBeGreaterThanOrEqual(all[i - 1]!)
          })
        },
      ),
    )
  })

  it('refuse numbers whose deviation or range is out of range', () => {
    const huge = column(-Number.MAX_VALUE, Number.MAX_VALUE)
    for (const kind of ['standard', 'quantile'] as const) {
      expect(() => fitScaler(huge, kind)).toThrow(DataError)
      expect(() => fitScaler(huge, kind)).toThrow(/column 0.*too large/)
    }
    expect(fitScaler(huge, 'log-standard').kind).toBe('log-standard')
  })
})
