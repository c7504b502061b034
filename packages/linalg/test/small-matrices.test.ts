import { ArgumentError, createRng, log, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  choleskyInto,
  invertLowerInPlace,
  logSumExp,
  lowerTransposeTimesSelf,
  matrixTimesVector,
  multiply,
  symmetricEigen,
} from '../src/index.js'

const random = (rows: number, cols: number, seed: number): Matrix => {
  const rng = createRng(seed)
  return matrixOf(
    rows,
    cols,
    Float64Array.from({ length: rows * cols }, () => rng.nextNormal()),
  )
}

const transpose = ({ rows, cols, data }: Matrix): Matrix =>
  matrixOf(
    cols,
    rows,
    Float64Array.from(data, (_, i) => data[(i % rows) * cols + Math.floor(i / rows)]!),
  )

/** A·Aᵀ + I/10: positive definite. */
const positive = (n: number, seed: number): Matrix => {
  const a = random(n, n, seed)
  const out = multiply(a, transpose(a))
  for (let i = 0; i < n; i++) out.data[i * n + i]! += 0.1
  return out
}

function expectMatrix(actual: Matrix, expected: Matrix, tolerance: number) {
  expect([actual.rows, actual.cols]).toEqual([expected.rows, expected.cols])
  actual.data.forEach((v, i) => {
    expect(Math.abs(v - expected.data[i]!)).toBeLessThan(tolerance)
  })
}

const identity = (n: number) =>
  matrixOf(
    n,
    n,
    Float64Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0)),
  )

describe('Cholesky', () => {
  it('gives L·Lᵀ back, an inverse, and the precision', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.nat(), (n, seed) => {
        const a = positive(n, seed)
        const l = matrixOf(n, n, new Float64Array(n * n))
        expect(choleskyInto(a.data, 0, n, l.data, 0)).toBe(true)
        expectMatrix(multiply(l, transpose(l)), a, 1e-10)
        for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) expect(l.data[i * n + j]).toBe(0)
        const w = matrixOf(n, n, l.data.slice())
        invertLowerInPlace(w.data, 0, n)
        expectMatrix(multiply(w, l), identity(n), 1e-9)
        const precision = matrixOf(n, n, new Float64Array(n * n))
        lowerTransposeTimesSelf(w.data, 0, n, precision.data, 0)
        expectMatrix(multiply(precision, a), identity(n), 1e-7)
      }),
      { numRuns: sampleCount(30, 0.25) },
    )
  })

  it('works in place and at an offset', () => {
    const a = positive(3, 1)
    const block = new Float64Array(12)
    block.set(a.data, 2)
    expect(choleskyInto(block, 2, 3, block, 2)).toBe(true)
    const factor = new Float64Array(9)
    expect(choleskyInto(a.data, 0, 3, factor, 0)).toBe(true)
    expect(block.slice(2, 11)).toEqual(factor)
  })

  it('says no to what is not positive definite', () => {
    const bad = [
      [1, 2, 2, 1],
      [0, 0, 0, 0],
      [1, 1, 1, 1],
      [Number.NaN, 0, 0, 1],
      [Number.POSITIVE_INFINITY, 0, 0, 1],
    ]
    for (const a of bad) expect(choleskyInto(Float64Array.from(a), 0, 2, new Float64Array(4), 0)).toBe(false)
  })
})

describe('symmetric eigenpairs', () => {
  it('satisfy A·v = λ·v, descending, orthonormal, with the sign rule', () => {
    for (const n of [1, 2, 5, 20]) {
      const a = positive(n, n)
      const { values, vectors } = symmetricEigen(a, n)
      const av = multiply(vectors, a)
      av.data.forEach((v, i) => {
        expect(Math.abs(v - values[Math.floor(i / n)]! * vectors.data[i]!)).toBeLessThan(1e-9)
      })
      expectMatrix(multiply(vectors, transpose(vectors)), identity(n), 1e-12)
      for (let r = 0; r < n; r++) {
        if (r > 0) expect(values[r]).toBeLessThanOrEqual(values[r - 1]!)
        const row = [...vectors.data.subarray(r * n, (r + 1) * n)]
        const largest = Math.max(...row.map(Math.abs))
        expect(row.find((v) => Math.abs(v) === largest)).toBeGreaterThan(0)
      }
    }
  })

  it('is not misled by an asymmetry of one unit in the last place', () => {
    const a = positive(6, 4)
    const before = symmetricEigen(a, 6)
    a.data[1] = a.data[1]! * (1 + 2 ** -52)
    const after = symmetricEigen(a, 6)
    after.values.forEach((v, i) => {
      expect(Math.abs(v - before.values[i]!)).toBeLessThan(1e-12 * before.values[0]!)
    })
  })

  it('takes a gram matrix with entries that nearly underflow', () => {
    const n = 30
    const data = Float64Array.from({ length: n * n }, (_, i) => {
      const distance = Math.abs((i % n) - Math.floor(i / n))
      return distance === 0 ? 1 : 10 ** (-100 * distance)
    })
    const { values } = symmetricEigen(matrixOf(n, n, data), n)
    for (const v of values) expect(Math.abs(v - 1)).toBeLessThan(1e-12)
  })

  it('refuses NaN, other shapes and counts', () => {
    expect(() => symmetricEigen(matrixOf(1, 1, Float64Array.of(Number.NaN)), 1)).toThrow(ArgumentError)
    expect(() => symmetricEigen(random(2, 3, 1), 1)).toThrow(/square/)
    expect(() => symmetricEigen(identity(2), 3)).toThrow(/count/)
  })
})

describe('log Σ exp', () => {
  it('neither overflows nor underflows', () => {
    expect(logSumExp(Float64Array.of(1000, 1000), 0, 2)).toBe(1000 + log(2))
    expect(logSumExp(Float64Array.of(-2000, -2000), 0, 2)).toBe(-2000 + log(2))
    expect(logSumExp(Float64Array.of(Number.NEGATIVE_INFINITY, 3), 0, 2)).toBe(3)
    expect(logSumExp(Float64Array.of(9, Number.NEGATIVE_INFINITY, 9), 1, 1)).toBe(Number.NEGATIVE_INFINITY)
    expect(logSumExp(new Float64Array(0), 0, 0)).toBe(Number.NEGATIVE_INFINITY)
  })
})

describe('products', () => {
  it('agree with each other for any number of rows', () => {
    for (let rows = 1; rows <= 9; rows++) {
      const a = random(rows, 6, rows)
      const v = random(6, 1, 99)
      const out = new Float64Array(rows + 2)
      matrixTimesVector(a.data, rows, 6, v.data, 0, out, 1)
      expect(out.slice(1, rows + 1)).toEqual(multiply(a, v).data)
      expect([out[0], out[rows + 1]]).toEqual([0, 0])
    }
  })

  it('refuses shapes that do not fit', () => {
    expect(() => multiply(random(2, 3, 1), random(2, 3, 1))).toThrow(/3 rows/)
  })
})
