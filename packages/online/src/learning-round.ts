/**
 * The end of a round: all steps that do not run at each arrival.
 *
 *     1. landmarks       new ones when due; the mixture is carried into the new embedding
 *     2. new components  for the novel rows to learn ("Online GMM" of the paper's source)
 *     3. convergence     over the reservoir and the base
 *     4. fewer           dead components are removed
 *     5. guard tables    of the support guard, from kept and earlier rows
 *     6. threshold       from the rows kept for it
 *     7. poisoning       the round is refused if known-novel rows pass or known-normal rows do not
 */
import type { Matrix, Rng } from '@oddflow/core'
import { calibrateThreshold, type EmbeddedMixtureModel, type Threshold } from '@oddflow/detectors'
import {
  blendedTailTable,
  type KeptRows,
  nearestLandmarks,
  passingScore,
  shareThatIs,
  supportsOf,
  updatedReaches,
} from './guard-update.js'
import type { LearningWork } from './learning-work.js'
import { convergeMixture, copyStatistics, totalMass } from './mixture-statistics.js'
import { type ComponentCounts, learnPending, removeDead } from './round-components.js'
import { type SketchChange, updateSketch } from './round-sketch.js'

/**
 * A threshold for a model that learns the rows it accepts. Recalibrating on accepted rows alone would raise the
 * threshold like a ratchet, so a share of the arrivals is kept from learning before scoring. Those above the threshold
 * calibrate it, with the most normal of those below: fpr/(1 − fpr) for each row above, as many as false alarms are
 * expected.
 */

/** Number of expected false alarms for `passed` rows found normal. */
export function presumedFalseAlarms(passed: number, falsePositiveRate: number): number {
  return Math.round((passed * falsePositiveRate) / (1 - falsePositiveRate))
}

/**
 * `passed` and `doubtful` are the present scores of kept rows that were found normal and novel. null while there are
 * too few to promise the rate: the old threshold stays.
 */
export function recalibrated(
  threshold: Threshold,
  passed: Float64Array,
  doubtful: Float64Array,
  leastRows: number,
): Threshold | null {
  const { falsePositiveRate } = threshold
  const alarms = Math.min(doubtful.length, presumedFalseAlarms(passed.length, falsePositiveRate))
  if (passed.length + alarms < leastRows) return null
  const scores = new Float64Array(passed.length + alarms)
  scores.set(passed)
  scores.set(
    doubtful
      .slice()
      .sort()
      .subarray(doubtful.length - alarms),
    passed.length,
  )
  return calibrateThreshold(scores, falsePositiveRate)
}

/**
 * The tables of a round: support guard and threshold follow the new model. The guard's tables come from kept and
 * earlier rows (guard-update.ts), the threshold from the rows kept for it.
 */

