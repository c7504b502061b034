import { ArgumentError, DataError, type Matrix, matrixFromRows, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkTypedMixture,
  clusterMemberships,
  type MixtureMoments,
  mixtureOf,
  momentsOf,
  type TypedCovarianceType,
  type TypedMixture,
  typedMixtureCovariances,
} from '../../src/mixture/covariance-types.js'
import { expectation, fitFromStart, runEm } from '../../src/mixture/fit-mixture.js'
import {
  createMixture,
  mixtureLogDensities,
  withoutEmptyComponents,
} from '../../src/mixture/gaussian-mixture.js'
import { mutationsOf } from '../baseline-checks.js'
import { expectClose } from '../close.js'
import { clusteredRows } from '../rows.js'

const TYPES: readonly TypedCovarianceType[] = ['diagonal', 'tied', 'spherical']
const em = { tolerance: 1e-3, maximumSteps: 100, regularisation: 1e-6 }

/** Every row in the cluster `i % count`. */
const clusteringOf = (n: number, count: number) => ({
  labels: Uint32Array.from({ length: n }, (_, i) => i % count),
  count,
})

const learn = (points: Matrix, type: TypedCovarianceType, count = 3, options = {}) => {
  const memberships = clusterMemberships(clusteringOf(points.rows, count))
  const startWith = (added: number) => mixtureOf(type, momentsOf(type, points, memberships, added))
  return fitFromStart(points, { ...em, ...options }, startWith)
}

/** The covariances of a mixture written out in full: k·d·d. */
function fullCovariances(mixture: TypedMixture): Float64Array {
  const { rows: k, cols: d } = mixture.means
  const own = typedMixtureCovariances(mixture)
  return Float64Array.from({ length: k * d * d }, (_, at) => {
    const j = Math.floor(at / (d * d))
    const a = Math.floor(at / d) % d
    const b = at % d
    if (mixture.covarianceType === 'tied') return own[a * d + b]!
    if (a !== b) return 0
    return mixture.covarianceType === 'diagonal' ? own[j * d + a]! : own[j]!
  })
}

