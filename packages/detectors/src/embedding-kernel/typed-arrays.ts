/** EmbeddingKernel on typed arrays: the path of machines without SIMD, and what its bits are held against. */
import {
  exponentFactor,
  gaussianKernelRows,
  gaussianKernelRowsFloat32,
  logSumExp,
  matrixTimesVector,
  type NearestDistances,
  nearestOfRows,
  squaredDistances,
  toFloat32Into,
} from '@oddflow/linalg'
import type { EmbeddingModel } from '../model.js'
import { componentLogDensitiesInto, packMixture } from '../packed-mixture.js'
import {
  EMBEDDING_TILE_ROWS,
  type EmbeddingKernel,
  type EmbeddingKernelOptions,
  refuseDensities,
} from './embedding-kernel.js'

export function createTypedEmbeddingKernel(
  { landmarks, projection, bandwidth }: EmbeddingModel,
  { precision, mixture, nearestWeights }: EmbeddingKernelOptions,
): EmbeddingKernel {
  const { rows: m, cols } = landmarks
  const d = projection.rows
  const factor = exponentFactor(bandwidth, precision)
  const kernelRows = new Float64Array(EMBEDDING_TILE_ROWS * m)
  const nearestValues = new Float64Array(EMBEDDING_TILE_ROWS)
  const nearestDistances: NearestDistances | undefined =
    nearestWeights === undefined ? undefined : { weights: nearestWeights, values: nearestValues }
  const squares = new Float64Array(precision === 'f32' ? EMBEDDING_TILE_ROWS * m : 0)
  const single =
    precision === 'f64'
      ? null
      : {
          landmarks: Float32Array.from(landmarks.data),
          rows: new Float32Array(EMBEDDING_TILE_ROWS * cols),
          distances: new Float32Array(m),
        }
  const embed: EmbeddingKernel['embed'] = (rows, start, count, out, outStart, nearest) => {
    const wanted = nearest === undefined ? undefined : nearestDistances
    if (single === null) {
      gaussianKernelRows(rows, start, count, landmarks.data, 0, m, cols, factor, kernelRows, wanted)
    } else {
      toFloat32Into(rows, start, count * cols, single.rows, 0)
      gaussianKernelRowsFloat32(
        single.rows,
        count,
        single.landmarks,
        0,
        m,
        cols,
        factor,
        single.distances,
        kernelRows,
      )
      if (wanted !== undefined) {
        for (let r = 0; r < count; r++) {
          squaredDistances(rows, start + r * cols, landmarks.data, 0, m, cols, squares, r * m)
        }
        nearestOfRows(squares, count, m, wanted)
      }
    }
    if (nearest !== undefined) for (let r = 0; r < count; r++) nearest[r] = nearestValues[r]!
    for (let r = 0; r < count; r++) {
      matrixTimesVector(projection.data, d, m, kernelRows, r * m, out, outStart + r * d)
    }
  }
  if (mixture === undefined) return { dimensions: d, embed, logDensities: refuseDensities }
  const packed = packMixture(mixture)
  const embedded = new Float64Array(EMBEDDING_TILE_ROWS * d)
  const terms = new Float64Array(packed.k)
  return {
    dimensions: d,
    embed,
    logDensities(rows, start, count, out, outStart, nearest) {
      embed(rows, start, count, embedded, 0, nearest)
      for (let r = 0; r < count; r++) {
        componentLogDensitiesInto(packed, embedded, r * d, terms, 0)
        out[outStart + r] = logSumExp(terms, 0, packed.k)
      }
    },
  }
}
