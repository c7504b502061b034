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
import { log, type Matrix, matrixOf, type Rng, takeRows } from '@oddflow/core'
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
import { learn, replaceInReservoir } from './learn-arrivals.js'
import { type LearningModel, mixtureOfModel } from './learned-state.js'
import type { LearningWork } from './learning-work.js'
import {
  addComponent,
  convergeMixture,
  copyStatistics,
  createMixtureEvaluator,
  type LearningMixture,
  type MixtureStatistics,
  mixtureOfStatistics,
  scatterSize,
  takeComponents,
  totalMass,
  withComponent,
} from './mixture-statistics.js'
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

/**
 * The components in a round: new ones for waiting rows, and removal.
 *
 * This is "Online GMM" of the paper's source: add a component for one row, set the threshold, learn the rows above it,
 * and repeat until no row waits. The number of components is limited here. At the limit a dead component is removed, or
 * the two most similar ones are merged.
 */

/**
 * Removal of components: dead ones (mass below one row) are removed; above the limit the two most similar ones are
 * merged, by Runnalls' bound on the Kullback–Leibler divergence (IEEE Transactions on Aerospace and Electronic Systems
 * 43, 2007, eq. 19):
 *
 *     B(i, j) = ½ [(w_i + w_j) log |Σ_ij| − w_i log |Σ_i| − w_j log |Σ_j|],   Σ_ij the covariance of both together
 */

/** The least mass of a component, in rows. */
const LEAST_MASS = 1

/** Numbers of the components to keep; at least one. */
export function livingComponents({ masses }: MixtureStatistics): number[] {
  const living: number[] = []
  let largest = 0
  for (let j = 0; j < masses.length; j++) {
    if (masses[j]! > masses[largest]!) largest = j
    if (masses[j]! >= LEAST_MASS) living.push(j)
  }
  return living.length > 0 ? living : [largest]
}

/** The pair i < j with the least cost of merging; null if there is only one component. */
export function cheapestMerge(
  statistics: MixtureStatistics,
  regularisation: number,
): { readonly i: number; readonly j: number; readonly cost: number } | null {
  const k = statistics.masses.length
  const total = totalMass(statistics)
  const logDeterminants = Array.from({ length: k }, (_, j) =>
    logDeterminant(takeComponents(statistics, [j]), regularisation),
  )
  let best: { i: number; j: number; cost: number } | null = null
  for (let i = 0; i < k; i++) {
    for (let j = i + 1; j < k; j++) {
      const both = takeComponents(statistics, [i])
      addComponent(both, 0, statistics, j)
      const wi = statistics.masses[i]! / total
      const wj = statistics.masses[j]! / total
      const cost =
        0.5 *
        ((wi + wj) * logDeterminant(both, regularisation) -
          wi * logDeterminants[i]! -
          wj * logDeterminants[j]!)
      if (best === null || cost < best.cost) best = { i, j, cost }
    }
  }
  return best
}

/** Component j added to component i. `statistics` does not change. */
export function mergeComponents(statistics: MixtureStatistics, i: number, j: number): MixtureStatistics {
  const kept = Array.from(statistics.masses.keys()).filter((component) => component !== j)
  const out = takeComponents(statistics, kept)
  addComponent(out, kept.indexOf(i), statistics, j)
  return out
}

/** log |Σ| of a single component. */
function logDeterminant(single: MixtureStatistics, regularisation: number): number {
  const { precisionCholesky } = mixtureOfStatistics(single, regularisation)
  const { d, covarianceType } = single
  let sum = 0
  for (let a = 0; a < d; a++) sum += log(precisionCholesky[covarianceType === 'full' ? a * d + a : a]!)
  return -2 * sum
}

/**
 * A component for a point that no component explains: "addNewComponent" of the paper's source.
 *
 * Its mean is the point x, its covariance t·I with t = vᵀΣv. Σ is the covariance of the most probable component m for x
 * (weight times density), and v the unit vector from µ_m to x, so it is as wide as its neighbor in that direction. The
 * other weights are multiplied by n/(n + 1); the new one is 1/(n + 1), one row.
 *
 * The authors' program uses √(vᵀΣ⁻¹v) for t, and the component with the largest such number for m; the text is right.
 */

