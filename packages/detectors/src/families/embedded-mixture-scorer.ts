/**
 * Scores of an embedded mixture: with a support guard the sum of two logarithms of tail probabilities
 * (support-guard.ts), without one the mixture's log-density.
 *
 * For each tile of rows: scale, kernel rows over the landmarks, projection, component densities, log-sum-exp,
 * guard, each a pass of its own. Numbers so large that their squared distances overflow are far from every
 * landmark: their kernel row is 0, and their support is −Infinity, for which the guard has a number.
 */
import { exponentFactor } from '@oddflow/linalg'
import { EMBEDDING_TILE_ROWS } from '../embedding-kernel/embedding-kernel.js'
import type { EmbeddedMixtureModel } from '../model.js'
import type { Scorer, ScorerOptions } from '../scorer.js'
import { createSupportGuard } from '../support-guard.js'
import { logTail } from '../tail-probability.js'
import { createEmbedder, embedAll } from './embedded.js'

export function createEmbeddedMixtureScorer(
  { scaler, embedding, mixture, supportGuard, parameters }: EmbeddedMixtureModel,
  { simd }: ScorerOptions,
): Scorer {
  const { precision } = parameters
  const { bandwidth, landmarks } = embedding
  const guard = supportGuard === null ? null : createSupportGuard(supportGuard)
  const nearestWeights =
    guard?.weights ?? new Float64Array(landmarks.rows).fill(-exponentFactor(bandwidth, precision))
  const embedder = createEmbedder(scaler, embedding, { precision, mixture, nearestWeights, simd })
  const logDensities = new Float64Array(EMBEDDING_TILE_ROWS)
  const nearest = new Float64Array(EMBEDDING_TILE_ROWS)
  return {
    score(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        if (guard === null) {
          embedder.logDensities(rows, i, count, out, i)
          continue
        }
        embedder.logDensities(rows, i, count, logDensities, 0, nearest)
        for (let r = 0; r < count; r++) {
          out[i + r] = logTail(guard.density, logDensities[r]!) + logTail(guard.support, -nearest[r]!)
        }
      }
    },
    embed(rows, out) {
      embedAll(embedder, rows, out)
    },
    parts(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        embedder.logDensities(rows, i, count, logDensities, 0, nearest)
        for (let r = 0; r < count; r++) {
          const logDensity = logDensities[r]!
          const support = -nearest[r]!
          out.unguarded[i + r] = logDensity
          out.support[i + r] = support
          out.densityTerm[i + r] = guard === null ? logDensity : logTail(guard.density, logDensity)
          out.supportTerm[i + r] = guard === null ? 0 : logTail(guard.support, support)
        }
      }
    },
  }
}
