/**
 * The end of a round: everything that is not done for each arrival.
 *
 *     1. landmarks       new ones where it is time, the mixture carried into the new embedding
 *     2. new components  for the novel rows that are to be learnt (the paper source's "Online GMM")
 *     3. convergence     over the reservoir and the base
 *     4. fewer           dead components removed
 *     5. guard tables    of the support guard, over what is kept and what was before
 *     6. threshold       from the rows held back
 *     7. poisoning       refused when known-novel rows pass, or known-normal ones no longer do
 *
 * In the text's loop a round is a batch, its reservoir has every row, and its threshold is a quantile of stored
 * densities; those are used here in step 2, which wants a threshold of its own between components.
 */
import { type Matrix, matrixOf, type Rng, shuffleInPlace, takeRows } from '@oddflow/core'
import {
  exponentFactor,
  LARGEST_FLOAT32,
  type Precision,
  pairDistanceQuantiles,
  squaredDistance,
} from '@oddflow/linalg'
import type { EmbeddedMixtureModel, EmbeddingModel, SupportGuardModel } from '../model.js'
import type { Threshold } from '../threshold.js'
import { mixtureOfModel } from './begin-learning.js'
import { carryMixture } from './carry-mixture.js'
import { cheapestMerge, livingComponents, mergeComponents } from './fewer-components.js'
import { blendedTailTable, type KeptRows, supportsOf, updatedReaches } from './guard-update.js'
import { convergeMixture } from './incremental-em.js'
import { learn, replaceInReservoir } from './learn-arrivals.js'
import type { LearningModel } from './learned-state.js'
import type { LearningWork } from './learning-work.js'
import {
  copyStatistics,
  mixtureOfStatistics,
  scaleStatistics,
  takeComponents,
  totalMass,
  withComponent,
} from './mixture-statistics.js'
import { addNewComponent } from './new-component.js'
import { passingScore, shareThatIs } from './poisoning-guard.js'
import { growSketch, replaceLandmarks, type SketchUpdate, withBandwidth } from './sketch-update.js'
import { recalibrated } from './threshold-update.js'

export interface RoundReport {
  readonly round: number
  readonly emSteps: number
  readonly converged: boolean
  readonly components: number
  readonly componentsAdded: number
  readonly componentsRemoved: number
  readonly componentsMerged: number
  readonly sketch: 'kept' | 'grown' | 'replaced'
  /** m; 0 without an embedding. */
  readonly landmarks: number
  readonly bandwidth: number | null
  readonly threshold: number
  /** Share of the known-novel rows that pass for normal, and of the known-normal ones that pass for novel. */
  readonly lifted: number
  readonly moved: number
  /** Whether the guard had it undone. */
  readonly refused: boolean
}

interface ComponentCounts {
  added: number
  removed: number
  merged: number
}

/** Everything but what the guard says; `work` is changed. */
export function endRound(work: LearningWork, rng: Rng): RoundReport {
  const { counters, options } = work
  const counts: ComponentCounts = { added: 0, removed: 0, merged: 0 }
  const round = counters.rounds + 1
  const sketch = updateSketch(work, round, rng)
  const added = learnPending(work, counts, rng)
  const { steps, converged } = convergeRound(work)
  removeDead(work, counts)
  updateGuardTables(work)
  updateThreshold(work)
  counters.rounds = round
  counters.learnt += work.roundLearnt
  counters.componentsAdded += counts.added
  counters.componentsRemoved += counts.removed
  counters.componentsMerged += counts.merged
  if (sketch !== 'kept') counters.sketchUpdates++
  work.roundArrivals = 0
  work.roundAssumed = true
  work.roundLearnt = 0
  const normal = knownScores(work, work.knownNormal)
  const lifted = shareThatIs(true, knownScores(work, work.knownNovel), passingScore(normal))
  const moved = shareThatIs(false, normal, work.threshold.value)
  const { guard } = options
  const embedding = 'embedding' in work.model ? work.model.embedding : null
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
    lifted,
    moved,
    refused: guard !== null && (lifted > guard.lifted || moved > guard.moved),
  }
}

/** EM to convergence: Method 1 once a round, Method 2 after each arrival too. */
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

