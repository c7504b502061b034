/**
 * PointSpace: from scaled rows to the points that a mixture is over, and back to scores.
 *
 * For an embedded mixture a point is φ′(x), and the support of x comes with it; for `gmm` it is the row itself. Scores
 * are the detector's own, bit for bit, put together from parts that change at different times: mixtures with each
 * arrival, embedding and guard with a round.
 */
import { logSumExp, type Precision } from '@oddflow/linalg'
import { createEmbeddingKernel } from '../embedding-kernel/create.js'
import { EMBEDDING_TILE_ROWS } from '../embedding-kernel/embedding-kernel.js'
import type { EmbeddingModel, SupportGuardModel } from '../model.js'
import { createSupportGuard, type SupportGuard } from '../support-guard.js'
import { logTail } from '../tail-probability.js'
import type { MixtureEvaluator } from './mixture-evaluator.js'

export interface PointSpace {
  /** Numbers of a point. */
  readonly d: number
  /** Numbers of a row. */
  readonly width: number
  /** Points of `count` scaled rows from `start` on, to `out` at `outStart`; `supports[i]` where there is a guard. */
  locate(
    rows: Float64Array,
    start: number,
    count: number,
    out: Float64Array,
    outStart: number,
    supports?: Float64Array,
  ): void
}

export function createPointSpace(
  width: number,
  embedding: EmbeddingModel | null,
  guard: SupportGuardModel | null,
  precision: Precision = 'f64',
): PointSpace {
  if (embedding === null) {
    return {
      d: width,
      width,
      locate(rows, start, count, out, outStart) {
        for (let i = 0; i < count * width; i++) out[outStart + i] = rows[start + i]!
      },
    }
  }
  // typed arrays: a kernel is made anew with each change of landmarks, and memories of WebAssembly are not for that
  const kernel = createEmbeddingKernel(embedding, {
    precision,
    simd: false,
    ...(guard === null ? {} : { nearestWeights: createSupportGuard(guard).weights }),
  })
  const d = kernel.dimensions
  const nearest = new Float64Array(EMBEDDING_TILE_ROWS)
  return {
    d,
    width,
    locate(rows, start, count, out, outStart, supports) {
      const wanted = guard === null || supports === undefined ? undefined : nearest
      for (let i = 0; i < count; i += EMBEDDING_TILE_ROWS) {
        const some = Math.min(EMBEDDING_TILE_ROWS, count - i)
        kernel.embed(rows, start + i * width, some, out, outStart + i * d, wanted)
        if (wanted === undefined || supports === undefined) continue
        for (let r = 0; r < some; r++) supports[i + r] = -wanted[r]!
      }
    },
  }
}

/** Scores of points and supports; `densities`, where given, is filled with the log-densities behind them. */
export type PointScorer = (
  points: Float64Array,
  supports: Float64Array,
  count: number,
  out: Float64Array,
  densities?: Float64Array,
) => void

/** For one caller at a time; `d` numbers are a point. The guard's part stays when the mixture changes. */
export function createPointScorer(
  evaluator: MixtureEvaluator,
  d: number,
  guard: SupportGuard | null,
): PointScorer {
  const terms = new Float64Array(evaluator.k)
  return (points, supports, count, out, densities) => {
    for (let i = 0; i < count; i++) {
      evaluator.terms(points, i * d, terms, 0)
      const density = logSumExp(terms, 0, evaluator.k)
      if (densities !== undefined) densities[i] = density
      const score =
        guard === null ? density : logTail(guard.density, density) + logTail(guard.support, supports[i]!)
      // as scorers of plain rows have it: finite, however far away
      out[i] = Math.max(score, -Number.MAX_VALUE)
    }
  }
}
