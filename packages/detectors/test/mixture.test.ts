import { ArgumentError, createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { kMeans } from '../src/clustering/k-means.js'
import { checkParameters, type QuickShiftStart } from '../src/index.js'
import { expectation, fitFromStart, fitMixture, runEm } from '../src/mixture/fit-mixture.js'
import {
  createMixture,
  maximiseFull,
  mixtureCovariances,
  mixtureLogDensities,
} from '../src/mixture/gaussian-mixture.js'
import { clusteredRows } from './rows.js'

const em = checkParameters().em

describe('Gaussian mixture', () => {
  it('of one component in one dimension is the normal density', () => {
    const mixture = createMixture(Float64Array.of(1), matrixOf(1, 1, Float64Array.of(2)), Float64Array.of(9))
    const [density] = mixtureLogDensities(mixture, matrixOf(1, 1, Float64Array.of(5)))
    // (5 − 2)² / 9 = 1
    expect(density).toBeCloseTo(-0.5 * Math.log(2 * Math.PI * 9) - 0.5, 14)
  })

  it('does not depend on the order of its components by more than rounding, for any k', () => {
    for (let k = 1; k <= 9; k++) {
      const rng = createRng(k)
      const means = matrixOf(
        k,
        2,
        Float64Array.from({ length: 2 * k }, () => rng.nextNormal()),
      )
      const weights = new Float64Array(k).fill(1 / k)
      const covariances = Float64Array.from({ length: 4 * k }, (_, i) => [2, 0.5, 0.5, 1][i % 4]!)
      const reversed = matrixOf(
        k,
        2,
        Float64Array.from(means.data, (_, i) => means.data[2 * (k - 1 - (i >> 1)) + (i & 1)]!),
      )
      const at = matrixOf(3, 2, Float64Array.of(0, 0, 1, -1, 30, 40))
      const a = mixtureLogDensities(createMixture(weights, means, covariances), at)
      const b = mixtureLogDensities(createMixture(weights, reversed, covariances), at)
      a.forEach((v, i) => {
        expect(Math.abs(v - b[i]!)).toBeLessThan(1e-12 * Math.abs(v))
      })
    }
  })

  it('gives its covariances back', () => {
    const covariances = Float64Array.of(4, 1, 1, 3, 1, -0.5, -0.5, 2)
    const mixture = createMixture(Float64Array.of(0.5, 0.5), matrixOf(2, 2, new Float64Array(4)), covariances)
    mixtureCovariances(mixture).forEach((v, i) => {
      expect(v).toBeCloseTo(covariances[i]!, 13)
    })
  })

  it('refuses covariances that are not positive definite and sizes that do not fit', () => {
    const means = matrixOf(1, 2, new Float64Array(2))
    expect(() => createMixture(Float64Array.of(1), means, Float64Array.of(1, 1, 1, 1))).toThrow(ArgumentError)
    expect(() => createMixture(Float64Array.of(1), means, new Float64Array(3))).toThrow(
      /4 covariance entries/,
    )
  })
})

describe('EM', () => {
  const points = clusteredRows(200, 3)
  const start = (k: number) => {
    const rng = createRng(k)
    const means = matrixOf(
      k,
      3,
      Float64Array.from({ length: 3 * k }, () => 10 + 10 * rng.nextNormal()),
    )
    const covariances = Float64Array.from({ length: 9 * k }, (_, i) => ((i % 9) % 4 === 0 ? 25 : 0))
    return createMixture(new Float64Array(k).fill(1 / k), means, covariances)
  }

  it('never lowers the likelihood by more than the regularisation can', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), (k) => {
        const { meanLogLikelihoods } = runEm(points, start(k), { ...em, tolerance: 0, maximumSteps: 30 })!
        meanLogLikelihoods.forEach((v, i) => {
          if (i > 0) expect(v).toBeGreaterThan(meanLogLikelihoods[i - 1]! - 1e-4)
        })
      }),
      { numRuns: 6 },
    )
  })

  it('has responsibilities that sum to 1 and weights that do', () => {
    const responsibilities = matrixOf(200, 4, new Float64Array(800))
    expectation(points, start(4), responsibilities)
    for (let i = 0; i < 200; i++) {
      const sum = responsibilities.data.slice(4 * i, 4 * i + 4).reduce((a, b) => a + b, 0)
      expect(sum).toBeCloseTo(1, 14)
    }
    const { weights } = maximiseFull(points, responsibilities, 1e-6)!
    expect(weights.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 14)
  })

  it('takes out a component that lost its rows, in the step in which it did', () => {
    // a third component, narrow and far from all rows, that starves in the first step
    const two = start(2)
    const d = points.cols
    const third = createMixture(
      Float64Array.of(0.5, 0.5 - 1e-9, 1e-9),
      matrixOf(3, d, Float64Array.of(...two.means.data, -5e3, -5e3, -5e3)),
      Float64Array.from({ length: 27 }, (_, i) => ((i % 9) % 4 === 0 ? (i < 18 ? 25 : 1) : 0)),
    )
    const fitted = runEm(points, third, { ...em, maximumSteps: 1 })!
    expect(fitted.removed).toBe(1)
    expect(fitted.mixture.weights.length).toBe(2)
    expect(fitted.mixture.means.rows).toBe(2)
    expect(fitted.mixture.precisionCholesky.length).toBe(2 * d * d)
    expect(fitted.mixture.weights[0]! + fitted.mixture.weights[1]!).toBeCloseTo(1, 15)
    const more = runEm(points, third, em)!
    expect(more.removed).toBe(1)
    // what is left goes on as if the third had never been
    const expected = runEm(points, two, em)!
    const at = matrixOf(1, d, new Float64Array(d))
    const [density] = mixtureLogDensities(more.mixture, at)
    expect(density).toBeCloseTo(mixtureLogDensities(expected.mixture, at)[0]!, 2)
  })

  it('says so when components were taken out', () => {
    const start = createMixture(
      Float64Array.of(0.5, 0.5),
      matrixOf(2, 1, Float64Array.of(0, 1e6)),
      Float64Array.of(1, 1),
    )
    const rows = matrixOf(
      20,
      1,
      Float64Array.from({ length: 20 }, (_, i) => i / 10),
    )
    const fitted = fitFromStart(rows, em, () => start)
    expect(fitted.mixture.weights).toEqual(Float64Array.of(1))
    expect(fitted.notes).toEqual(['1 component removed, to which no rows belonged any more'])
  })

  it('gives an empty component a mean and a positive weight', () => {
    const responsibilities: Matrix = matrixOf(
      200,
      2,
      Float64Array.from({ length: 400 }, (_, i) => 1 - (i % 2)),
    )
    const mixture = maximiseFull(points, responsibilities, 1e-6)!
    expect(mixture.weights[1]).toBeGreaterThan(0)
    for (const v of [...mixture.means.data, ...mixture.precisionCholesky])
      expect(Number.isFinite(v)).toBe(true)
  })
})

