/**
 * The components in a round: those that come for what waits, and those that go.
 *
 * The loop is the paper source's "Online GMM": a component for one row (new-component.ts), the threshold, and the rows
 * that pass by it are learnt as all others are; until none is left. There is a cap, which the text has not: at it a
 * dead component goes, or the two that differ least become one (fewer-components.ts).
 */
import { type Matrix, matrixOf, type Rng, takeRows } from '@oddflow/core'
import { mixtureOfModel } from './begin-learning.js'
import { cheapestMerge, livingComponents, mergeComponents } from './fewer-components.js'
import { learn, replaceInReservoir } from './learn-arrivals.js'
import type { LearningModel } from './learned-state.js'
import type { LearningWork } from './learning-work.js'
import { mixtureOfStatistics, takeComponents, withComponent } from './mixture-statistics.js'
import { addNewComponent } from './new-component.js'

export interface ComponentCounts {
  added: number
  removed: number
  merged: number
}

/**
 * Learns what waits. The threshold between components is the text's, the quantile of the stored densities. Returns how
 * many came.
 */
export function learnPending(work: LearningWork, counts: ComponentCounts, rng: Rng): number {
  let waiting = work.pending.entries().rows
  work.pending.filter(() => false)
  let added = 0
  const draw = rng.fork('pending')
  while (waiting.rows > 0) {
    const threshold = densityThreshold(work)
    const { points, densities } = work.scored(waiting.data, waiting.rows)
    const all = Array.from(densities.keys())
    const isLast = added === work.options.maximumComponents
    const passing = all.filter((i) => isLast || densities[i]! > threshold)
    learn(work, waiting.data, points, passing, draw)
    const rest = all.filter((i) => !passing.includes(i))
    if (rest.length === 0) break
    addComponentFor(work, waiting, rest[0]!, counts, draw)
    added++
    waiting = takeRows(waiting, rest.slice(1))
  }
  counts.added += added
  return added
}

/** The quantile at the tolerated false-positive rate of the kept rows' log-densities. */
function densityThreshold(work: LearningWork): number {
  const densities = work.keptDensities().sort()
  if (densities.length === 0) return Number.NEGATIVE_INFINITY
  return densities[Math.floor(work.threshold.falsePositiveRate * (densities.length - 1))]!
}

function addComponentFor(
  work: LearningWork,
  rows: Matrix,
  row: number,
  counts: ComponentCounts,
  rng: Rng,
): void {
  const { regularisation, options } = work
  const k = work.mixture.weights.length
  if (k >= Math.max(options.maximumComponents, work.frozen.detector.mixture.weights.length)) {
    makeRoom(work, counts)
  }
  const { width, d } = work.space
  const single = matrixOf(1, width, rows.data.slice(row * width, (row + 1) * width))
  const { points } = work.scored(single.data, 1)
  const { statistics } = addNewComponent(work.mixture, work.statistics, points, 0)
  work.statistics = statistics
  // the base knows of the component too; its row is in the reservoir, so it has no mass there
  work.base = withComponent(work.base, 0, points.slice(0, d), 0)
  // the last component is not in the mixture yet, so whatever leaves goes to the others
  if (work.reservoir.next < 0) {
    work.setReservoirPoint(work.reservoir.push(single.data, 0, 1), points, 0)
  } else {
    replaceInReservoir(work, rng.nextBelow(work.reservoir.count), single.data, 0, points, 0)
  }
  work.reservoirSeen++
  work.roundLearnt++
  setMixture(work, mixtureOfStatistics(work.statistics, regularisation))
}

/** One component fewer: a dead one, or the two that differ least made one. */
function makeRoom(work: LearningWork, counts: ComponentCounts): void {
  if (removeDead(work, counts) > 0) return
  const pair = cheapestMerge(work.statistics, work.regularisation)
  if (pair === null) return
  work.statistics = mergeComponents(work.statistics, pair.i, pair.j)
  work.base = mergeComponents(work.base, pair.i, pair.j)
  counts.merged++
  setMixture(work, mixtureOfStatistics(work.statistics, work.regularisation))
}

/** Takes out the components that forgetting or others have starved; returns how many. */
export function removeDead(work: LearningWork, counts: ComponentCounts): number {
  const living = livingComponents(work.statistics)
  const dead = work.statistics.masses.length - living.length
  if (dead === 0) return 0
  work.statistics = takeComponents(work.statistics, living)
  work.base = takeComponents(work.base, living)
  counts.removed += dead
  setMixture(work, mixtureOfStatistics(work.statistics, work.regularisation))
  return dead
}

/** A mixture of another number of components; the parameters say how many there may be. */
function setMixture(work: LearningWork, mixture: LearningWork['mixture']): void {
  const k = mixture.weights.length
  const { model } = work
  if (mixtureOfModel(model).weights.length !== k) work.replaceModel(allowComponents(model, k))
  work.mixture = mixture
}

function allowComponents(model: LearningModel, k: number): LearningModel {
  if (!('embedding' in model)) {
    return { ...model, parameters: { ...model.parameters, k: Math.max(model.parameters.k, k) } }
  }
  const { start } = model.parameters
  const more =
    start.kind === 'k-means++'
      ? { ...start, k: Math.max(start.k, k) }
      : { ...start, maximumClusters: Math.max(start.maximumClusters, k) }
  return { ...model, parameters: { ...model.parameters, start: more } }
}
