import { createRng, matrixFromRows, takeRows } from '@oddflow/core'
import { gaussianKernel, pairDistanceQuantiles } from '@oddflow/linalg'
import { describe, expect, it } from 'vitest'
import { checkParameters } from '../src/checks.js'
import { keepLargestClusters } from '../src/clustering/k-means.js'
import { defaultNeighbours, quickShiftPlusPlus } from '../src/clustering/quickshift-pp.js'
import { embedRows, kjlProjection, nystromProjection } from '../src/embedding/embedding.js'
import { clusterMoments, mixtureFromMoments, runEm } from '../src/mixture/fit-mixture.js'
import type { DetectorModel, EmbeddingModel } from '../src/model.js'
import { createScoreWorkspace, scoreSamples } from '../src/score.js'
import { expectClose } from './close.js'
import { goldenAbsent, readGolden } from './shared.js'

interface Stages {
  P: number[][]
  phi_train_first5: number[][]
  phi_test_first5: number[][]
  qs_labels: number[]
  kept: number[]
  init_weights: number[]
  init_means: number[][]
  init_covariances: number[][][]
  loglik: number[]
  n_iter: number
  weights: number[]
  means: number[][]
  scores_full: number[]
}

interface Golden08 {
  X_train: number[][]
  X_test: number[][]
  subsample: number[]
  Z: number[][]
  q: number
  sigma: number
  k_nn: number
  beta: number
  d: number
  methods: Record<'OC-KJL-QS' | 'OC-KJL-uncentred-QS' | 'OC-Nystrom-QS', Stages>
}

const METHODS = [
  ['OC-KJL-QS', 'oc-kjl-qs', true],
  ['OC-KJL-uncentred-QS', 'oc-kjl-qs', false],
  ['OC-Nystrom-QS', 'oc-nystrom-qs', undefined],
] as const

describe.skipIf(goldenAbsent)('golden 08: every stage on real rows (independent reference)', () => {
  for (const set of ['AECHO', 'SFRIG_2020']) {
    for (const [method, detector, centre] of METHODS) {
      it(`${set}, ${method}`, () => {
        const g = readGolden<Golden08>(`08_end_to_end_${set}`)
        const stages = g.methods[method]
        const train = matrixFromRows(g.X_train)
        const test = matrixFromRows(g.X_test)
        const bandwidth = pairDistanceQuantiles(train, [g.q], createRng(1), 'authors').quantiles[0]!
        expectClose([bandwidth], [g.sigma], 1e-12)
        const landmarks = takeRows(train, g.subsample)
        const gram = gaussianKernel(landmarks, landmarks, bandwidth)
        const projection =
          centre === undefined
            ? nystromProjection(gram, g.d)
            : kjlProjection(gram, matrixFromRows(g.Z), centre)
        expectClose(projection.data, stages.P.flat(), 1e-8)
        const kind = centre === undefined ? 'nystrom' : 'kjl'
        const embedding: EmbeddingModel = { kind, bandwidth, landmarks, projection }
        const embedded = embedRows(embedding, train)
        expectClose(embedded.data.subarray(0, 25), stages.phi_train_first5.flat(), 1e-8)
        expectClose(embedRows(embedding, test).data.subarray(0, 25), stages.phi_test_first5.flat(), 1e-8)
        expect(defaultNeighbours(train.rows)).toBe(g.k_nn)
        const clustering = quickShiftPlusPlus(embedded, g.k_nn, g.beta)
        expect([...clustering.labels]).toEqual(stages.qs_labels)
        const kept = keepLargestClusters(clustering, 0.95, 20)
        expect([...kept]).toEqual(stages.kept)
        const moments = clusterMoments(embedded, clustering, kept, 1e-6)
        expectClose(moments.weights, stages.init_weights, 1e-12)
        expectClose(moments.means.data, stages.init_means.flat(), 1e-8)
        expectClose(moments.covariances, stages.init_covariances.flat(2), 1e-8)
        const parameters = checkParameters({
          detector,
          supportGuard: false,
          ...(centre === undefined ? {} : { centre }),
        })
        const { mixture, meanLogLikelihoods } = runEm(
          embedded,
          mixtureFromMoments(moments, 1e-6)!,
          parameters.em,
        )!
        expect(meanLogLikelihoods).toHaveLength(stages.n_iter)
        expectClose(meanLogLikelihoods, stages.loglik, 1e-7)
        expectClose(mixture.weights, stages.weights, 1e-7)
        expectClose(mixture.means.data, stages.means.flat(), 1e-7)
        const model: DetectorModel = {
          kind: detector,
          parameters,
          scaler: { kind: 'none' },
          embedding,
          mixture,
          supportGuard: null,
          fitReport: {
            trainingRows: train.rows,
            dimension: train.cols,
            landmarks: landmarks.rows,
            embeddingDimension: g.d,
            clustersFound: clustering.count,
            clustersKept: kept.length,
            iterations: stages.n_iter,
            converged: true,
            meanLogLikelihood: meanLogLikelihoods[0]!,
            regularisation: 1e-6,
            notes: [],
          },
        }
        const scores = scoreSamples(model, test, new Float64Array(test.rows), createScoreWorkspace(model))
        // golden scores are larger for novel rows
        expectClose(
          scores,
          stages.scores_full.map((s) => -s),
          1e-6,
        )
      })
    }
  }
})
