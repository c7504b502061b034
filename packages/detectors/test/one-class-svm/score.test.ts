/** Scores: the same bits in any batch, nothing allocated per row. */
import { type Matrix, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { fitOneClassSvm, type SvmKernel } from '../../src/one-class-svm/fit.js'
import { createOneClassSvmWorkspace, scoreOneClassSvm } from '../../src/one-class-svm/score.js'
import { clusteredRows, novelRows } from '../rows.js'

describe('One-class SVM: scoring', () => {
  // more support vectors than a block has, and a number of them that is no multiple of 4
  const train = clusteredRows(1501, 5)
  const kernels: SvmKernel[] = [{ kind: 'rbf', bandwidth: 3 }, { kind: 'linear' }]
  for (const kernel of kernels) {
    const model = fitOneClassSvm(train, { kernel, nu: 0.5 })
    const workspace = createOneClassSvmWorkspace(model)
    const rows = novelRows(23, 5)
    const all = scoreOneClassSvm(model, rows, new Float64Array(23), workspace)

    it(`${kernel.kind}: is Σ α K(x_i, x) − ρ`, () => {
      const { supportVectors: sv, dualCoefficients, offset } = model
      for (let i = 0; i < 23; i++) {
        let sum = 0
        for (let s = 0; s < sv.rows; s++) {
          let dot = 0
          let distance = 0
          for (let t = 0; t < 5; t++) {
            const a = sv.data[s * 5 + t]!
            const b = rows.data[i * 5 + t]!
            dot += a * b
            distance += (a - b) ** 2
          }
          const value = kernel.kind === 'linear' ? dot : Math.exp(-distance / kernel.bandwidth ** 2)
          sum += dualCoefficients[s]! * value
        }
        expect(Math.abs(all[i]! - (sum - offset))).toBeLessThan(1e-12 * Math.max(1, Math.abs(offset)))
      }
    })

    it(`${kernel.kind}: has the same bits whatever the batch and the place in it`, () => {
      for (let size = 1; size <= 9; size++) {
        for (let first = 0; first + size <= 23; first++) {
          const part = slice(rows, first, size)
          const out = scoreOneClassSvm(model, part, new Float64Array(size), workspace)
          expect(Array.from(out)).toEqual(Array.from(all.subarray(first, first + size)))
        }
      }
    })

    it(`${kernel.kind}: ranks normal rows above novel ones`, () => {
      const normal = scoreOneClassSvm(model, clusteredRows(23, 5, 9), new Float64Array(23), workspace)
      if (kernel.kind === 'rbf') expect(mean(normal)).toBeGreaterThan(mean(all))
    })
  }

  it('the same rows give the same bytes, whatever the memory', () => {
    const fitWith = (cacheBytes: number) =>
      fitOneClassSvm(train, { kernel: { kind: 'rbf', bandwidth: 3 }, nu: 0.2, cacheBytes, shrinking: false })
    const { report: _, ...expected } = fitWith(1e9)
    for (const bytes of [1e9, 2e6, 1e5, 0]) {
      const { report: __, ...b } = fitWith(bytes)
      expect(b.supportVectors).toEqual(expected.supportVectors)
      expect(b.dualCoefficients).toEqual(expected.dualCoefficients)
      expect(b.offset).toBe(expected.offset)
    }
  })
})

function slice({ cols, data }: Matrix, first: number, count: number): Matrix {
  return matrixOf(count, cols, data.slice(first * cols, (first + count) * cols))
}

const mean = (values: Float64Array) => values.reduce((a, b) => a + b, 0) / values.length