describe.each(TYPES)('%s mixtures', (type) => {
  it('have the densities of the full mixture with the same covariances', () => {
    const { mixture } = learn(clusteredRows(150, 4), type)
    const full = createMixture(mixture.weights, mixture.means, fullCovariances(mixture))
    const probes = clusteredRows(40, 4, 9)
    expectClose(mixtureLogDensities(mixture, probes), mixtureLogDensities(full, probes), 1e-10)
  })

  it('never lose likelihood in a step, but for the regularisation', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 5 }), (count, cols) => {
        const points = clusteredRows(120, cols, count)
        // mixed-up clusters, so that EM has something to do
        const memberships = clusterMemberships(clusteringOf(120, count))
        const start = mixtureOf(type, momentsOf(type, points, memberships, 1e-6))!
        const { meanLogLikelihoods } = runEm(points, start, { ...em, tolerance: 0, maximumSteps: 25 })!
        meanLogLikelihoods.forEach((v, i) => {
          if (i > 0) expect(v).toBeGreaterThan(meanLogLikelihoods[i - 1]! - 1e-4)
        })
      }),
      { numRuns: sampleCount(25, 0.25) },
    )
  })

  it('have responsibilities and weights that sum to 1', () => {
    const points = clusteredRows(90, 3)
    const { mixture } = learn(points, type)
    const responsibilities = matrixOf(90, 3, new Float64Array(270))
    expectation(points, mixture, responsibilities)
    for (let i = 0; i < 90; i++) {
      const sum = responsibilities.data.slice(3 * i, 3 * i + 3).reduce((a, b) => a + b, 0)
      expect(sum).toBeCloseTo(1, 14)
    }
    expect(mixture.weights.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 14)
  })

  it('do not depend on where the origin is, by more than rounding', () => {
    const points = clusteredRows(90, 3)
    const moved = matrixOf(
      90,
      3,
      points.data.map((v) => v + 1e5),
    )
    const here = mixtureLogDensities(learn(points, type).mixture, points)
    expectClose(mixtureLogDensities(learn(moved, type).mixture, moved), here, 1e-7)
  })

  it('give a component without rows a mean, a weight and a variance', () => {
    const points = clusteredRows(60, 2)
    const responsibilities = matrixOf(
      60,
      2,
      Float64Array.from({ length: 120 }, (_, at) => 1 - (at % 2)),
    )
    const mixture = mixtureOf(type, momentsOf(type, points, responsibilities, 1e-6))!
    expect(mixture.weights[1]).toBeGreaterThan(0)
    expect(checkTypedMixture(mixture, type, 2, 2)).toEqual(mixture)
    const left = withoutEmptyComponents(mixture, 60)
    expect([...left.weights]).toEqual([1])
    expect(left.means.data).toEqual(mixture.means.data.slice(0, 2))
    expect(checkTypedMixture(left, type, 2, 2)).toEqual(left)
    const probes = clusteredRows(9, 2, 4)
    expectClose(mixtureLogDensities(left, probes), mixtureLogDensities(mixture, probes), 1e-12)
  })

  it('are left as they are when every component has rows', () => {
    const { mixture } = learn(clusteredRows(60, 2), type)
    expect(withoutEmptyComponents(mixture, 60)).toBe(mixture)
  })

  it('remove a component that EM emptied, and say so', () => {
    // two clusters, and a third component so far from both that it starves
    const data: number[][] = []
    for (let i = 0; i < 200; i++) data.push([(i % 2) * 1000 + (i % 7) * 1e-3, (i % 5) * 1e-3])
    const points = matrixFromRows(data)
    const start: MixtureMoments = {
      weights: Float64Array.of(0.5, 0.5 - 1e-9, 1e-9),
      means: matrixFromRows([
        [0, 0],
        [1000, 0],
        [-5e5, 0],
      ]),
      covariances:
        type === 'diagonal'
          ? new Float64Array(6).fill(1)
          : type === 'tied'
            ? Float64Array.of(1, 0, 0, 1)
            : new Float64Array(3).fill(1),
    }
    const { mixture, notes } = fitFromStart(points, em, () => mixtureOf(type, start))
    expect(mixture.weights.length).toBe(2)
    expect(checkTypedMixture(mixture, type, 2, 2)).toEqual(mixture)
    expect(notes).toEqual(['1 component removed, to which no rows belonged any more'])
  })

  it('raise a regularisation that leaves a covariance singular, and say so', () => {
    // a column of zeros has no variance, and in one dimension neither has a cluster of zeros
    const points = matrixFromRows(
      Array.from({ length: 30 }, (_, i) => (type === 'spherical' ? [i % 3] : [i, 0])),
    )
    const fitted = learn(points, type, 3, { regularisation: 0 })
    expect(fitted.regularisation).toBeGreaterThan(0)
    expect(fitted.notes.join()).toMatch(/regularisation raised from 0 to/)
    expect(checkTypedMixture(fitted.mixture, type, points.cols, 3)).toEqual(fitted.mixture)
  })

  it('give up with a DataError where no regularisation helps', () => {
    const points = matrixFromRows(Array.from({ length: 12 }, (_, i) => [i * 1e200, -i * 1e200]))
    expect(() => learn(points, type)).toThrow(DataError)
    expect(() => learn(points, type)).toThrow(/scale the rows/)
  })

  it('say when EM ran out of steps', () => {
    const fitted = learn(clusteredRows(100, 2), type, 3, { maximumSteps: 1 })
    expect(fitted.converged).toBe(false)
    expect(fitted.notes.join()).toMatch(/stopped after 1 steps/)
  })

  it('are finite for one row, two rows, equal rows and rows that are single clusters', () => {
    for (const rows of [
      [[1, 2]],
      [
        [1, 2],
        [3, 4],
      ],
      Array.from({ length: 9 }, () => [5, 5]),
      [
        [0, 0],
        [1, 0],
        [2, 0],
      ],
    ]) {
      const points = matrixFromRows(rows)
      const { mixture } = learn(points, type, Math.min(3, rows.length))
      expect(checkTypedMixture(mixture, type, 2, 3)).toEqual(mixture)
      for (const s of mixtureLogDensities(mixture, points)) expect(Number.isFinite(s)).toBe(true)
    }
  })

  it('learn any small matrix to a sound mixture with finite densities, or throw a DataError', () => {
    const value = fc.oneof(
      fc.integer({ min: -2, max: 2 }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.double({ min: -1e6, max: 1e6, noNaN: true }),
    )
    const matrices = fc
      .tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 3 }))
      .chain(([n, cols]) =>
        fc
          .array(value, { minLength: n * cols, maxLength: n * cols })
          .map((data) => matrixOf(n, cols, Float64Array.from(data))),
      )
    fc.assert(
      fc.property(matrices, fc.integer({ min: 1, max: 3 }), (points, count) => {
        let mixture: TypedMixture
        try {
          mixture = learn(points, type, Math.min(count, points.rows)).mixture
        } catch (error) {
          expect(error).toBeInstanceOf(DataError)
          return
        }
        expect(checkTypedMixture(mixture, type, points.cols, 3)).toEqual(mixture)
        for (const s of mixtureLogDensities(mixture, points)) expect(Number.isFinite(s)).toBe(true)
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('are refused by field when any field is missing, of another type or out of range', () => {
    const { mixture } = learn(clusteredRows(60, 3), type)
    const nasty: readonly unknown[] = [undefined, null, 'x', {}, [], Number.NaN, -1, 0.5, { toString: 1 }]
    for (const { path, set } of mutationsOf(mixture)) {
      for (const replacement of nasty) {
        expect(() => checkTypedMixture(set(replacement), type, 3, 20), path).toThrow(ArgumentError)
        expect(() => checkTypedMixture(set(replacement), type, 3, 20), path).toThrow(
          expect.objectContaining({ field: expect.stringContaining(`mixture.${path.split('.')[0]}`) }),
        )
      }
    }
    const changed = (name: 'weights' | 'precisionCholesky', at: number, value: number) => {
      const copy = structuredClone(mixture)
      copy[name][at] = value
      return () => checkTypedMixture(copy, type, 3, 20)
    }
    expect(changed('weights', 0, 0)).toThrow(/weights: expected positive numbers, found 0/)
    expect(changed('weights', 0, 0.9)).toThrow(/weights: expected a sum of 1/)
    expect(changed('weights', 1, Number.NaN)).toThrow(
      /weights: expected finite numbers, found NaN at index 1/,
    )
    expect(changed('precisionCholesky', 0, 0)).toThrow(
      /precisionCholesky: expected (positive numbers|a positive diagonal)/,
    )
    expect(changed('precisionCholesky', 0, -2)).toThrow(
      /precisionCholesky: expected (positive numbers|a positive diagonal)/,
    )
    expect(() => checkTypedMixture(mixture, type, 4, 20)).toThrow(/means: expected 3 × 4, found 3 × 3/)
    expect(() => checkTypedMixture(mixture, type, 3, 2)).toThrow(/weights\.length/)
  })
})

describe('mixture types', () => {
  it('refuse a tied factor with anything above its diagonal', () => {
    const { mixture } = learn(clusteredRows(60, 3), 'tied')
    const copy = structuredClone(mixture)
    copy.precisionCholesky[1] = 1e-300
    expect(() => checkTypedMixture(copy, 'tied', 3, 20)).toThrow(/precisionCholesky: expected zeros above/)
  })
})
