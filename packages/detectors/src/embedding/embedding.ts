/**
 * The effective rank of a gram matrix, up to `enough`: Cholesky with diagonal pivoting (Higham, "Accuracy and Stability
 * of Numerical Algorithms", 2nd ed., section 10.3), until only rounding is left on the diagonal: below m·2⁻⁵² of the
 * largest entry, as in `nystromProjection`. Repeated landmarks, and those closer than the kernel resolves, lower the
 * rank.
 */
import { ArgumentError, createMatrix, DataError, type Matrix, type Rng, takeRows } from '@oddflow/core'
import {
  exponentFactor,
  gaussianKernel,
  LARGEST_FLOAT32,
  multiply,
  type Precision,
  symmetricEigen,
} from '@oddflow/linalg'
import { bandwidthAt, failField, fieldsAt, matrixAt, sizeUpTo } from '../fields.js'
import type { EmbeddingModel } from '../model.js'
import type { EmbeddingParameters, LandmarkChoice } from '../parameters.js'
import { createEmbeddingKernel, EMBEDDING_TILE_ROWS } from './embedding-kernel.js'
import { chooseLandmarks } from './landmarks.js'

/**
 * KJL: a random projection of the kernel's feature space (paper, equation for φ′ under "KJL Sketching"; Kpotufe and
 * Sriperumbudur, "Gaussian sketching yields a J-L lemma in RKHS").
 *
 * P = Z·K with Z (d × m) of standard normal entries and K the landmarks' gram matrix (m × m). Centered, K first loses
 * its column means, P = Z·(K − column means)ᵀ: each row of Z·K minus its mean.
 */

/** P, d × m. `gram` is symmetric, m × m; `z` is d × m. */
export function kjlProjection(gram: Matrix, z: Matrix, centre: boolean): Matrix {
  return multiply(z, centre ? centredTranspose(gram) : gram)
}

/** Z: d × m standard normal deviates, drawn row by row. */
export function drawSketch(d: number, m: number, rng: Rng): Matrix {
  const z = createMatrix(d, m)
  for (let i = 0; i < z.data.length; i++) z.data[i] = rng.nextNormal()
  return z
}

/** (K − column means)ᵀ; K is symmetric, so row i of the result is row i of K less that row's mean. */
function centredTranspose(gram: Matrix): Matrix {
  const m = gram.rows
  const out = createMatrix(m, m)
  const mean = new Float64Array(m)
  for (let i = 0; i < m; i++) for (let j = 0; j < m; j++) mean[j]! += gram.data[i * m + j]!
  for (let j = 0; j < m; j++) mean[j] = mean[j]! / m
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < m; j++) out.data[j * m + i] = gram.data[i * m + j]! - mean[j]!
  }
  return out
}

/**
 * Nyström: the best rank-d map through the landmarks (paper, equation for φ′ under "Nyström"; Yang et al., "Nyström
 * method vs random Fourier features", 2012).
 *
 * P = Λ^(−1/2)·Vᵀ with the d largest eigenpairs of the landmarks' gram matrix. Directions whose eigenvalue is rounding
 * noise (repeated landmarks) are dropped and d is lowered, because λ^(−1/2) would amplify them.
 */

/** P, at most d × m, with one row for each eigenvalue above m·2⁻⁵²·λ₁. */
export function nystromProjection(gram: Matrix, d: number): Matrix {
  const m = gram.rows
  const { values, vectors } = symmetricEigen(gram, Math.min(d, m))
  const floor = values[0]! * m * Number.EPSILON
  let rank = 0
  while (rank < values.length && values[rank]! > floor) rank++
  const projection = createMatrix(rank, m)
  for (let r = 0; r < rank; r++) {
    const root = Math.sqrt(values[r]!)
    for (let j = 0; j < m; j++) projection.data[r * m + j] = vectors.data[r * m + j]! / root
  }
  return projection
}

/** Of a positive semidefinite matrix (m × m, m ≥ 1), counted up to `enough`. */
export function effectiveRank({ rows: m, data }: Matrix, enough: number): number {
  const left = Float64Array.from({ length: m }, (_, i) => data[i * m + i]!)
  const floor = m * Number.EPSILON * left.reduce((a, b) => Math.max(a, b), 0)
  const factor: Float64Array[] = []
  while (factor.length < Math.min(enough, m)) {
    let pivot = 0
    for (let i = 1; i < m; i++) if (left[i]! > left[pivot]!) pivot = i
    if (!(left[pivot]! > floor)) break
    const root = Math.sqrt(left[pivot]!)
    const column = new Float64Array(m)
    for (let i = 0; i < m; i++) {
      let entry = data[i * m + pivot]!
      for (const earlier of factor) entry -= earlier[i]! * earlier[pivot]!
      column[i] = entry / root
      left[i] = left[i]! - column[i]! * column[i]!
    }
    left[pivot] = 0
    factor.push(column)
  }
  return factor.length
}

/**
 * Embedding: x → φ′(x) = P·K(x) in d dimensions, by KJL or Nyström over m landmarks.
 *
 * Landmarks are training rows (landmarks.ts). Repeated landmarks give the gram matrix null directions. d is lowered to
 * its effective rank, so that none of them becomes a dimension: Nyström would divide by the root of a rounding error,
 * and KJL would sketch the same few directions twice.
 */

/**
 * `rows` are scaled, n × D; `landmarkRows` are the numbers of the landmarks among them. Draws from the forks
 * `landmarks` and `sketch` of `rng`.
 */
export function fitEmbedding(
  rows: Matrix,
  bandwidth: number,
  parameters: { m: number; landmarks: LandmarkChoice; d: number; embedding: EmbeddingParameters },
  rng: Rng,
): { embedding: EmbeddingModel; landmarkRows: Uint32Array } {
  const { m, d, embedding } = parameters
  const landmarkRows = chooseLandmarks(rows, m, parameters.landmarks, rng)
  const landmarks = takeRows(rows, landmarkRows)
  const gram = gaussianKernel(landmarks, landmarks, bandwidth)
  if (embedding.kind === 'nystrom') {
    const projection = nystromProjection(gram, d)
    return { embedding: { kind: 'nystrom', bandwidth, landmarks, projection }, landmarkRows }
  }
  const z = drawSketch(effectiveRank(gram, d), landmarks.rows, rng.fork('sketch'))
  const projection = kjlProjection(gram, z, embedding.centre)
  return { embedding: { kind: 'kjl', bandwidth, landmarks, projection }, landmarkRows }
}

/** φ′ of all (scaled) rows in float64: n × d. */
export function embedRows(embedding: EmbeddingModel, rows: Matrix): Matrix {
  const kernel = createEmbeddingKernel(embedding, { precision: 'f64' })
  const d = kernel.dimensions
  const out = createMatrix(rows.rows, d)
  for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
    const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
    kernel.embed(rows.data, i * rows.cols, count, out.data, i * d)
  }
  return out
}

// ---- precision

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

// ---- check

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
