/**
 * Checks of model parts that several families share: embeddings, mixtures, and rows in float32.
 *
 * Each check returns its part with exactly the known fields; arrays are not copied. It throws ArgumentError with the
 * path of the fault.
 */
import { ArgumentError, DataError, type Matrix } from '@oddflow/core'
import { exponentFactor, LARGEST_FLOAT32, type Precision } from '@oddflow/linalg'
import { bandwidthAt, failField, fieldsAt, matrixAt, numbersAt, sizeUpTo } from './fields.js'
import { checkLowerTriangular, checkWeights } from './mixture/covariance-types.js'
import type { EmbeddingModel, MixtureModel } from './model.js'

/**
 * Rows stored by a model of precision f32: landmarks and support vectors are rounded to float32 at the end of the fit,
 * so the file holds exactly the numbers used for scoring.
 *
 * Learning runs in float64 for both precisions: clustering is ill-conditioned, and the model must not depend on a
 * rounding that is meant for its scorer. Rounded rows stay in Float64Arrays; only the file and the kernels use float32.
 */

/**
 * The rows in that precision; unchanged for f64. Throws DataError if a number, or the square of the bandwidth, is out
 * of float32's range.
 */
export function rowsInPrecision(rows: Matrix, bandwidth: number, precision: Precision): Matrix {
  if (precision === 'f64') return rows
  for (const value of rows.data) {
    if (Math.abs(value) > LARGEST_FLOAT32) {
      throw new DataError(`rows: ${value} is out of float32's range; take precision f64, or scale`, 'rows')
    }
  }
  try {
    exponentFactor(bandwidth, precision)
  } catch (error) {
    if (error instanceof ArgumentError) throw new DataError(error.message, 'precision')
    throw error
  }
  return { rows: rows.rows, cols: rows.cols, data: rows.data.map(Math.fround) }
}

/** Throws ArgumentError with the path `field` or `bandwidthField`. */
export function checkRowsInPrecision(
  rows: Matrix,
  field: string,
  bandwidth: number,
  bandwidthField: string,
  precision: Precision,
): void {
  if (precision === 'f64') return
  for (const value of rows.data) if (Math.fround(value) !== value) failField(field, 'float32 numbers', value)
  try {
    exponentFactor(bandwidth, precision)
  } catch {
    failField(bandwidthField, "one whose square is in float32's range", bandwidth)
  }
}

/** Compared with the requested m and d, and D. */
export function checkEmbedding(
  value: unknown,
  asked: {
    readonly m: number
    readonly d: number
    readonly precision: Precision
    readonly embedding: { readonly kind: string }
  },
  dimension: number,
): EmbeddingModel {
  const e = fieldsAt(value, 'embedding')
  const { kind } = e
  if (kind !== asked.embedding.kind || (kind !== 'kjl' && kind !== 'nystrom')) {
    return failField('embedding.kind', asked.embedding.kind, kind)
  }
  const bandwidth = bandwidthAt(e.bandwidth, 'embedding.bandwidth')
  const landmarks = matrixAt(e.landmarks, 'embedding.landmarks')
  const projection = matrixAt(e.projection, 'embedding.projection')
  sizeUpTo(landmarks.rows, asked.m, 'embedding.landmarks.rows')
  if (landmarks.cols !== dimension) failField('embedding.landmarks', `${dimension} columns`, landmarks.cols)
  checkRowsInPrecision(landmarks, 'embedding.landmarks', bandwidth, 'embedding.bandwidth', asked.precision)
  sizeUpTo(projection.rows, asked.d, 'embedding.projection.rows')
  if (projection.cols !== landmarks.rows) {
    failField('embedding.projection.cols', `${landmarks.rows}, one per landmark`, projection.cols)
  }
  return { kind, bandwidth, landmarks, projection }
}

/** A full mixture of at most `maximumComponents` in d dimensions. */
export function checkFullMixture(value: unknown, d: number, maximumComponents: number): MixtureModel {
  const x = fieldsAt(value, 'mixture')
  if (x.covarianceType !== 'full') failField('mixture.covarianceType', 'full', x.covarianceType)
  const weights = numbersAt(x.weights, 'mixture.weights')
  const k = weights.length
  sizeUpTo(k, maximumComponents, 'mixture.weights')
  checkWeights(weights)
  const means = matrixAt(x.means, 'mixture.means')
  if (means.rows !== k || means.cols !== d) {
    failField('mixture.means', `${k} × ${d}`, `${means.rows} × ${means.cols}`)
  }
  const precisionCholesky = numbersAt(x.precisionCholesky, 'mixture.precisionCholesky', k * d * d)
  for (let at = 0; at < precisionCholesky.length; at += d * d) checkLowerTriangular(precisionCholesky, at, d)
  return { covarianceType: 'full', weights, means, precisionCholesky }
}
