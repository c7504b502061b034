import { describe, expect, it } from 'vitest'
import { fitOneClassSvm, type OneClassSvmOptions } from '../../src/one-class-svm/fit.js'
import { createKernelColumns, prepareKernel, svmKernelRows } from '../../src/one-class-svm/kernel.js'
import { clusteredRows } from '../rows.js'

const RBF = { kind: 'rbf', bandwidth: 2 } as const

describe('kernel columns', () => {
  it('have the bits of the typed arrays, for any tile and range of columns', () => {
    const { data: vectors } = clusteredRows(43, 5)
    const { data: x } = clusteredRows(8, 5, 9)
    for (const precision of ['float32', 'float64'] as const) {
      const kernel = prepareKernel(RBF, precision)
      const shape = { columns: 43, dimension: 5, rows: 8, width: 40 }
      const columns = createKernelColumns(kernel, vectors, shape)
      for (const count of [1, 2, 3, 4, 5, 8]) {
        for (const [first, width] of [
          [0, 1],
          [0, 40],
          [4, 39],
          [40, 3],
          [16, 7],
        ] as const) {
          columns.compute(x, 0, count, first, width)
          const expected = new Float64Array(count * width)
          svmKernelRows(kernel, x, 0, count, vectors, 5 * first, width, 5, expected)
          const { values, offset, stride } = columns
          for (let r = 0; r < count; r++) {
            const row = values.slice(offset + r * stride, offset + r * stride + width)
            expect(row).toEqual(expected.subarray(r * width, (r + 1) * width))
          }
        }
      }
    }
  })

  it('make the same model on both paths: with and without shrinking, with little and much cache', () => {
    const rows = clusteredRows(300, 6)
    const variants: Partial<OneClassSvmOptions>[] = [
      {},
      { cacheBytes: 0 },
      { cacheBytes: 40_000, tolerance: 1e-6 },
      { shrinking: false, precision: 'float64' },
      { nu: 0.03 },
      { kernel: { kind: 'linear' }, nu: 0.1 },
    ]
    for (const variant of variants) {
      const options = { kernel: RBF, nu: 0.5, ...variant }
      expect(fitOneClassSvm(rows, options)).toEqual(fitOneClassSvm(rows, { ...options, simd: false }))
    }
  })
})