function updateGuardTables(work: LearningWork): void {
  const { model, frozen } = work
  if (!('supportGuard' in model) || model.supportGuard === null) return
  const first = (frozen.detector as EmbeddedMixtureModel).supportGuard!
  const { count, data, numbers } = work.reservoir
  let sum = 0
  for (let i = 0; i < count; i++) sum += numbers[i]!
  // the rows that the reservoir represents, per row in it
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
 * The threshold from the kept rows, once there are enough. Unless all rows were stated to be normal, a threshold that
 * lets more known-novel rows pass than the old one, beyond the bound, is not used.
 */
function updateThreshold(work: LearningWork): void {
  const { calibration, doubtful, frozen, options } = work
  const first: Threshold['calibration'] = frozen.threshold.calibration
  const least = Math.max(first.rowsNeeded, Math.min(first.rows, options.calibrationRows))
  const scoresOf = (rows: LearningWork['calibration']) => work.scored(rows.data, rows.count).scores
  const threshold = recalibrated(work.threshold, scoresOf(calibration), scoresOf(doubtful), least)
  if (threshold === null) return
  if (options.guard !== null && !work.roundAssumed) {
    const novel = work.scored(work.knownNovel.data, work.knownNovel.rows).scores
    const more = shareThatIs(true, novel, threshold.value) - shareThatIs(true, novel, work.threshold.value)
    if (more > options.guard.maximumNoveltyLoss) return
  }
  work.threshold = threshold
}

/** What a round of an update did to the model. */
export interface RoundReport {
  readonly round: number
  readonly emSteps: number
  readonly converged: boolean
  readonly components: number
  readonly componentsAdded: number
  readonly componentsRemoved: number
  readonly componentsMerged: number
  readonly sketch: SketchChange
  /** m; 0 without an embedding. */
  readonly landmarks: number
  readonly bandwidth: number | null
  readonly threshold: number
  /** Share of the known-novel rows found normal, and of the known-normal rows found novel; 0 after an overflow. */
  readonly noveltyLoss: number
  readonly falsePositiveRise: number
  /** Whether it is undone, … */
  readonly refused: boolean
  /** The reason: the guard's, or an overflow; null if the round was accepted. */
  readonly reason: 'guard' | 'overflow' | null
}

/** Runs all steps except undoing; changes `work`. */
export function endRound(work: LearningWork, rng: Rng): RoundReport {
  const { counters, options } = work
  const counts: ComponentCounts = { added: 0, removed: 0, merged: 0 }
  const round = counters.rounds + 1
  let sketch: SketchChange = 'kept'
  let added = 0
  let convergence = { steps: 0, converged: false }
  const taught = work.roundLearnt + work.pending.count
  work.attempt(() => {
    sketch = updateSketch(work, round, rng)
    added = learnPending(work, counts, rng)
    convergence = convergeRound(work)
    removeDead(work, counts)
    updateGuardTables(work)
    updateThreshold(work)
  })
  const { steps, converged } = convergence
  counters.rounds = round
  // all rows to learn in an undone round count as refused
  counters.learnt += work.overflowed ? taught : work.roundLearnt
  counters.componentsAdded += counts.added
  counters.componentsRemoved += counts.removed
  counters.componentsMerged += counts.merged
  if ((sketch as SketchChange) !== 'kept') counters.sketchUpdates++
  work.roundArrivals = 0
  work.roundAssumed = true
  work.roundLearnt = 0
  const { noveltyLoss, falsePositiveRise } = work.overflowed
    ? { noveltyLoss: 0, falsePositiveRise: 0 }
    : knownShares(work)
  const { guard } = options
  const embedding = 'embedding' in work.model ? work.model.embedding : null
  const isAgainst =
    guard !== null &&
    (noveltyLoss > guard.maximumNoveltyLoss || falsePositiveRise > guard.maximumFalsePositiveRise)
  const reason = work.overflowed ? 'overflow' : isAgainst ? 'guard' : null
  return {
    round,
    emSteps: steps,
    converged,
    components: work.mixture.weights.length,
    componentsAdded: added,
    componentsRemoved: counts.removed,
    componentsMerged: counts.merged,
    sketch,
    landmarks: embedding?.landmarks.rows ?? 0,
    bandwidth: embedding?.bandwidth ?? null,
    threshold: work.threshold.value,
    noveltyLoss,
    falsePositiveRise,
    refused: reason !== null,
    reason,
  }
}

/**
 * EM to convergence: once a round (Method 1), also after each arrival (Method 2). Throws StatisticsError and leaves
 * `work` unchanged.
 */
export function convergeRound(work: LearningWork): { readonly steps: number; readonly converged: boolean } {
  const { model, regularisation } = work
  const em = 'embedding' in model ? model.parameters.em : model.parameters
  const { tolerance, maximumSteps } = em
  const { mixture, statistics, steps, converged } = convergeMixture(
    work.mixture,
    work.base,
    work.keptPoints,
    {
      tolerance,
      maximumSteps,
      regularisation,
    },
  )
  work.statistics = copyStatistics(statistics)
  work.mixture = mixture
  return { steps, converged }
}

function knownShares(work: LearningWork): Pick<RoundReport, 'noveltyLoss' | 'falsePositiveRise'> {
  const normal = knownScores(work, work.knownNormal)
  return {
    noveltyLoss: shareThatIs(true, knownScores(work, work.knownNovel), passingScore(normal)),
    falsePositiveRise: shareThatIs(false, normal, work.threshold.value),
  }
}

function knownScores(work: LearningWork, rows: Matrix): Float64Array {
  return work.scored(rows.data, rows.rows).scores
}
