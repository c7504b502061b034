/**
 * Embedding: x → φ′(x) = P·K(x) in d dimensions, by KJL or Nyström over m landmarks.
 *
 * Landmarks are training rows (landmarks.ts). Where rows repeat, so may those that are drawn at random, and their gram
 * matrix has null directions: d is lowered to its effective rank, so that none of them becomes a dimension. Nyström would
 * divide by the root of an eigenvalue that is rounding, KJL sketch the same few directions twice.
 */
import { createMatrix, type Matrix, type Rng, takeRows } from '@oddflow/core'
import { gaussianKernel } from '@oddflow/linalg'
import { effectiveRank } from './effective-rank.js'
import { createEmbeddingKernel } from './embedding-kernel/create.js'
import { EMBEDDING_TILE_ROWS } from './embedding-kernel/embedding-kernel.js'
import { drawSketch, kjlProjection } from './kjl.js'
import { chooseLandmarks } from './landmarks.js'
import type { EmbeddingModel } from './model.js'
import { nystromProjection } from './nystrom.js'
import type { EmbeddingParameters, LandmarkChoice } from './parameters.js'

/** `rows` are scaled, n × D; `landmarkRows` are the numbers of those that became landmarks. Draws from the forks `landmarks` and `sketch` of `rng`. */
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
