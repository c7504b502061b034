import { DataError, matrixFromRows, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkPrincipalComponentsModel,
  createPrincipalComponentsWorkspace,
  fitPrincipalComponents,
  type PrincipalComponentsModel,
  scorePrincipalComponents,
} from '../../src/detectors/pca.js'
import { describeBaseline } from '../baseline-checks.js'
import { expectClose } from '../close.js'
import { readTestJson } from '../read-json.js'
import { clusteredRows } from '../rows.js'

interface Figures {
  cases: {
    name: string
    varianceShare: number
    rows: number[][]
    points: number[][]
    mean: number[]
    components: number[][]
    squaredErrors: number[]
  }[]
}

const score = (model: PrincipalComponentsModel, rows: number[][]) =>
  scorePrincipalComponents(
    model,
    matrixFromRows(rows),
    new Float64Array(rows.length),
    createPrincipalComponentsWorkspace(model),
  )

const byShare = (varianceShare: number) => ({ varianceShare, components: null })

describeBaseline('principal-components', {
  fit: (rows) => fitPrincipalComponents(rows, byShare(0.95)),
  createWorkspace: createPrincipalComponentsWorkspace,
  score: scorePrincipalComponents,
  check: checkPrincipalComponentsModel,
  random: false,
})

describe('a number of components in place of a share', () => {
  const rows = clusteredRows(80, 6)

  it('keeps the leading ones that a share would keep', () => {
    for (let count = 1; count < 6; count++) {
      const { model, notes } = fitPrincipalComponents(rows, { varianceShare: null, components: count })
      expect(notes).toEqual([])
      expect(model.components.rows).toBe(count)
      const five = fitPrincipalComponents(rows, { varianceShare: null, components: 5 }).model.components
      expect(model.components.data).toEqual(five.data.slice(0, count * 6))
    }
  })

  it('is refused by name where the rows have no more columns', () => {
    for (const components of [0, 6, 7, 1.5, Number.NaN]) {
      expect(() => fitPrincipalComponents(rows, { varianceShare: null, components })).toThrow(
        expect.objectContaining({ field: 'components' }),
      )
    }
  })
})

describe('principal-components', () => {
  for (const g of readTestJson<Figures>('principal-components/scikit-learn.json').cases) {
    it(`is scikit-learn's PCA: ${g.name}`, () => {
      const { varianceShare } = g
      const { model } = fitPrincipalComponents(matrixFromRows(g.rows), byShare(varianceShare))
      expectClose(model.mean, g.mean, 1e-12)
      expect(model.components.rows).toBe(g.components.length)
      const D = g.mean.length
      g.components.forEach((expected, c) => {
        const found = model.components.data.slice(c * D, (c + 1) * D)
        const sign = Math.sign(found.reduce((sum, v, t) => sum + v * expected[t]!, 0))
        expectClose(
          found,
          expected.map((v) => sign * v),
          1e-8,
        )
      })
      expectClose(
        score(model, g.points),
        g.squaredErrors.map((e) => -e),
        1e-8,
      )
    })
  }

  it('has no error along the components and the squared distance across them', () => {
    const rows = Array.from({ length: 21 }, (_, i) => [i - 10, 2 * (i - 10), 0])
    const { model } = fitPrincipalComponents(matrixFromRows(rows), byShare(0.95))
    expect(model.components.rows).toBe(1)
    const scores = score(model, [
      [100, 200, 0],
      [0, 0, 3],
      [2, -1, 0],
      [1, 2, -4],
    ])
    expectClose(scores, [0, -9, -5, -16], 1e-12)
  })

  it('counts any change of a column that was constant, in full', () => {
    const rows = Array.from({ length: 30 }, (_, i) => [Math.cos(i), Math.sin(3 * i), 0.1])
    const { model } = fitPrincipalComponents(matrixFromRows(rows), byShare(0.5))
    expect(model.mean[2]).toBe(0.1)
    const [before, after] = score(model, [
      [0.5, 0.5, 0.1],
      [0.5, 0.5, 2.1],
    ])
    expect(after! - before!).toBeCloseTo(-4, 12)
  })

  it('keeps one direction to measure the error in, and says so', () => {
    const rows = matrixFromRows([
      [1, 0],
      [-1, 0],
      [0, 1],
      [0, -1],
    ])
    const { model, notes } = fitPrincipalComponents(rows, byShare(0.95))
    expect(model.components.rows).toBe(1)
    expect(notes).toEqual([
      'components lowered from 2 to 1: with all 2 there would be no error to measure, so they hold 50.0 % of the variance',
    ])
  })

  it('keeps more components for a larger share', () => {
    const rows = clusteredRows(200, 6)
    const counts = [0.1, 0.9, 0.99, 0.999].map(
      (varianceShare) => fitPrincipalComponents(rows, byShare(varianceShare)).model.components.rows,
    )
    for (let i = 1; i < counts.length; i++) expect(counts[i]!).toBeGreaterThanOrEqual(counts[i - 1]!)
    expect(counts[3]!).toBeGreaterThan(counts[0]!)
  })

  it('refuses one column, and rows whose variance overflows or vanishes', () => {
    const learn = (...rows: number[][]) => fitPrincipalComponents(matrixFromRows(rows), byShare(0.95))
    expect(() => learn([1], [2])).toThrow(/from 2 to 1000 columns, found 1/)
    expect(() => learn([1e200, 0], [0, 1e200])).toThrow(/rescale the rows \(scaler quantile/)
    expect(() => learn([1e-170, 0], [0, 1e-170])).toThrow(DataError)
  })

  it('refuses components that are not orthonormal', () => {
    const mean = new Float64Array(3)
    for (const data of [
      [1, 0, 0, 1, 0, 0],
      [2, 0, 0, 0, 1, 0],
      [0, 0, 0, 0, 1, 0],
    ]) {
      const components = matrixOf(2, 3, Float64Array.from(data))
      expect(() => checkPrincipalComponentsModel({ kind: 'principal-components', mean, components })).toThrow(
        /components: expected orthonormal rows/,
      )
    }
  })
})
