import { createMatrix, createRng, type Matrix, matrixOf, type Rng } from '@oddflow/core'
import { createMixture, type MixtureModel, mixtureCovariances } from '@oddflow/detectors'
import { typedMixtureCovariances } from '@oddflow/detectors/parts'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addNewComponent, cheapestMerge, livingComponents, mergeComponents } from '../src/learning-round.js'
import {
  addComponent,
  addPoint,
  addPoints,
  convergeMixture,
  copyStatistics,
  createMixtureEvaluator,
  emptyStatistics,
  type LearningMixture,
  type MixtureStatistics,
  mixtureOfStatistics,
  scaleStatistics,
  statisticsOfMixture,
  totalMass,
} from '../src/mixture-statistics.js'
import { expectation, maximiseFull, momentsOf, runEm } from './detectors.js'

const REGULARISATION = 1e-6

/** Method 1: `count` points, d numbers each, of weight 1. */
function updateMixture(
  mixture: LearningMixture,
  statistics: MixtureStatistics,
  points: Float64Array,
  count: number,
): LearningMixture {
  const weights = new Float64Array(count).fill(1)
  addPoints(createMixtureEvaluator(mixture), statistics, { count, points, weights })
  return mixtureOfStatistics(statistics, REGULARISATION)
}

/** Points around `k` centres far from the origin, each dimension with a spread of its own. */
function points(n: number, d: number, k: number, rng: Rng, offset = -142, spread = 1): Matrix {
  const out = createMatrix(n, d)
  for (let i = 0; i < n; i++) {
    for (let a = 0; a < d; a++) {
      out.data[i * d + a] = offset + 5 * (i % k) + spread * (1 + a) * rng.nextNormal()
    }
  }
  return out
}

function responsibilitiesOf(n: number, k: number, rng: Rng): Matrix {
  const out = createMatrix(n, k)
  for (let i = 0; i < n; i++) {
    let sum = 0
    for (let j = 0; j < k; j++) sum += out.data[i * k + j] = rng.nextFloat() ** 4
    for (let j = 0; j < k; j++) out.data[i * k + j]! /= sum
  }
  return out
}

function incremental(
  type: MixtureStatistics['covarianceType'],
  rows: Matrix,
  responsibilities: Matrix,
  parts = 1,
): MixtureStatistics {
  const k = responsibilities.cols
  const total = emptyStatistics(type, k, rows.cols)
  for (let part = 0; part < parts; part++) {
    const some = emptyStatistics(type, k, rows.cols)
    for (let i = part; i < rows.rows; i += parts) {
      addPoint(some, rows.data, i * rows.cols, responsibilities.data, i * k, 1)
    }
    for (let j = 0; j < k; j++) addComponent(total, j, some, j)
  }
  return total
}

function expectClose(found: ArrayLike<number>, expected: ArrayLike<number>, scale: number): void {
  expect(found.length).toBe(expected.length)
  for (let i = 0; i < found.length; i++) {
    expect(Math.abs(found[i]! - expected[i]!)).toBeLessThanOrEqual(
      1e-8 * Math.max(scale, Math.abs(expected[i]!)),
    )
  }
}

const covariancesOf = (mixture: LearningMixture) =>
  mixture.covarianceType === 'full' ? mixtureCovariances(mixture) : typedMixtureCovariances(mixture)

