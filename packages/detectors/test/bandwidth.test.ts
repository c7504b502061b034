/** What is said of rows that give no bandwidth must be true of them. */
import { createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseBandwidth } from '../src/embedding/bandwidth.js'
import { checkParameters, createScoreWorkspace, fitDetector, scoreSamples } from '../src/index.js'
import { fitScaler, SCALER_NAMES, scaleRows } from '../src/scaler.js'
import { sampleRows } from './model-file/sample.js'

function refusal(rows: Matrix, quantile = 0.3): string {
  try {
    chooseBandwidth(rows, quantile, createRng(1))
  } catch (error) {
    expect(error).toBeInstanceOf(DataError)
    expect((error as DataError).field).toBe('bandwidthQuantile')
    return (error as DataError).message
  }
  throw new Error('it has a bandwidth')
}

function times(factor: number): Matrix {
  const { rows, cols, data } = sampleRows(1)
  return matrixOf(
    rows,
    cols,
    data.map((v) => v * factor),
  )
}

/** n rows of a single number, all 7 but the last `others`, which differ. */
function repeated(n: number, others: number): Matrix {
  return matrixOf(
    n,
    1,
    Float64Array.from({ length: n }, (_, i) => (i < n - others ? 7 : 100 + i)),
  )
}

describe('the rule of the authors’ program', () => {
  it('ranks the diagonal too, so the bandwidth is that of a smaller quantile of pairs', () => {
    const rows = sampleRows(1)
    const authors = { quantileCompat: 'authors', quantileRows: 5000 } as const
    const n = rows.rows
    for (const q of [0.2, 0.5, 0.9]) {
      const { bandwidth } = chooseBandwidth(rows, q, createRng(1), authors)
      // both interpolate between ranks, so the equal one is found to a rank
      const share = (q * (n * n - 1) - n) / (n * n - n)
      const step = 2 / (n * (n - 1))
      const pairs = (p: number) => chooseBandwidth(rows, p, createRng(1)).bandwidth
      expect(bandwidth).toBeGreaterThanOrEqual(pairs(share - step))
      expect(bandwidth).toBeLessThanOrEqual(pairs(share + step))
    }
  })

  it('says so where the zeros of the diagonal reach up to the quantile', () => {
    const rows = times(1)
    const rule = { quantileCompat: 'authors', quantileRows: 5000 } as const
    const at = (q: number) => () => chooseBandwidth(rows, q, createRng(1), rule)
    const most = rows.rows / (rows.rows * rows.rows - 1)
    expect(at(most * 0.9)).toThrow(/all distances.* is 0, because .* are 0, the diagonal included: raise/)
    expect(at(most * 1.5)()).toHaveProperty('bandwidth')
  })

  it('and pairs are told when a sample of rows is all that is asked for', () => {
    const { rowsUsed } = chooseBandwidth(times(1), 0.3, createRng(1), {
      quantileCompat: 'pairs',
      quantileRows: 7,
    })
    expect(rowsUsed).toBe(7)
  })
})

describe('rows that repeat', () => {
  const rule = { quantileCompat: 'positive-pairs', quantileRows: 5000 } as const
  const positive = (rows: Matrix, q = 0.3) => chooseBandwidth(rows, q, createRng(1), rule)

  it('have the quantile of their positive distances, by brute force', () => {
    for (const [n, others] of [
      [10, 3],
      [40, 5],
      [200, 1],
    ] as const) {
      const rows = repeated(n, others)
      const distances: number[] = []
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < i; j++) distances.push(Math.abs(rows.data[i]! - rows.data[j]!))
      }
      const above = distances.filter((distance) => distance > 0).sort((a, b) => a - b)
      for (const q of [0.05, 0.3, 0.4]) {
        const at = q * (above.length - 1)
        const low = above[Math.floor(at)]!
        const wanted = low + (above[Math.min(above.length - 1, Math.floor(at) + 1)]! - low) * (at % 1)
        const { bandwidth, note } = positive(rows, q)
        expect(bandwidth).toBeCloseTo(wanted, 6)
        expect(note).toMatch(/^\d\d\.\d % of the pairs of rows are equal: /)
      }
    }
  })

  it('have that of all pairs where it is above 0, to the bit', () => {
    for (const [rows, q] of [
      [times(1), 0.3],
      [repeated(10, 3), 0.48],
    ] as const) {
      expect(positive(rows, q)).toEqual(chooseBandwidth(rows, q, createRng(1)))
      expect(positive(rows, q).note).toBeNull()
    }
  })

  it('and are all equal have a unit, or what rounding leaves of large numbers', () => {
    const equal = (value: number) => matrixOf(30, 2, new Float64Array(60).fill(value))
    expect(positive(equal(0))).toMatchObject({ bandwidth: 1, note: 'all rows are equal: the bandwidth is 1' })
    expect(positive(equal(-1500)).bandwidth).toBe(1)
    expect(positive(equal(-(2 ** 24))).bandwidth).toBe(16)
    expect(positive(matrixOf(2, 1, Float64Array.of(7, 7))).bandwidth).toBe(1)
  })

  it('are learnt by every detector with a bandwidth, and refused without the rule', () => {
    const equal = matrixOf(40, 3, new Float64Array(120).fill(60))
    for (const detector of [
      'oc-kjl',
      'oc-kjl-qs',
      'oc-nystrom',
      'oc-nystrom-qs',
      'oc-kjl-svm',
      'oc-nystrom-svm',
      'ocsvm',
      'kde',
    ] as const) {
      const options = { detector, quantileCompat: 'positive-pairs' } as const
      const model = fitDetector(equal, checkParameters(options), createRng(1))
      expect(model.fitReport.notes.join()).toMatch(/all rows are equal: the bandwidth is 1/)
      const both = matrixOf(2, 3, Float64Array.of(60, 60, 60, 60, 61, 60))
      const scores = scoreSamples(model, both, new Float64Array(2), createScoreWorkspace(model))
      expect(scores[0], detector).toBeGreaterThan(scores[1]!)
      expect(() => fitDetector(equal, checkParameters({ detector }), createRng(1))).toThrow(/one point/)
    }
  })

  it('in a sample of them alone are told of as such', () => {
    // one of 20,000 differs, and the sample has missed it
    const { bandwidth, note } = positive(repeated(20_000, 1))
    expect(bandwidth).toBeGreaterThan(0)
    expect(note).toMatch(/^all of a random 5000 rows are equal|^99\.9 % of the pairs/)
  })

  it('are refused still where they differ by what has no square', () => {
    expect(() => positive(times(1e-200))).toThrow(/small differences/)
  })
})

