import { createMatrix, createRng, type Matrix, matrixFromRows, takeRows } from '@oddflow/core'
import { gaussianKernel, pairDistanceQuantiles } from '@oddflow/linalg'
import { describe, expect, it } from 'vitest'
import { keepLargestClusters } from '../../src/clustering/k-means.js'
import { quickShiftPlusPlus } from '../../src/clustering/quickshift-pp.js'
import { embedRows, kjlProjection, nystromProjection } from '../../src/embedding/embedding.js'
import {
  mixtureOf,
  momentsOf,
  type TypedCovarianceType,
  type TypedMixture,
  typedMixtureCovariances,
} from '../../src/mixture/covariance-types.js'
import { fitFromStart, runEm } from '../../src/mixture/fit-mixture.js'
import { mixtureLogDensities } from '../../src/mixture/gaussian-mixture.js'
import type { EmbeddingModel } from '../../src/model.js'
import { expectClose } from '../close.js'
import { readTestJson } from '../read-json.js'
import { goldenAbsent, readGolden } from '../shared.js'

interface State {
  weights: number[]
  means: number[][]
  /** k × d, d × d or k numbers. */
  covariances: number[] | number[][]
}

interface Run {
  rows: number[][]
  points: number[][]
  covarianceType: TypedCovarianceType
  tolerance: number
  regularisation: number
  start: State
  iterates: State[]
  final: State
  meanLogLikelihoods: number[]
  converged: boolean
  logDensities: number[]
}

const mixtureFrom = (type: TypedCovarianceType, { weights, means, covariances }: State): TypedMixture =>
  mixtureOf(type, {
    weights: Float64Array.from(weights),
    means: matrixFromRows(means),
    covariances: Float64Array.from(covariances.flat()),
  })!

function expectState(mixture: TypedMixture, state: State, tolerance: number): void {
  expectClose(mixture.weights, state.weights, tolerance)
  expectClose(mixture.means.data, state.means.flat(), tolerance)
  expectClose(typedMixtureCovariances(mixture), state.covariances.flat(), tolerance)
}

function expectRun(run: Run, tolerance: number, densityTolerance: number): void {
  const rows = matrixFromRows(run.rows)
  const start = mixtureFrom(run.covarianceType, run.start)
  const em = (maximumSteps: number) => {
    const { tolerance: stop, regularisation } = run
    return runEm(rows, start, { tolerance: stop, regularisation, maximumSteps })!
  }
  run.iterates.forEach((state, i) => {
    expectState(em(i + 1).mixture, state, tolerance)
  })
  const { mixture, meanLogLikelihoods, converged } = em(100)
  expect(meanLogLikelihoods).toHaveLength(run.meanLogLikelihoods.length)
  expect(converged).toBe(run.converged)
  expectClose(meanLogLikelihoods, run.meanLogLikelihoods, tolerance)
  expectState(mixture, run.final, tolerance)
  expectClose(mixtureLogDensities(mixture, matrixFromRows(run.points)), run.logDensities, densityTolerance)
}

describe("EM of scikit-learn's GaussianMixture, step by step", () => {
  for (const run of readTestJson<{ cases: (Run & { name: string })[] }>('mixture-types/scikit-learn.json')
    .cases) {
    // the variance of equal rows is the regularisation, 1e-6, beside squares of 18 that scikit-learn subtracts
    const ill = run.name === 'a cluster of equal rows'
    it(`${run.covarianceType}: ${run.name}`, () => {
      expectRun(run, ill ? 1e-7 : 1e-10, ill ? 1e-6 : 1e-9)
    })
  }
})

interface Golden05 {
  X: number[][]
  T: number[][]
  weights0: number[]
  means0: number[][]
  reg: number
  tol: number
  diag: State & {
    covariances0: number[][]
    initial_log_density_T: number[]
    iterates: State[]
    loglik: number[]
    converged: boolean
    log_density_T: number[]
    log_density_X: number[]
  }
}

