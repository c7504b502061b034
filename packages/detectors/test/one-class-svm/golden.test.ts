/** Golden 04: solutions of libsvm (through scikit-learn), at its default tolerance and at 1e-10. */
import { type Matrix, matrixFromRows } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  fitOneClassSvm,
  type OneClassSvmModel,
  type OneClassSvmOptions,
  type SvmKernel,
} from '../../src/one-class-svm/fit.js'
import { createOneClassSvmWorkspace, scoreOneClassSvm } from '../../src/one-class-svm/score.js'
import { expectClose } from '../close.js'
import { goldenAbsent, readGolden } from '../shared.js'

interface Solution {
  rho: number
  objective: number
  n_support: number
  decision_T: number[]
  alpha?: number[]
}

interface Case {
  nu: number
  kernel: 'rbf' | 'linear'
  sigma?: number
  X: number[][]
  T: number[][]
  tight: Solution
  'libsvm_tol_1e-3': Solution
}

/** Few bytes make the solver shrink early and compute rows again; the result may not depend on it. */
const MEMORY: readonly Pick<OneClassSvmOptions, 'cacheBytes' | 'shrinking' | 'precision'>[] = [
  {},
  { shrinking: false },
  { cacheBytes: 0 },
  { cacheBytes: 20_000 },
  { cacheBytes: 0, shrinking: false },
  { precision: 'float64' },
  { precision: 'float32', cacheBytes: 0 },
]

describe.skipIf(goldenAbsent)('golden 04: one-class SVM (libsvm)', () => {
  const file = goldenAbsent ? {} : readGolden<Record<string, Case | string>>('04_ocsvm')
  const cases = Object.fromEntries(
    Object.entries(file).filter((entry): entry is [string, Case] => typeof entry[1] === 'object'),
  )
  for (const [name, g] of Object.entries(cases)) {
    const rows = matrixFromRows(g.X)
    const test = matrixFromRows(g.T)
    const kernel: SvmKernel = g.kernel === 'rbf' ? { kind: 'rbf', bandwidth: g.sigma! } : { kind: 'linear' }

    it(`${name}: the tight solution, whatever the memory`, () => {
      for (const memory of MEMORY) {
        const model = fitOneClassSvm(rows, { kernel, nu: g.nu, tolerance: 1e-10, ...memory })
        const { report } = model
        expect(report.converged).toBe(true)
        expect(Math.abs(report.objective / g.tight.objective - 1)).toBeLessThan(1e-8)
        expectClose(scores(model, test), g.tight.decision_T, 1e-6)
        expectClose([model.offset], [g.tight.rho], 1e-6)
        expect(report.supportVectors).toBe(g.tight.n_support)
        expectSumOfCoefficients(model)
      }
    })

    it(`${name}: the solution at tolerance 1e-3`, () => {
      const g3 = g['libsvm_tol_1e-3']
      const model = fitOneClassSvm(rows, { kernel, nu: g.nu })
      expectClose([model.report.objective], [g3.objective], 1e-6)
      expect(Math.abs(model.offset / g3.rho - 1)).toBeLessThan(1e-4)
      expectClose(scores(model, test), g3.decision_T, 2e-3)
      expectSumOfCoefficients(model)
    })
  }

  it('shrinks in one of these cases, so that leaving rows out is among what is compared', () => {
    const g = cases.small_nu02!
    const kernel: SvmKernel = { kind: 'rbf', bandwidth: g.sigma! }
    const model = fitOneClassSvm(matrixFromRows(g.X), { kernel, nu: g.nu, tolerance: 1e-10, cacheBytes: 0 })
    expect(model.report.shrinkings).toBeGreaterThan(0)
  })

  it('takes the path of libsvm in float32: the same coefficients to the last digits at tolerance 1e-3', () => {
    const g = cases.small!
    const kernel: SvmKernel = { kind: 'rbf', bandwidth: g.sigma! }
    const model = fitOneClassSvm(matrixFromRows(g.X), { kernel, nu: g.nu })
    const expected = g['libsvm_tol_1e-3'].alpha!.filter((a) => a > 0)
    expectClose(model.dualCoefficients, expected, 1e-12)
  })
})

function scores(model: OneClassSvmModel, rows: Matrix): Float64Array {
  return scoreOneClassSvm(model, rows, new Float64Array(rows.rows), createOneClassSvmWorkspace(model))
}

function expectSumOfCoefficients({ dualCoefficients, nu, report }: OneClassSvmModel): void {
  const sum = dualCoefficients.reduce((a, b) => a + b, 0)
  expect(Math.abs(sum - nu * report.n)).toBeLessThan(1e-9)
}
