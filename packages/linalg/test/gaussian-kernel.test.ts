import { ArgumentError, createRng, exp, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { gaussianKernel, gaussianKernelRows, kernelExponentFactor, squaredDistance } from '../src/index.js'

const normal = (rows: number, cols: number, seed: number) => {
  const rng = createRng(seed)
  return matrixOf(
    rows,
    cols,
    Float64Array.from({ length: rows * cols }, () => rng.nextNormal()),
  )
}

describe('Gaussian kernel', () => {
  it('gives a row the same bits in a batch of any size and at any place', () => {
    const x = normal(13, 7, 1)
    const y = normal(10, 7, 2)
    const whole = gaussianKernel(x, y, 1.5)
    const factor = kernelExponentFactor(1.5)
    for (let first = 0; first < 13; first++) {
      for (let count = 1; first + count <= 13; count++) {
        const out = new Float64Array(count * 10)
        gaussianKernelRows(x.data, first * 7, count, y.data, 0, 10, 7, factor, out)
        expect(out).toEqual(whole.data.slice(first * 10, (first + count) * 10))
      }
    }
  })

  it('gives the weighted squared distance to the nearest row, also where the kernel is rounded to 0', () => {
    const x = normal(11, 5, 4)
    x.data.fill(1e6, 50) // the last row is far away
    for (const rows of [1, 2, 3, 4, 5, 6, 7, 9]) {
      const y = normal(rows, 5, 5)
      const weights = Float64Array.from({ length: rows }, (_, j) => 1 + ((3 * j) % 5))
      const values = new Float64Array(11)
      const kernel = new Float64Array(11 * rows)
      const factor = kernelExponentFactor(1.5)
      gaussianKernelRows(x.data, 0, 11, y.data, 0, rows, 5, factor, kernel, { weights, values })
      expect(kernel).toEqual(gaussianKernel(x, y, 1.5).data)
      for (let i = 0; i < 11; i++) {
        const all = Array.from(weights, (_, j) => squaredDistance(x.data, 5 * i, y.data, 5 * j, 5))
        const nearest = all.indexOf(Math.min(...all))
        expect(values[i]).toBe(weights[nearest]! * all[nearest]!)
      }
      expect(kernel[10 * rows]).toBe(0)
    }
  })

  it('is 1 on the diagonal, symmetric, and h² is not 2h²', () => {
    const x = normal(9, 3, 3)
    const k = gaussianKernel(x, x, 2)
    for (let i = 0; i < 9; i++) {
      expect(k.data[i * 9 + i]).toBe(1)
      for (let j = 0; j < 9; j++) expect(k.data[i * 9 + j]).toBe(k.data[j * 9 + i])
    }
    expect(
      gaussianKernel(matrixOf(1, 1, Float64Array.of(0)), matrixOf(1, 1, Float64Array.of(2)), 2).data[0],
    ).toBe(exp(-1))
  })

  it('is 0 for rows so far away that the distance overflows', () => {
    const far = matrixOf(1, 1, Float64Array.of(1e300))
    expect(gaussianKernel(far, matrixOf(1, 1, Float64Array.of(0)), 1).data[0]).toBe(0)
  })

  for (const h of [0, -1, Number.NaN, 1e-200, 1e200, Number.POSITIVE_INFINITY]) {
    it(`refuses the bandwidth ${h}`, () => {
      expect(() => kernelExponentFactor(h)).toThrow(ArgumentError)
    })
  }

  it('refuses rows of different widths', () => {
    expect(() => gaussianKernel(normal(2, 3, 1), normal(2, 4, 1), 1)).toThrow(/3 columns/)
  })
})