describe('incremental and batch M-steps', () => {
  it('agree to 1e-8 over the same rows and responsibilities, full and diagonal', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1e6 }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 7 }),
        (seed, d, k, parts) => {
          const rng = createRng(seed)
          const n = 30 + 10 * k * d
          const rows = points(n, d, k, rng)
          const responsibilities = responsibilitiesOf(n, k, rng)
          const full = mixtureOfStatistics(incremental('full', rows, responsibilities, parts), REGULARISATION)
          const batch = maximiseFull(rows, responsibilities, REGULARISATION)!
          expectClose(full.weights, batch.weights, 0)
          expectClose(full.means.data, batch.means.data, 0)
          expectClose(covariancesOf(full), mixtureCovariances(batch), 1)
          const diagonal = mixtureOfStatistics(
            incremental('diagonal', rows, responsibilities, parts),
            REGULARISATION,
          )
          const moments = momentsOf('diagonal', rows, responsibilities, REGULARISATION)
          expectClose(diagonal.means.data, moments.means.data, 0)
          expectClose(covariancesOf(diagonal), moments.covariances, 0)
        },
      ),
      { numRuns: sampleCount(40, 0.25) },
    )
  })

  it('agree where the text as it is written has no digit left: means of −142 beside variances of 1e-6', () => {
    const rng = createRng(4)
    const rows = points(4000, 3, 1, rng, -142, 1e-3)
    const responsibilities = matrixOf(4000, 1, new Float64Array(4000).fill(1))
    const statistics = incremental('full', rows, responsibilities)
    const batch = maximiseFull(rows, responsibilities, 1e-12)!
    const expected = mixtureCovariances(batch)
    expectClose(covariancesOf(mixtureOfStatistics(statistics, 1e-12)), expected, 1e-6)
    // the text's own form, in the same numbers
    const d = 3
    let sum = 0
    let mean = 0
    let covariance = 0
    for (let i = 0; i < rows.rows; i++) {
      const x = rows.data[i * d]!
      const after = sum + 1
      const next = mean + (x - mean) / after
      covariance = (covariance * sum + x * x) / after - next * next + (sum / after) * mean * mean
      sum = after
      mean = next
    }
    expect(Math.abs(covariance - expected[0]!)).toBeGreaterThan(1e-8 * expected[0]!)
  })

  it('start from a mixture as from its rows', () => {
    const rng = createRng(9)
    const rows = points(300, 4, 3, rng)
    const responsibilities = responsibilitiesOf(300, 3, rng)
    for (const type of ['full', 'diagonal'] as const) {
      const statistics = incremental(type, rows, responsibilities)
      const mixture = mixtureOfStatistics(statistics, REGULARISATION)
      const again = statisticsOfMixture(mixture, 300, REGULARISATION)
      expectClose(again.masses, statistics.masses, 0)
      expectClose(again.scatters, statistics.scatters, 1)
    }
  })
})

/** A start that EM has something to do from. */
function roughMixture(rows: Matrix, k: number): MixtureModel {
  const d = rows.cols
  const means = createMatrix(k, d)
  for (let j = 0; j < k; j++) means.data.set(rows.data.subarray(j * d, (j + 1) * d), j * d)
  const covariances = new Float64Array(k * d * d)
  for (let j = 0; j < k; j++) for (let a = 0; a < d; a++) covariances[(j * d + a) * d + a] = 4
  return createMixture(new Float64Array(k).fill(1 / k), means, covariances)
}

describe('EM to convergence', () => {
  const rows = points(400, 3, 4, createRng(2), 3)
  const start = roughMixture(rows, 4)
  const rule = { tolerance: 1e-4, maximumSteps: 60, regularisation: REGULARISATION }

  it('is batch EM when every row is kept and the base is empty', () => {
    const batch = runEm(rows, start, rule)!
    const kept = { count: 400, points: rows.data, weights: new Float64Array(400).fill(1) }
    const online = convergeMixture(start, emptyStatistics('full', 4, 3), kept, rule)
    expect(online.steps).toBe(batch.meanLogLikelihoods.length)
    expect(online.converged).toBe(batch.converged)
    expectClose(online.mixture.weights, batch.mixture.weights, 0)
    expectClose(online.mixture.means.data, batch.mixture.means.data, 0)
    expectClose(covariancesOf(online.mixture), mixtureCovariances(batch.mixture), 1)
  })

  it('counts a row of weight 2 as two rows', () => {
    const half = points(200, 3, 4, createRng(5), 3)
    const doubled = matrixOf(400, 3, Float64Array.from([...half.data, ...half.data]))
    const base = emptyStatistics('full', 4, 3)
    const once = convergeMixture(
      start,
      base,
      { count: 200, points: half.data, weights: new Float64Array(200).fill(2) },
      rule,
    )
    const twice = convergeMixture(
      start,
      base,
      { count: 400, points: doubled.data, weights: new Float64Array(400).fill(1) },
      rule,
    )
    expectClose(once.mixture.means.data, twice.mixture.means.data, 0)
    expect(totalMass(once.statistics)).toBeCloseTo(400, 9)
  })

  it('keeps the base where there are no rows', () => {
    const base = statisticsOfMixture(start, 100, REGULARISATION)
    const none = { count: 0, points: new Float64Array(0), weights: new Float64Array(0) }
    const { mixture } = convergeMixture(start, base, none, rule)
    expectClose(mixture.means.data, start.means.data, 0)
    expectClose(covariancesOf(mixture), mixtureCovariances(start), 0)
  })
})

