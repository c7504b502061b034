/**
 * Scores of an embedded mixture: with a support guard the sum of two logarithms of tail probabilities
 * (support-guard.ts), without one the mixture's log-density.
 *
 * For each row: scale, kernel row over the landmarks, projection, component densities, log-sum-exp, guard, each a
 * pass of its own. Numbers so large that their squared distances overflow are far from every landmark: their
 * kernel row is 0, and their support is −Infinity, for which the guard has a number.
 */
import { kernelExponentFactor, logSumExp, type NearestDistances } from '@oddflow/linalg'
import { EMBEDDING_TILE_ROWS } from '../embedding.js'
import type { EmbeddedMixtureModel } from '../model.js'
import { componentLogDensitiesInto, packMixture } from '../packed-mixture.js'
import type { Scorer } from '../scorer.js'
import { createSupportGuard } from '../support-guard.js'
import { logTail } from '../tail-probability.js'
import { createEmbedder, embedAll } from './embedded.js'

export function createEmbeddedMixtureScorer(model: EmbeddedMixtureModel): Scorer {
  const embedder = createEmbedder(model.scaler, model.embedding)
  const guard = model.supportGuard === null ? null : createSupportGuard(model.supportGuard)
  const mixture = packMixture(model.mixture)
  const { k, d } = mixture
  const embedded = new Float64Array(EMBEDDING_TILE_ROWS * d)
  const terms = new Float64Array(k)
  const { bandwidth, landmarks } = model.embedding
  const nearest: NearestDistances = {
    weights: guard?.weights ?? new Float64Array(landmarks.rows).fill(-kernelExponentFactor(bandwidth)),
    values: new Float64Array(EMBEDDING_TILE_ROWS),
  }
  const logDensityOf = (r: number): number => {
    componentLogDensitiesInto(mixture, embedded, r * d, terms, 0)
    return logSumExp(terms, 0, k)
  }
  return {
    score(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        embedder.tile(rows, i, count, embedded, 0, guard === null ? undefined : nearest)
        for (let r = 0; r < count; r++) {
          const logDensity = logDensityOf(r)
          out[i + r] =
            guard === null
              ? logDensity
              : logTail(guard.density, logDensity) + logTail(guard.support, -nearest.values[r]!)
        }
      }
    },
    embed(rows, out) {
      embedAll(embedder, rows, out)
    },
    parts(rows, out) {
      for (let i = 0; i < rows.rows; i += EMBEDDING_TILE_ROWS) {
        const count = Math.min(EMBEDDING_TILE_ROWS, rows.rows - i)
        embedder.tile(rows, i, count, embedded, 0, nearest)
        for (let r = 0; r < count; r++) {
          const logDensity = logDensityOf(r)
          const support = -nearest.values[r]!
          out.logDensity[i + r] = logDensity
          out.support[i + r] = support
          out.densityTerm[i + r] = guard === null ? logDensity : logTail(guard.density, logDensity)
          out.supportTerm[i + r] = guard === null ? 0 : logTail(guard.support, support)
        }
      }
    },
  }
}