describe.skipIf(goldenAbsent)('golden 05: EM with diagonal covariances (scikit-learn)', () => {
  const golden = goldenAbsent ? undefined : readGolden<Golden05>('05_gmm_em')

  it('has the densities of the start', () => {
    const { weights0, means0, diag, T } = golden!
    const start = mixtureFrom('diagonal', {
      weights: weights0,
      means: means0,
      covariances: diag.covariances0,
    })
    expectClose(mixtureLogDensities(start, matrixFromRows(T)), diag.initial_log_density_T, 1e-10)
  })

  for (const [at, densities] of [
    ['T', 'log_density_T'],
    ['X', 'log_density_X'],
  ] as const) {
    it(`has the iterates, the likelihoods, the end and the densities on ${at}`, () => {
      const { X, weights0, means0, diag, reg, tol } = golden!
      expectRun(
        {
          rows: X,
          points: golden![at],
          covarianceType: 'diagonal',
          tolerance: tol,
          regularisation: reg,
          start: { weights: weights0, means: means0, covariances: diag.covariances0 },
          iterates: diag.iterates,
          final: diag,
          meanLogLikelihoods: diag.loglik,
          converged: diag.converged,
          logDensities: diag[densities],
        },
        1e-10,
        1e-9,
      )
    })
  }
})

interface Golden08 {
  X_train: number[][]
  X_test: number[][]
  subsample: number[]
  Z: number[][]
  q: number
  k_nn: number
  beta: number
  d: number
  methods: Record<string, { qs_labels: number[]; init_means: number[][]; scores_diag: number[] }>
}

describe.skipIf(goldenAbsent)('golden 08: diagonal mixtures on real rows (independent reference)', () => {
  for (const set of ['AECHO', 'SFRIG_2020']) {
    for (const [method, centre] of [
      ['OC-KJL-QS', true],
      ['OC-KJL-uncentred-QS', false],
      ['OC-Nystrom-QS', undefined],
    ] as const) {
      it(`${set}, ${method}`, () => {
        const g = readGolden<Golden08>(`08_end_to_end_${set}`)
        const { qs_labels, init_means, scores_diag } = g.methods[method]!
        const train = matrixFromRows(g.X_train)
        const bandwidth = pairDistanceQuantiles(train, [g.q], createRng(1), 'authors').quantiles[0]!
        const landmarks = takeRows(train, g.subsample)
        const gram = gaussianKernel(landmarks, landmarks, bandwidth)
        const projection =
          centre === undefined
            ? nystromProjection(gram, g.d)
            : kjlProjection(gram, matrixFromRows(g.Z), centre)
        const kind = centre === undefined ? 'nystrom' : 'kjl'
        const embedding: EmbeddingModel = { kind, bandwidth, landmarks, projection }
        const points: Matrix = embedRows(embedding, train)
        const clustering = quickShiftPlusPlus(points, g.k_nn, g.beta)
        expect([...clustering.labels]).toEqual(qs_labels)
        const kept = keepLargestClusters(clustering, 0.95, 20)
        const memberships = createMatrix(points.rows, kept.length)
        clustering.labels.forEach((label, i) => {
          const j = kept.indexOf(label)
          if (j >= 0) memberships.data[i * kept.length + j] = 1
        })
        const moments = (added: number) => momentsOf('diagonal', points, memberships, added)
        expectClose(moments(1e-6).means.data, init_means.flat(), 1e-8)
        const em = { tolerance: 1e-3, maximumSteps: 100, regularisation: 1e-6 }
        const { mixture } = fitFromStart(points, em, (added) => mixtureOf('diagonal', moments(added)))
        // golden scores are larger for novel rows
        expectClose(
          mixtureLogDensities(mixture, embedRows(embedding, matrixFromRows(g.X_test))),
          scores_diag.map((s) => -s),
          1e-6,
        )
      })
    }
  }
})
