/**
 * The tables in a round: support guard and threshold follow the model that the round has made.
 *
 * The guard's tables are of what is kept and what was there before (guard-update.ts), the threshold of the rows held back
 * (threshold-update.ts).
 */
import type { EmbeddedMixtureModel } from '../model.js'
import type { Threshold } from '../threshold.js'
import {
  blendedTailTable,
  type KeptRows,
  nearestLandmarks,
  supportsOf,
  updatedReaches,
} from './guard-update.js'
import type { LearningWork } from './learning-work.js'
import { totalMass } from './mixture-statistics.js'
import { shareThatIs } from './poisoning-guard.js'
import { recalibrated } from './threshold-update.js'

export function updateGuardTables(work: LearningWork): void {
  const { model, frozen } = work
  if (!('supportGuard' in model) || model.supportGuard === null) return
  const first = (frozen.detector as EmbeddedMixtureModel).supportGuard!
  const { count, data, numbers } = work.reservoir
  let sum = 0
  for (let i = 0; i < count; i++) sum += numbers[i]!
  // what the reservoir is a sample of, over what is in it
  const each = Math.max(0, totalMass(work.statistics) - work.unseenRows) / sum
  const weights = numbers.slice(0, count).map((number) => number * each)
  const kept: KeptRows = { count, rows: data, weights }
  const { landmarks, bandwidth } = model.embedding
  const update = { start: first, origins: work.origins, unseen: work.unseenRows, shift: work.densityShift }
  const nearest = nearestLandmarks(landmarks, kept)
  const squaredReaches = updatedReaches(landmarks.rows, nearest, weights, update, bandwidth)
  const densities = work.keptDensities()
  const supports = supportsOf(nearest, squaredReaches)
  work.replaceModel({
    ...model,
    supportGuard: {
      squaredReaches,
      density: blendedTailTable(first.density, work.unseenRows, work.densityShift, densities, weights),
      support: blendedTailTable(first.support, work.unseenRows, 0, supports, weights),
    },
  })
}

/**
 * The threshold of the rows held back, once there are enough. Where rows come without anybody's word for them, one that
 * lets more of the known-novel rows pass than the old one did, by more than the bound, is not taken.
 */
export function updateThreshold(work: LearningWork): void {
  const { calibration, doubtful, frozen, options } = work
  const first: Threshold['calibration'] = frozen.threshold.calibration
  const least = Math.max(first.rowsNeeded, Math.min(first.rows, options.calibrationRows))
  const scoresOf = (rows: LearningWork['calibration']) => work.scored(rows.data, rows.count).scores
  const threshold = recalibrated(work.threshold, scoresOf(calibration), scoresOf(doubtful), least)
  if (threshold === null) return
  if (options.guard !== null && !work.roundAssumed) {
    const novel = work.scored(work.knownNovel.data, work.knownNovel.rows).scores
    const more = shareThatIs(true, novel, threshold.value) - shareThatIs(true, novel, work.threshold.value)
    if (more > options.guard.lifted) return
  }
  work.threshold = threshold
}