describe('one step for what arrives', () => {
  it('is the M-step over all rows under the old responsibilities', () => {
    const rows = points(200, 2, 2, createRng(8), 0)
    const mixture = roughMixture(rows, 2)
    const all = createMatrix(200, 2)
    expectation(rows, mixture, all)
    const statistics = emptyStatistics('full', 2, 2)
    const updated = updateMixture(mixture, statistics, rows.data, 200)
    const batch = maximiseFull(rows, all, REGULARISATION)!
    expectClose(updated.means.data, batch.means.data, 0)
    expectClose(covariancesOf(updated), mixtureCovariances(batch), 1)
  })

  it('stays positive definite over 20,000 arrivals of one and the same point', () => {
    const rows = points(100, 4, 2, createRng(1), -142)
    let mixture: LearningMixture = roughMixture(rows, 2)
    const statistics = statisticsOfMixture(mixture, 100, REGULARISATION)
    for (let i = 0; i < 20_000; i++) {
      mixture = updateMixture(mixture, statistics, rows.data.subarray(4), 1)
      scaleStatistics(statistics, 0.99)
    }
    for (const factor of mixture.precisionCholesky) expect(Number.isFinite(factor)).toBe(true)
    expect(Math.min(...mixture.weights)).toBeGreaterThan(0)
  })
})