function updateSketch(work: LearningWork, round: number, rng: Rng): RoundReport['sketch'] {
  const { sketch, options, model } = work
  const policy = options.sketch
  if (sketch === null || policy.kind === 'keep' || !('embedding' in model)) return 'kept'
  const isTime = policy.everyRounds !== null && round % policy.everyRounds === 0
  if (work.pending.count < policy.rows && !isTime) return 'kept'
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

/** Rows drawn at random of those that may become landmarks, waiting ones first for up to half; none twice. */
function newLandmarks(work: LearningWork, wanted: number, rng: Rng): Matrix {
  const candidates = work.landmarkCandidates()
  const { landmarks } = work.sketch!.embedding
  const { precision } = (work.model as EmbeddedMixtureModel).parameters
  const { cols } = candidates
  const waiting = work.pending.count
  const draw = rng.fork('candidates')
  const shuffled = (from: number, to: number): number[] => [
    ...shuffleInPlace(
      Uint32Array.from({ length: to - from }, (_, i) => from + i),
      draw,
    ),
  ]
  const first = shuffled(0, waiting)
  const rest = shuffled(waiting, candidates.rows)
  const half = Math.min(first.length, Math.max(Math.ceil(wanted / 2), wanted - rest.length))
  const order = [...first.slice(0, half), ...rest, ...first.slice(half)]
  const chosen: number[] = []
  const isNew = (row: number): boolean => {
    for (let c = 0; c < cols; c++) {
      if (precision === 'f32' && Math.abs(candidates.data[row * cols + c]!) > LARGEST_FLOAT32) return false
    }
    for (let j = 0; j < landmarks.rows; j++) {
      if (squaredDistance(candidates.data, row * cols, landmarks.data, j * cols, cols) === 0) return false
    }
    return chosen.every(
      (other) => squaredDistance(candidates.data, row * cols, candidates.data, other * cols, cols) > 0,
    )
  }
  for (const row of order) {
    if (chosen.length === wanted) break
    if (isNew(row)) chosen.push(row)
  }
  return roundedTo(precision, takeRows(candidates, chosen))
}

/** As landmarks of that precision are kept. */
function roundedTo(precision: Precision, rows: Matrix): Matrix {
  return precision === 'f64' ? rows : { ...rows, data: rows.data.map(Math.fround) }
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
  const densitiesBefore = keptDensities(work)
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
  moveDensities(work, median(keptDensities(work)) - median(densitiesBefore))
}

function withReaches(guard: SupportGuardModel, m: number): SupportGuardModel {
  const old = guard.squaredReaches
  const mean = old.reduce((sum, reach) => sum + reach / old.length, 0)
  return { ...guard, squaredReaches: Float64Array.from({ length: m }, (_, j) => old[j] ?? mean) }
}

function keptDensities(work: LearningWork): Float64Array {
  const { count, data } = work.reservoir
  return work.scored(data, count).densities
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

/**
 * The loop of "Online GMM": a component for one row, the threshold, and the rows that pass by it are learnt as all
 * others are; until none is left. The threshold is the text's: the quantile of the stored densities. Returns how many
 * components came.
 */
function learnPending(work: LearningWork, counts: ComponentCounts, rng: Rng): number {
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
  const densities = keptDensities(work).sort()
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

function removeDead(work: LearningWork, counts: ComponentCounts): number {
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

function updateGuardTables(work: LearningWork): void {
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
  const squaredReaches = updatedReaches(landmarks, kept, update, bandwidth)
  const densities = keptDensities(work)
  const supports = supportsOf(landmarks, kept, squaredReaches)
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
function updateThreshold(work: LearningWork): void {
  const { calibration, doubtful, frozen, options } = work
  const first: Threshold['calibration'] = frozen.threshold.calibration
  const least = Math.max(first.rowsNeeded, Math.min(first.rows, options.calibrationRows))
  const scoresOf = (rows: LearningWork['calibration']) => work.scored(rows.data, rows.count).scores
  const threshold = recalibrated(work.threshold, scoresOf(calibration), scoresOf(doubtful), least)
  if (threshold === null) return
  if (options.guard !== null && !work.roundAssumed) {
    const novel = knownScores(work, work.knownNovel)
    const more = shareThatIs(true, novel, threshold.value) - shareThatIs(true, novel, work.threshold.value)
    if (more > options.guard.lifted) return
  }
  work.threshold = threshold
}

function knownScores(work: LearningWork, rows: Matrix): Float64Array {
  return work.scored(rows.data, rows.rows).scores
}