describe('a bandwidth that cannot be', () => {
  it('is blamed on the size of differences where rows differ', () => {
    for (const factor of [1e-320, 1e-200, 1e-160]) {
      expect(refusal(times(factor))).toMatch(/small differences.*multiply the rows/)
      expect(refusal(times(factor))).not.toMatch(/equal/)
    }
    for (const factor of [1e160, 1e300]) expect(refusal(times(factor))).toMatch(/large.*divide the rows/)
    expect(refusal(times(1e300))).toMatch(/is Infinity/)
    for (const factor of [1e-140, 1, 1e140]) {
      expect(chooseBandwidth(times(factor), 0.3, createRng(1)).bandwidth).toBeGreaterThan(0)
    }
  })

  it('is blamed on equal rows by their share, never rounded up', () => {
    // of 10 rows 7 are equal: 21 of 45 pairs
    expect(refusal(repeated(10, 3))).toMatch(/46\.6 % of the pairs of training rows.*above 0\.467 or remove/)
    expect(chooseBandwidth(repeated(10, 3), 0.48, createRng(1)).bandwidth).toBeGreaterThan(0)
    // of 4,000 rows one differs: 1999/2000 of the pairs are equal, and no quantile is above 1.000
    expect(refusal(repeated(4000, 1))).toMatch(/99\.9 % of the pairs of training rows are equal: remove/)
    // of more rows a sample is ranked, and it may have missed those that differ
    expect(refusal(repeated(20_000, 1))).toMatch(
      /of the pairs of a random 5000 training rows are equal: remove/,
    )
  })

  it('comes with words for rows of any size and every scaler, and is never NaN', () => {
    const value = fc.oneof(
      fc.constantFrom(0, 5e-324, 1e-320, 1e-200, 1, 1e150, 1e200, 1.7e308, -1.7e308),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    )
    const cases = fc.tuple(
      fc.array(fc.tuple(value, value), { minLength: 2, maxLength: 12 }),
      fc.constantFrom(...SCALER_NAMES),
      fc.constantFrom(0.01, 0.3, 0.5, 1),
    )
    fc.assert(
      fc.property(cases, ([pairs, kind, quantile]) => {
        const rows = matrixOf(pairs.length, 2, Float64Array.from(pairs.flat()))
        try {
          const scaled = scaleRows(fitScaler(rows, kind), rows)
          expect(scaled.data.every(Number.isFinite)).toBe(true)
          const { bandwidth } = chooseBandwidth(scaled, quantile, createRng(1))
          expect(bandwidth > 0 && Number.isFinite(bandwidth)).toBe(true)
        } catch (error) {
          if (!(error instanceof DataError)) throw error
          expect(error.message).not.toMatch(/NaN|100\.0/)
          const blamesAll = /100 % of the pairs/.test(error.message)
          if (blamesAll && kind === 'none') {
            expect(new Set(pairs.map(([a, b]) => `${a + 0},${b + 0}`)).size).toBe(1)
          }
        }
      }),
      { numRuns: sampleCount(2000) },
    )
  })
})