describe('a new component', () => {
  const rows = points(300, 3, 2, createRng(3), 0)
  const mixture = maximiseFull(rows, responsibilitiesOf(300, 2, createRng(6)), REGULARISATION)!
  const statistics = statisticsOfMixture(mixture, 300, REGULARISATION)
  const x = Float64Array.from([40, -3, 7])
  const { statistics: more, parent, variance } = addNewComponent(mixture, statistics, x, 0)
  const grown = mixtureOfStatistics(more, REGULARISATION)

  it('has mean x, one row of mass, and t = vᵀΣv of the most probable component', () => {
    expect([...grown.means.data.subarray(6)]).toEqual([...x])
    expect(grown.weights[2]).toBeCloseTo(1 / 301, 12)
    for (let j = 0; j < 2; j++) expect(grown.weights[j]).toBeCloseTo((300 / 301) * mixture.weights[j]!, 12)
    const v = x.map((value, a) => value - mixture.means.data[parent * 3 + a]!)
    const length = Math.hypot(...v)
    const covariance = mixtureCovariances(mixture).subarray(parent * 9, parent * 9 + 9)
    let t = 0
    for (let a = 0; a < 3; a++)
      for (let b = 0; b < 3; b++) t += (v[a]! * covariance[a * 3 + b]! * v[b]!) / length ** 2
    expect(variance).toBeCloseTo(t, 4)
    const spread = covariancesOf(grown).subarray(18)
    for (let a = 0; a < 3; a++) {
      for (let b = 0; b < 3; b++) expect(spread[a * 3 + b]).toBeCloseTo(a === b ? variance : 0, 4)
    }
  })

  it.each(['full', 'diagonal'] as const)('is the text evaluated in its own order to 1e-8: %s', (type) => {
    const [n, d, k] = [300, 3, 2]
    const sums = incremental(type, rows, responsibilitiesOf(n, k, createRng(6)))
    const before = mixtureOfStatistics(sums, REGULARISATION)
    const found = addNewComponent(before, sums, x, 0)
    const after = mixtureOfStatistics(found.statistics, REGULARISATION)
    const covariance = (j: number, a: number, b: number): number => {
      if (type === 'full') return covariancesOf(before)[(j * d + a) * d + b]!
      return a === b ? covariancesOf(before)[j * d + a]! : 0
    }
    // let m = component that assigns highest probability to x: π_m times its density, from Σ by elimination
    const probability = (j: number): number => {
      const matrix = Array.from({ length: d }, (_, a) =>
        Array.from({ length: d }, (_, b) => covariance(j, a, b)),
      )
      const rest = Array.from(x, (value, a) => value - before.means.data[j * d + a]!)
      let determinant = 1
      let distance = 0
      for (let a = 0; a < d; a++) {
        determinant *= matrix[a]![a]!
        distance += rest[a]! ** 2 / matrix[a]![a]!
        for (let b = a + 1; b < d; b++) {
          const factor = matrix[b]![a]! / matrix[a]![a]!
          rest[b]! -= factor * rest[a]!
          for (let c = a; c < d; c++) matrix[b]![c]! -= factor * matrix[a]![c]!
        }
      }
      return Math.log(before.weights[j]!) - 0.5 * (distance + Math.log(determinant))
    }
    const m = probability(0) >= probability(1) ? 0 : 1
    expect(found.parent).toBe(m)
    // v = normalize(x − µ_m), t = vᵀΣ_m v
    const towards = Array.from(x, (value, a) => value - before.means.data[m * d + a]!)
    const length = Math.hypot(...towards)
    let t = 0
    for (let a = 0; a < d; a++)
      for (let b = 0; b < d; b++) t += (towards[a]! / length) * covariance(m, a, b) * (towards[b]! / length)
    // both have the regularisation of an M-step in them once
    const entries = type === 'full' ? d * d : d
    const own = covariancesOf(after).subarray(k * entries)
    const expected = Float64Array.from({ length: entries }, (_, at) =>
      type === 'diagonal' || at % (d + 1) === 0 ? t : 0,
    )
    expectClose(own, expected, t)
    expectClose(after.means.data.subarray(k * d), x, 0)
    // π_i = n/(n + 1) π_i, π_{k+1} = 1/(n + 1)
    expectClose(after.weights, [...Array.from(before.weights, (w) => (n / (n + 1)) * w), 1 / (n + 1)], 0)
  })
})

describe('components that go', () => {
  it('are those of less than one row, but never all', () => {
    const statistics = emptyStatistics('full', 3, 1)
    statistics.masses.set([0.4, 7, 0.99])
    expect(livingComponents(statistics)).toEqual([1])
    statistics.masses.set([0.2, 0.4, 0.3])
    expect(livingComponents(statistics)).toEqual([1])
  })

  it.each(['full', 'diagonal'] as const)('are merged with mass, mean and scatter kept: %s', (type) => {
    const rng = createRng(11)
    const rows = points(500, 2, 5, rng, 0, 0.2)
    const hard = createMatrix(500, 5)
    // the fourth and fifth share their rows, so they differ least
    for (let i = 0; i < 500; i++) {
      const j = i % 5
      hard.data[i * 5 + (j < 3 ? j : 3 + (i % 2))] = 1
    }
    for (let i = 0; i < 500; i++) if (i % 5 === 4) rows.data.set([15, 15.1], i * 2)
    const statistics = incremental(type, rows, hard)
    const found = cheapestMerge(statistics, REGULARISATION)!
    expect([found.i, found.j]).toEqual([3, 4])
    const merged = mergeComponents(copyStatistics(statistics), found.i, found.j)
    const together = createMatrix(500, 4)
    for (let i = 0; i < 500; i++)
      for (let j = 0; j < 5; j++) together.data[i * 4 + Math.min(j, 3)]! += hard.data[i * 5 + j]!
    const expected = incremental(type, rows, together)
    expectClose(merged.masses, expected.masses, 0)
    expectClose(merged.means, expected.means, 1)
    expectClose(merged.scatters, expected.scatters, 1)
  })
})
