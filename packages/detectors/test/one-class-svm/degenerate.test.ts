/** Data and options at their edges: a defined result or a typed error, never NaN. */
import { DataError, type Matrix, matrixFromRows, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { fitOneClassSvm, type OneClassSvmOptions, type SvmKernel } from '../../src/one-class-svm/fit.js'
import { createOneClassSvmWorkspace, scoreOneClassSvm } from '../../src/one-class-svm/score.js'
import { clusteredRows } from '../rows.js'

const rbf: SvmKernel = { kind: 'rbf', bandwidth: 2 }
const linear: SvmKernel = { kind: 'linear' }

/** Fits, and returns f of the training rows after checking that everything is finite and adds up. */
function fitAndScore(rows: Matrix, options: OneClassSvmOptions): { f: Float64Array; offset: number } {
  const model = fitOneClassSvm(rows, options)
  const f = scoreOneClassSvm(model, rows, new Float64Array(rows.rows), createOneClassSvmWorkspace(model))
  for (const v of [...f, ...model.dualCoefficients, model.offset, model.report.objective]) {
    expect(Number.isFinite(v)).toBe(true)
  }
  expect(model.report.violation).toBeGreaterThanOrEqual(0)
  const sum = model.dualCoefficients.reduce((a, b) => a + b, 0)
  expect(Math.abs(sum - options.nu * rows.rows)).toBeLessThan(1e-9)
  return { f, offset: model.offset }
}

describe('One-class SVM: degenerate data', () => {
  const duplicates = matrixOf(40, 3, new Float64Array(120).fill(7))
  const constantColumn = clusteredRows(60, 3)
  for (let i = 0; i < 60; i++) constantColumn.data[i * 3 + 1] = 5

  for (const nu of [1e-12, 0.01, 0.5, 0.999, 1]) {
    for (const kernel of [rbf, linear]) {
      it(`nu ${nu}, ${kernel.kind}: duplicates, a constant column, one and two rows`, () => {
        const same = fitAndScore(duplicates, { kernel, nu })
        for (const v of same.f) expect(Math.abs(v)).toBeLessThan(1e-9 * Math.max(1, same.offset))
        fitAndScore(constantColumn, { kernel, nu })
        fitAndScore(matrixFromRows([[1, 2]]), { kernel, nu })
        fitAndScore(
          matrixFromRows([
            [1, 2],
            [1, 3],
          ]),
          { kernel, nu },
        )
        fitAndScore(
          matrixFromRows([
            [0, 0],
            [0, 0],
          ]),
          { kernel, nu },
        )
      })
    }
  }

  it('with nu = 1 all coefficients are 1 and the densest row lies on the boundary', () => {
    const rows = clusteredRows(50, 2)
    const { f } = fitAndScore(rows, { kernel: rbf, nu: 1, precision: 'float64' })
    expect(Math.max(...f)).toBeCloseTo(0, 10)
  })

  it('two rows at nu = 0.5 share the one unit of mass', () => {
    // symmetric: α = (½, ½), f(x₁) = f(x₂) = 0 and ρ = ½ + ½·exp(−1/4)
    const { f, offset } = fitAndScore(matrixFromRows([[0], [1]]), {
      kernel: rbf,
      nu: 0.5,
      tolerance: 1e-12,
      precision: 'float64',
    })
    expect(offset).toBeCloseTo(0.5 + 0.5 * Math.exp(-0.25), 12)
    for (const v of f) expect(v).toBeCloseTo(0, 12)
  })

  it('numbers whose squared distances overflow are infinitely far from each other', () => {
    const { f } = fitAndScore(matrixFromRows([[1e200], [-1e200], [0]]), { kernel: rbf, nu: 0.5 })
    expect(f.every(Number.isFinite)).toBe(true)
    expect(() => fitOneClassSvm(matrixFromRows([[1e200], [1]]), { kernel: linear, nu: 0.5 })).toThrow(
      DataError,
    )
  })

  it('stops where float64 cannot tell gradients apart, and where steps are used up', () => {
    const rows = clusteredRows(90, 2)
    const model = fitOneClassSvm(rows, { kernel: rbf, nu: 0.3, tolerance: 1e-15, precision: 'float64' })
    expect(model.report.stop).toBe('resolution')
    expect(model.report.converged).toBe(true)
    const stopped = fitOneClassSvm(rows, { kernel: rbf, nu: 0.3, maximumSteps: 3 })
    expect(stopped.report).toMatchObject({ converged: false, stop: 'steps', iterations: 3 })
    expect(stopped.report.violation).toBeGreaterThan(1e-3)
  })
})
