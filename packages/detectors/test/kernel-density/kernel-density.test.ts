import { createRng, DataError, matrixFromRows, matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkKernelDensityModel,
  createKernelDensityWorkspace,
  fitKernelDensity,
  type KernelDensityModel,
  scoreKernelDensity,
} from '../../src/detectors/kde.js'
import { describeBaseline } from '../baseline-checks.js'
import { expectClose } from '../close.js'
import { readTestJson } from '../read-json.js'
import { clusteredRows } from '../rows.js'

const RULE = { quantileCompat: 'pairs', quantileRows: 5000 } as const

interface Figures {
  cases: { bandwidth: number; rows: number[][]; points: number[][]; logDensities: number[] }[]
}

const score = (model: KernelDensityModel, rows: number[][]) =>
  scoreKernelDensity(
    model,
    matrixFromRows(rows),
    new Float64Array(rows.length),
    createKernelDensityWorkspace(model),
  )

describeBaseline('kernel-density', {
  fit: (rows, rng) => fitKernelDensity(rows, { ...RULE, bandwidthQuantile: 0.95, maximumRows: 100 }, rng),
  createWorkspace: createKernelDensityWorkspace,
  score: scoreKernelDensity,
  check: checkKernelDensityModel,
  random: true,
})

describe('kernel-density', () => {
  readTestJson<Figures>('kernel-density/scikit-learn.json').cases.forEach((figures) => {
    const { bandwidth, rows, points, logDensities } = figures
    it(`has the log-densities of scikit-learn's KernelDensity, h = ${bandwidth}`, () => {
      const model: KernelDensityModel = { kind: 'kernel-density', bandwidth, centres: matrixFromRows(rows) }
      expectClose(score(model, points), logDensities, 1e-10)
    })
  })

  it('integrates to 1', () => {
    const { model } = fitKernelDensity(
      clusteredRows(30, 1),
      { ...RULE, bandwidthQuantile: 0.1, maximumRows: 30 },
      createRng(1),
    )
    const step = 0.01
    const grid = Array.from({ length: 8000 }, (_, i) => [-30 + i * step])
    const integral = score(model, grid).reduce((sum, s) => sum + Math.exp(s) * step, 0)
    expect(integral).toBeCloseTo(1, 9)
  })

  it('orders far rows by distance where every kernel value is 0', () => {
    const { model } = fitKernelDensity(
      clusteredRows(60, 2),
      { ...RULE, bandwidthQuantile: 0.3, maximumRows: 60 },
      createRng(1),
    )
    const far = [1e3, 1e4, 1e6, 1e9, 1e12, 1e100, 1e150]
    const scores = score(
      model,
      far.map((v) => [v, -v]),
    )
    for (let i = 1; i < far.length; i++) expect(scores[i]!).toBeLessThan(scores[i - 1]!)
    expect(score(model, [[1e200, 0]])[0]).toBe(-Number.MAX_VALUE)
  })

  it('takes all rows up to the limit, and above it a random sample, which it states', () => {
    const rows = clusteredRows(90, 2)
    const all = fitKernelDensity(rows, { ...RULE, bandwidthQuantile: 0.3, maximumRows: 90 }, createRng(1))
    expect(all.model.centres).toEqual(rows)
    expect(all.notes).toEqual([])
    const some = fitKernelDensity(rows, { ...RULE, bandwidthQuantile: 0.3, maximumRows: 40 }, createRng(1))
    expect(some.model.centres.rows).toBe(40)
    expect(some.model.bandwidth).toBe(all.model.bandwidth)
    expect(some.notes).toEqual(['kernels stand on a random 40 of 90 rows'])
  })

  it('says how to get a bandwidth when the quantile of the distances is 0', () => {
    const rows = matrixOf(
      50,
      1,
      Float64Array.from({ length: 50 }, (_, i) => (i < 45 ? 1 : i)),
    )
    const fit = () =>
      fitKernelDensity(rows, { ...RULE, bandwidthQuantile: 0.3, maximumRows: 50 }, createRng(1))
    expect(fit).toThrow(DataError)
    expect(fit).toThrow(/raise bandwidthQuantile above 0\.809 or remove .*quantileCompat positive-pairs/)
  })

  it('refuses a bandwidth whose square has no inverse', () => {
    const centres = matrixFromRows([[1, 2]])
    for (const bandwidth of [0, -1, 1e-200, 1e200]) {
      expect(() => checkKernelDensityModel({ kind: 'kernel-density', bandwidth, centres })).toThrow(
        expect.objectContaining({ field: 'kernelDensity.bandwidth' }),
      )
    }
  })
})
