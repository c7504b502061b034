import { createRng, matrixFromRows } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { gaussianKernel, pairDistanceQuantiles, symmetricEigen } from '../src/index.js'
import { goldenAbsent, readGolden } from './shared.js'

interface QuantileCase {
  X: number[][]
  q: number[]
  quantiles_n2: number[]
  quantiles_pairs: number[]
}

interface Golden01 extends QuantileCase {
  Y: number[][]
  sigma: number
  gram_XX: number[][]
  gram_XY: number[][]
  duplicates: QuantileCase
  real: QuantileCase
}

function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, relative: number) {
  expect(actual.length).toBe(expected.length)
  for (let i = 0; i < expected.length; i++) {
    const scale = Math.max(1, Math.abs(expected[i]!))
    expect(Math.abs(actual[i]! - expected[i]!) / scale, `index ${i}`).toBeLessThan(relative)
  }
}

describe.skipIf(goldenAbsent)('golden 01: kernel and quantiles (numpy)', () => {
  const golden = goldenAbsent ? undefined : readGolden<Golden01>('01_kernel_quantiles')

  it('has the gram matrices', () => {
    const x = matrixFromRows(golden!.X)
    const y = matrixFromRows(golden!.Y)
    expectClose(gaussianKernel(x, x, golden!.sigma).data, golden!.gram_XX.flat(), 1e-14)
    expectClose(gaussianKernel(x, y, golden!.sigma).data, golden!.gram_XY.flat(), 1e-14)
  })

  for (const name of ['random', 'duplicates', 'real'] as const) {
    it(`has the quantiles of both rules: ${name}`, () => {
      const data: QuantileCase = name === 'random' ? golden! : golden![name]
      const x = matrixFromRows(data.X)
      expectClose(pairDistanceQuantiles(x, data.q, createRng(1)).quantiles, data.quantiles_pairs, 1e-12)
      expectClose(
        pairDistanceQuantiles(x, data.q, createRng(1), 'authors').quantiles,
        data.quantiles_n2,
        1e-12,
      )
    })
  }
})

describe.skipIf(goldenAbsent)('golden 02: eigenpairs of a gram matrix (LAPACK)', () => {
  it('has the eigenvalues, descending', () => {
    const golden = readGolden<{ K: number[][]; d: number; eigenvalues: number[] }>('02_nystrom')
    const { values } = symmetricEigen(matrixFromRows(golden.K), golden.d)
    expectClose(values, golden.eigenvalues, 1e-12)
  })
})
