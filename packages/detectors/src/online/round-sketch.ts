/**
 * The sketch in a round: whether its landmarks change, to which, and what has to follow.
 *
 * It is time when enough novel rows are to be learnt, when what was learnt as normal has moved away from the landmarks
 * (moved-rows.ts), or so many rounds have passed. Then the sketch grows up to its cap, or landmarks give way
 * (sketch-update.ts), the bandwidth is taken anew where that is wanted, and all that is in coordinates of the embedding
 * is carried over: mixture and statistics (carry-mixture.ts), the reservoir's points, and what is compared with
 * log-densities.
 */
import { type Rng, takeRows } from '@oddflow/core'
import { exponentFactor, pairDistanceQuantiles } from '@oddflow/linalg'
import type { EmbeddedMixtureModel, EmbeddingModel, SupportGuardModel } from '../model.js'
import { carryMixture } from './carry-mixture.js'
import type { LearningWork } from './learning-work.js'
import { copyStatistics, mixtureOfStatistics, scaleStatistics, totalMass } from './mixture-statistics.js'
import { rowsHaveMoved } from './moved-rows.js'
import { newLandmarks } from './new-landmarks.js'
import { growSketch, replaceLandmarks, type SketchUpdate, withBandwidth } from './sketch-update.js'

export type SketchChange = 'kept' | 'grown' | 'replaced'

/** What became of the landmarks in the round of that number; `work` is changed. */
export function updateSketch(work: LearningWork, round: number, rng: Rng): SketchChange {
  const { sketch, options, model } = work
  const policy = options.sketch
  if (sketch === null || policy.kind === 'keep' || !('embedding' in model)) return 'kept'
  const isTime = policy.everyRounds !== null && round % policy.everyRounds === 0
  if (work.pending.count < policy.rows && !isTime && !rowsHaveMoved(work)) return 'kept'
  const rows = newLandmarks(work, policy.rows, rng)
  if (rows.rows === 0) return 'kept'
  const frozen = work.frozen.detector as EmbeddedMixtureModel
  const { d, embedding: kind } = frozen.parameters
  const m = sketch.embedding.landmarks.rows
  const most = policy.kind === 'grow' ? (policy.maximumLandmarks ?? 2 * frozen.embedding.landmarks.rows) : m
  const grows = m + rows.rows <= most
  const draw = rng.fork('landmarks')
  const some = grows
    ? rows
    : takeRows(
        rows,
        Array.from({ length: Math.min(m, rows.rows) }, (_, i) => i),
      )
  let update: SketchUpdate = grows
    ? growSketch(sketch, kind, some, d, draw)
    : replaceLandmarks(sketch, kind, some, d, draw)
  if (options.bandwidth === 're-estimate') {
    const bandwidth = newBandwidth(work, frozen, draw)
    if (bandwidth !== null) {
      update = { ...update, sketch: withBandwidth(update.sketch, kind, bandwidth, d) }
    }
  }
  const { embedding } = update.sketch
  work.origins = update.origins.map((before) => (before < 0 ? -1 : work.origins[before]!))
  work.sketch = update.sketch
  work.fresh.filter(() => false)
  carryInto(work, model, embedding, frozen)
  return grows ? 'grown' : 'replaced'
}

/** The quantile of pair distances that the fit took, over the rows kept now, where it has moved by over a tenth. */
function newBandwidth(work: LearningWork, frozen: EmbeddedMixtureModel, rng: Rng): number | null {
  const { rows } = work.reservoir.entries()
  work.locateReservoir()
  if (rows.rows < 2) return null
  const { quantiles } = pairDistanceQuantiles(
    rows,
    [frozen.parameters.bandwidthQuantile],
    rng.fork('bandwidth'),
  )
  const bandwidth = quantiles[0]!
  const old = work.sketch!.embedding.bandwidth
  try {
    exponentFactor(bandwidth, frozen.parameters.precision)
  } catch {
    // no kernel can be made of it
    return null
  }
  return Math.abs(bandwidth - old) > 0.1 * old ? bandwidth : null
}

/** Embedding, mixture, statistics and the reservoir's points in the new coordinates. */
function carryInto(
  work: LearningWork,
  model: EmbeddedMixtureModel,
  embedding: EmbeddingModel,
  frozen: EmbeddedMixtureModel,
): void {
  const { weights } = work.keptPoints
  const count = work.reservoir.count
  const before = { count, weights, points: work.reservoirPoints.slice() }
  const densitiesBefore = work.keptDensities()
  const { mixture } = work
  const m = embedding.landmarks.rows
  const d = embedding.projection.rows
  // the guard's tables come later in the round; until then a new landmark has the mean reach of the others
  const supportGuard = model.supportGuard === null ? null : withReaches(model.supportGuard, m)
  work.replaceModel({
    ...model,
    embedding,
    supportGuard,
    parameters: { ...model.parameters, m: Math.max(model.parameters.m, m) },
    fitReport: { ...model.fitReport, landmarks: m, embeddingDimension: d },
  })
  work.locateReservoir()
  const outside = totalMass(work.base) / totalMass(work.statistics)
  work.statistics = carryMixture(mixture, work.statistics, before, work.keptPoints, d)
  work.base = copyStatistics(work.statistics)
  scaleStatistics(work.base, Math.min(1, outside))
  work.mixture = mixtureOfStatistics(work.statistics, frozen.fitReport.regularisation)
  moveDensities(work, median(work.keptDensities()) - median(densitiesBefore))
}

function withReaches(guard: SupportGuardModel, m: number): SupportGuardModel {
  const old = guard.squaredReaches
  const mean = old.reduce((sum, reach) => sum + reach / old.length, 0)
  return { ...guard, squaredReaches: Float64Array.from({ length: m }, (_, j) => old[j] ?? mean) }
}

/** Another embedding has other units: what is compared with log-densities moves with them. */
function moveDensities(work: LearningWork, shift: number): void {
  if (!Number.isFinite(shift)) return
  work.densityShift += shift
  if ('supportGuard' in work.model && work.model.supportGuard !== null) return
  work.threshold = { ...work.threshold, value: work.threshold.value + shift }
}

function median(values: Float64Array): number {
  if (values.length === 0) return 0
  return values.slice().sort()[values.length >> 1]!
}
