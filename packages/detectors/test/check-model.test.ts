import { ArgumentError, createRng } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { checkModel, checkParameters, fitDetector, modelSpaceNumbers } from '../src/index.js'
import { clusteredRows } from './rows.js'

const model = fitDetector(
  clusteredRows(60, 4),
  checkParameters({ detector: 'oc-kjl', m: 10, d: 3, k: 2, scaler: 'standard' }),
  createRng(1),
)

/** A copy with one thing changed; paths are those of the model. */
function changed(path: string, change: (old: unknown) => unknown): unknown {
  const copy = structuredClone(model) as unknown as Record<string, unknown>
  const keys = path.split('.')
  const last = keys.pop()!
  let at = copy
  for (const key of keys) at = at[key] as Record<string, unknown>
  at[last] = change(at[last])
  return copy
}

const put = (index: number, value: number) => (old: unknown) => {
  ;(old as Float64Array)[index] = value
  return old
}

describe('checkModel', () => {
  it('takes a fitted model, and drops fields that it does not know', () => {
    expect(checkModel(model)).toEqual(model)
    expect(checkModel({ ...model, extra: 1 })).toEqual(model)
  })

  const faults: [string, string, (old: unknown) => unknown][] = [
    ['kind', 'kind', () => 'oc-nystrom'],
    ['parameters.m', 'parameters.m', () => 0],
    ['parameters.start.beta', 'parameters.start.beta', () => 5],
    ['parameters.m', 'embedding.landmarks.rows', () => 9],
    ['parameters.d', 'embedding.projection.rows', () => 2],
    ['parameters.start.k', 'mixture.weights', () => 1],
    ['embedding', 'embedding', () => null],
    ['embedding.kind', 'embedding.kind', () => 'nystrom'],
    ['embedding.bandwidth', 'embedding.bandwidth', () => 0],
    ['embedding.bandwidth', 'embedding.bandwidth', () => Number.NaN],
    ['embedding.bandwidth', 'embedding.bandwidth', () => 1e-170],
    ['embedding.landmarks.rows', 'embedding.landmarks', () => 9],
    ['embedding.landmarks.data', 'embedding.landmarks', put(3, Number.NaN)],
    ['embedding.landmarks.data', 'embedding.landmarks', (v) => Array.from(v as Float64Array)],
    ['embedding.projection.data', 'embedding.projection', put(0, Number.POSITIVE_INFINITY)],
    [
      'embedding.projection',
      'embedding.projection.cols',
      () => ({ rows: 3, cols: 9, data: new Float64Array(27) }),
    ],
    ['mixture.covarianceType', 'mixture.covarianceType', () => 'diagonal'],
    ['mixture.weights', 'mixture.weights', put(0, 0)],
    ['mixture.weights', 'mixture.weights', put(0, -0.1)],
    ['mixture.weights', 'mixture.weights', put(0, 0.999)],
    ['mixture.weights', 'mixture.weights', () => new Float64Array(0)],
    ['mixture.means', 'mixture.means', () => ({ rows: 3, cols: 2, data: new Float64Array(6) })],
    ['mixture.precisionCholesky', 'mixture.precisionCholesky', (v) => (v as Float64Array).slice(1)],
    ['mixture.precisionCholesky', 'mixture.precisionCholesky', put(0, 0)],
    ['mixture.precisionCholesky', 'mixture.precisionCholesky', put(4, -1)],
    ['mixture.precisionCholesky', 'mixture.precisionCholesky', put(1, 0.5)],
    ['scaler.kind', 'scaler.kind', () => 'none'],
    ['parameters.scaler', 'scaler.kind', () => 'log-standard'],
    ['scaler.mean', 'scaler.mean', (v) => (v as Float64Array).slice(1)],
    ['scaler.scale', 'scaler.scale', put(1, 0)],
    ['supportGuard', 'supportGuard', () => null],
    ['parameters.supportGuard', 'supportGuard', () => false],
    ['supportGuard', 'supportGuard.squaredReaches', () => ({})],
    ['supportGuard.squaredReaches', 'supportGuard.squaredReaches', (v) => (v as Float64Array).slice(1)],
    ['supportGuard.squaredReaches', 'supportGuard.squaredReaches', put(2, 0)],
    ['supportGuard.density', 'supportGuard.density', () => ({ rows: 1, cols: 3, data: new Float64Array(3) })],
    [
      'supportGuard.density',
      'supportGuard.density.rows',
      () => ({ rows: 0, cols: 2, data: new Float64Array(0) }),
    ],
    [
      'supportGuard.density',
      'supportGuard.density.rows',
      () => ({ rows: 66, cols: 2, data: new Float64Array(132) }),
    ],
    ['supportGuard.density.data', 'supportGuard.density', put(0, Number.NaN)],
    ['supportGuard.density.data', 'supportGuard.density', put(2, -1e9)],
    ['supportGuard.support.data', 'supportGuard.support', put(3, -50)],
    ['supportGuard.support.data', 'supportGuard.support', put(1, 0)],
    ['supportGuard.support.data', 'supportGuard.support', put(0, -1e301)],
    ['fitReport.dimension', 'scaler.mean', () => 5],
    ['fitReport.dimension', 'fitReport.dimension', () => 0],
    ['fitReport.iterations', 'fitReport.iterations', () => -1],
    ['fitReport.converged', 'fitReport.converged', () => 'yes'],
    ['fitReport.notes', 'fitReport.notes', () => [1]],
    ['fitReport.meanLogLikelihood', 'fitReport.meanLogLikelihood', () => null],
  ]
  for (const [path, field, change] of faults) {
    it(`names ${field} when ${path} is wrong`, () => {
      const check = () => checkModel(changed(path, change))
      expect(check).toThrow(ArgumentError)
      expect(check).toThrow(expect.objectContaining({ field }))
    })
  }

  it('describes what it finds without converting it', () => {
    const hostile = { toString: 1, valueOf: 1 }
    for (const path of [
      'kind',
      'scaler.kind',
      'fitReport.converged',
      'embedding.bandwidth',
      'mixture.weights',
    ]) {
      for (const value of [hostile, [hostile], Object.create(null), Symbol('x'), 1n]) {
        expect(() => checkModel(changed(path, () => value))).toThrow(ArgumentError)
      }
    }
    for (const option of ['detector', 'm', 'scaler', 'supportGuard']) {
      expect(() => checkParameters({ [option]: hostile } as never)).toThrow(ArgumentError)
    }
    expect(() => checkModel(changed('fitReport.converged', () => undefined))).toThrow(/found nothing$/)
  })

  it('refuses what is no object', () => {
    for (const value of [undefined, null, 1, 'model'])
      expect(() => checkModel(value)).toThrow(/model: expected/)
  })
})

describe('modelSpaceNumbers', () => {
  it('is m(d + D) + k(1 + d + d²), and with a guard m and its tables', () => {
    const unguarded = 10 * (3 + 4) + 2 * (1 + 3 + 9)
    expect(modelSpaceNumbers({ ...model, supportGuard: null })).toBe(unguarded)
    const { density, support } = model.supportGuard!
    expect(density.rows).toBeLessThanOrEqual(65)
    expect(modelSpaceNumbers(model)).toBe(unguarded + 10 + 2 * (density.rows + support.rows))
  })
})
