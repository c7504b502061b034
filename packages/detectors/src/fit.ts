/**
 * fitDetector: normal rows in, a model out (paper, "Meta Procedures", Training).
 *
 * scaler → bandwidth → landmarks and projection → embedded rows → clusters → mixture → support guard. Each stage draws from
 * its own fork of the Rng, so that a change in one leaves the chance of the others alone, and the same seed
 * gives the same model bytes. What could not be done as asked stands in `fitReport.notes`.
 */
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  DataError,
  MAXIMUM_DIMENSION,
  type Matrix,
  type MatrixLike,
  type Rng,
} from '@oddflow/core'
import { chooseBandwidth } from './bandwidth.js'
import { embedRows, fitEmbedding } from './embedding.js'
import { fitMixture } from './fit-mixture.js'
import { mixtureLogDensities } from './gaussian-mixture.js'
import type { DetectorModel, EmbeddingModel } from './model.js'
import type { CheckedParameters } from './parameters.js'
import { constantColumns, fitScaler, scaleRows } from './scaler.js'
import { fitSupportGuard } from './support-guard.js'

export type FitStage = 'bandwidth' | 'embedding' | 'clusters' | 'mixture'

export interface FitProgress {
  readonly stage: FitStage
  /** Share of the stage that is done, 0 … 1. */
  readonly fraction: number
}

export interface FitOptions {
  /** Called now and then, in the order of the stages; must not change the rows. */
  readonly onProgress?: (progress: FitProgress) => void
}

/**
 * Fits a detector to normal rows (n × D, n ≥ 2). `parameters` come from `checkParameters`. The rows are not
 * changed and not kept. Throws ArgumentError for rows that are not finite numbers of one width, DataError for
 * rows that nothing can be learnt from.
 */
export function fitDetector(
  rows: Matrix | MatrixLike,
  parameters: CheckedParameters,
  rng: Rng,
  { onProgress }: FitOptions = {},
): DetectorModel {
  const matrix = checkTrainingRows(rows)
  const report = (stage: FitStage, fraction: number) => onProgress?.({ stage, fraction })
  report('bandwidth', 0)
  const scaler = fitScaler(matrix, parameters.scaler)
  const scaled = scaleRows(scaler, matrix)
  const { bandwidth, rowsUsed } = chooseBandwidth(scaled, parameters.bandwidthQuantile, rng)
  report('embedding', 0)
  const { embedding, landmarkRows } = fitEmbedding(scaled, bandwidth, parameters, rng)
  const embedded = embedRows(embedding, scaled)
  report('clusters', 0)
  const { maximumSteps } = parameters.em
  const fitted = fitMixture(embedded, parameters.start, parameters.em, rng, {
    onClusters: (fraction) => report('clusters', fraction),
    onEmStep: (step) => report('mixture', step / maximumSteps),
  })
  report('mixture', 1)
  const supportGuard = parameters.supportGuard
    ? fitSupportGuard(scaled, embedding, landmarkRows, mixtureLogDensities(fitted.mixture, embedded))
    : null
  const { mixture, meanLogLikelihoods, converged, clustersFound, clustersKept, regularisation } = fitted
  return {
    kind: parameters.detector,
    parameters,
    scaler,
    embedding,
    mixture,
    supportGuard,
    fitReport: {
      trainingRows: matrix.rows,
      dimension: matrix.cols,
      landmarks: embedding.landmarks.rows,
      embeddingDimension: embedding.projection.rows,
      clustersFound,
      clustersKept,
      iterations: meanLogLikelihoods.length,
      converged,
      meanLogLikelihood: meanLogLikelihoods[meanLogLikelihoods.length - 1]!,
      regularisation,
      notes: [...inputNotes(matrix, rowsUsed), ...embeddingNotes(embedding, parameters), ...fitted.notes],
    },
  }
}

function checkTrainingRows(rows: Matrix | MatrixLike): Matrix {
  const matrix = asMatrix(rows)
  if (matrix.rows < 2) {
    throw new DataError(`rows: at least 2 are needed to learn from, found ${matrix.rows}`, 'rows')
  }
  if (matrix.cols < 1 || matrix.cols > MAXIMUM_DIMENSION) {
    throw new ArgumentError(
      `rows: expected from 1 to ${MAXIMUM_DIMENSION} columns, found ${matrix.cols}`,
      'rows',
    )
  }
  checkFinite(matrix, 'rows')
  return matrix
}

function inputNotes(rows: Matrix, rowsUsed: number): string[] {
  const notes: string[] = []
  if (rowsUsed < rows.rows) {
    notes.push(`the bandwidth is the quantile over a random ${rowsUsed} of ${rows.rows} rows`)
  }
  const constant = constantColumns(rows)
  if (constant > 0) notes.push(`${constant} of ${rows.cols} columns are constant in the training rows`)
  return notes
}

function embeddingNotes({ landmarks, projection }: EmbeddingModel, { m, d }: CheckedParameters): string[] {
  const notes: string[] = []
  if (landmarks.rows < m) notes.push(`m lowered from ${m} to the ${landmarks.rows} training rows`)
  if (projection.rows < d) {
    notes.push(`d lowered from ${d} to ${projection.rows}, which is all that the landmarks span`)
  }
  return notes
}