interface NewComponent {
  /** With the new component last, of mass 1. */
  readonly statistics: MixtureStatistics
  /** m. */
  readonly parent: number
  /** t, without the regularization of an M-step. */
  readonly variance: number
}

/** For the point of d numbers at `start`. Changes none of its arguments. */
export function addNewComponent(
  mixture: LearningMixture,
  statistics: MixtureStatistics,
  points: Float64Array,
  start: number,
): NewComponent {
  const { d } = statistics
  const x = points.slice(start, start + d)
  const parent = mostProbableComponent(mixture, points, start)
  const variance = varianceTowards(statistics, parent, x)
  return { statistics: withComponent(statistics, 1, x, variance), parent, variance }
}

/** The component with the largest weight times density; the nearest by mean if all densities underflow. */
function mostProbableComponent(mixture: LearningMixture, points: Float64Array, start: number): number {
  const evaluator = createMixtureEvaluator(mixture)
  const terms = new Float64Array(evaluator.k)
  evaluator.terms(points, start, terms, 0)
  let best = 0
  for (let j = 1; j < terms.length; j++) if (terms[j]! > terms[best]!) best = j
  return best
}

/** vᵀΣ_j v with v = (x − µ_j)/‖x − µ_j‖; the mean variance if x is the mean. */
function varianceTowards(
  { covarianceType, d, masses, means, scatters }: MixtureStatistics,
  j: number,
  x: Float64Array,
): number {
  const size = scatterSize(covarianceType, d)
  const v = x.map((value, a) => value - means[j * d + a]!)
  let square = 0
  for (const value of v) square += value * value
  const entry = (a: number, b: number): number => {
    if (covarianceType === 'diagonal') return a === b ? scatters[j * size + a]! : 0
    return scatters[j * size + Math.max(a, b) * d + Math.min(a, b)]!
  }
  let sum = 0
  for (let a = 0; a < d; a++) {
    if (square === 0) sum += entry(a, a) / d
    else for (let b = 0; b < d; b++) sum += (v[a]! / square) * entry(a, b) * v[b]!
  }
  return masses[j]! > 0 ? Math.max(0, sum) / masses[j]! : 0
}

interface ComponentCounts {
  added: number
  removed: number
  merged: number
}

/**
 * Learns the waiting rows. The threshold between components is the quantile of the stored densities, as in the text.
 * Returns the number of new components.
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

/** The quantile of the kept rows' log-densities at the tolerated false-positive rate. */
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
  // the base gets the component too, with mass 0 because its row is in the reservoir
  work.base = withComponent(work.base, 0, points.slice(0, d), 0)
  // the last component is not yet in the mixture, so leaving rows go to the others
  if (work.reservoir.next < 0) {
    work.setReservoirPoint(work.reservoir.push(single.data, 0, 1), points, 0)
  } else {
    replaceInReservoir(work, rng.nextBelow(work.reservoir.count), single.data, 0, points, 0)
  }
  work.reservoirSeen++
  work.roundLearnt++
  setMixture(work, mixtureOfStatistics(work.statistics, regularisation))
}

/** Reduces the components by one: removes a dead one, or merges the two most similar ones. */
function makeRoom(work: LearningWork, counts: ComponentCounts): void {
  if (removeDead(work, counts) > 0) return
  const pair = cheapestMerge(work.statistics, work.regularisation)
  if (pair === null) return
  work.statistics = mergeComponents(work.statistics, pair.i, pair.j)
  work.base = mergeComponents(work.base, pair.i, pair.j)
  counts.merged++
  setMixture(work, mixtureOfStatistics(work.statistics, work.regularisation))
}

/** Removes components without mass; returns their number. */
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

/** A mixture with another number of components; the parameters state the maximum. */
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