describe('fitMixture', () => {
  const start = checkParameters({ detector: 'oc-kjl', k: 2 }).start
  const clusters = checkParameters().start as QuickShiftStart

  it('raises a regularisation that is too small, and says so', () => {
    // on a line, and so large that 1e-6 is lost beside the squares
    const points = matrixOf(
      40,
      2,
      Float64Array.from({ length: 80 }, (_, i) => 1e5 * (i >> 1)),
    )
    const fitted = fitMixture(points, start, { ...em, regularisation: 1e-12 }, createRng(1))
    expect(fitted.regularisation).toBeGreaterThan(1e-12)
    expect(fitted.notes.join()).toMatch(/regularisation raised from 1e-12/)
  })

  it('gives up with a DataError when 1e-3 is not enough', () => {
    const points = matrixOf(
      40,
      2,
      Float64Array.from({ length: 80 }, (_, i) => 1e12 * (i >> 1)),
    )
    expect(() => fitMixture(points, start, em, createRng(1))).toThrow(DataError)
  })

  it('says when EM ran out of steps', () => {
    const fitted = fitMixture(clusteredRows(100, 2), start, { ...em, maximumSteps: 1 }, createRng(1))
    expect(fitted.converged).toBe(false)
    expect(fitted.notes.join()).toMatch(/stopped after 1 steps/)
  })

  it('searches clusters in a stated sample when there are very many rows', () => {
    const points = clusteredRows(1200, 2)
    const search = (clusterSearchRows: number) =>
      fitMixture(points, { ...clusters, clusterSearchRows }, em, createRng(1))
    const sampled = search(300)
    expect(sampled.notes).toEqual(['clusters were searched in a random 300 of 1200 rows'])
    expect(sampled.clustersKept).toBeGreaterThan(1)
    expect(sampled.mixture.weights.length).toBe(sampled.clustersKept)
    expect(search(1200).notes).toEqual([])
  })

  it('starts from clusters or from k-means with their number, as asked', () => {
    const points = clusteredRows(400, 2)
    const fits = (['clusters', 'k-means++'] as const).map((mixtureStart) => {
      const start = { ...clusters, mixtureStart, coverage: 1 }
      return fitMixture(points, start, { ...em, maximumSteps: 1 }, createRng(1))
    })
    const [byClusters, byKMeans] = fits
    expect(byKMeans!.clustersFound).toBe(byClusters!.clustersFound)
    expect(byKMeans!.clustersKept).toBe(byClusters!.clustersKept)
    expect(byKMeans!.meanLogLikelihoods).not.toEqual(byClusters!.meanLogLikelihoods)
    const k = byClusters!.clustersKept
    const given = fitMixture(
      points,
      checkParameters({ detector: 'oc-kjl', k }).start,
      { ...em, maximumSteps: 1 },
      createRng(1),
    )
    expect(byKMeans!.mixture).toEqual(given.mixture)
  })
})

describe('k-means', () => {
  it('finds clusters that are far apart, from any seed', () => {
    const points = clusteredRows(90, 3)
    for (let seed = 0; seed < 20; seed++) {
      const { labels, count } = kMeans(points, 3, createRng(seed))
      expect(count).toBe(3)
      for (let i = 3; i < 90; i++) expect(labels[i]).toBe(labels[i % 3])
    }
  })

  it('leaves no cluster empty and lowers k to the points that differ', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 12 }),
        fc.nat(),
        (values, k, seed) => {
          const { labels, count } = kMeans(
            matrixOf(values.length, 1, Float64Array.from(values)),
            k,
            createRng(seed),
          )
          expect(count).toBe(Math.min(k, new Set(values).size))
          expect(new Set(labels).size).toBe(count)
        },
      ),
    )
  })
})
