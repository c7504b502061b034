/**
 * The mixture that EM starts from, given clusters, and EM itself. As in the authors' program, the precision of a
 * QuickShift++ cluster is (Σ + reg·I)⁻¹ + reg·I: the second term caps the spread of a component.
 */

import {
  createMatrix,
  DataError,
  exp,
  log,
  type Matrix,
  plural,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import { choleskyInto, lowerTransposeTimesSelf } from '@oddflow/linalg'
import { keepLargestClusters, kMeans } from '../clustering/k-means.js'
import { type Clustering, defaultNeighbours, quickShiftPlusPlus } from '../clustering/quickshift-pp.js'
import type { MixtureModel } from '../model.js'
import type { EmParameters, QuickShiftStart, StartParameters } from '../parameters.js'
import {
  componentLogDensities,
  type Mixture,
  maximise,
  precisionCholeskyInPlace,
  withoutEmptyComponents,
} from './gaussian-mixture.js'

/**
 * Weights, means and covariances of clusters: what a mixture is started from.
 */

interface ClusterMoments {
  /** Length k, shares of the rows in the kept clusters; sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
  /** k·d·d, population covariances with the regularisation on their diagonals. */
  readonly covariances: Float64Array
}

/** Moments of the clusters `kept`, in that order, over `points` (n × d). */
export function clusterMoments(
  points: Matrix,
  { labels, count }: Clustering,
  kept: ArrayLike<number>,
  regularisation: number,
): ClusterMoments {
  const { rows: n, cols: d, data } = points
  const k = kept.length
  const componentOf = new Int32Array(count).fill(-1)
  for (let j = 0; j < k; j++) componentOf[kept[j]!] = j
  const sizes = new Float64Array(k)
  const means = createMatrix(k, d)
  for (let i = 0; i < n; i++) {
    const j = componentOf[labels[i]!]!
    if (j < 0) continue
    sizes[j]!++
    for (let a = 0; a < d; a++) means.data[j * d + a]! += data[i * d + a]!
  }
  for (let j = 0; j < k; j++) {
    for (let a = 0; a < d; a++) means.data[j * d + a] = means.data[j * d + a]! / sizes[j]!
  }
  const covariances = new Float64Array(k * d * d)
  const difference = new Float64Array(d)
  for (let i = 0; i < n; i++) {
    const j = componentOf[labels[i]!]!
    if (j < 0) continue
    for (let a = 0; a < d; a++) difference[a] = data[i * d + a]! - means.data[j * d + a]!
    for (let a = 0; a < d; a++) {
      for (let b = 0; b < d; b++) covariances[(j * d + a) * d + b]! += difference[a]! * difference[b]!
    }
  }
  let total = 0
  for (let j = 0; j < k; j++) {
    total += sizes[j]!
    for (let a = 0; a < d * d; a++) covariances[j * d * d + a] = covariances[j * d * d + a]! / sizes[j]!
    for (let a = 0; a < d; a++) covariances[(j * d + a) * d + a]! += regularisation
  }
  return { weights: sizes.map((size) => size / total), means, covariances }
}

/**
 * EM for a Gaussian mixture with covariances of any type, from a given start, in scikit-learn's order: E-step, mean
 * log-likelihood, M-step; stop when that likelihood has changed by less than the tolerance.
 *
 * A component that has less than 1e-6 of one row after an M-step is taken out at once. In scikit-learn it stays, at the
 * origin, where an embedding has the rows that are far from everything.
 */

interface EmResult<M extends Mixture = Mixture> {
  readonly mixture: M
  /** Mean log-likelihood before each M-step. */
  readonly meanLogLikelihoods: readonly number[]
  readonly converged: boolean
  /** Components that lost their rows on the way. */
  readonly removed: number
}

/**
 * `points` is n × d. undefined when a covariance became singular or all densities of a point left the range of
 * numbers: a larger regularisation is needed.
 */
export function runEm<M extends Mixture>(
  points: Matrix,
  start: M,
  { tolerance, maximumSteps, regularisation }: EmParameters,
  onStep?: (step: number) => void,
): EmResult<M> | undefined {
  const room = new Float64Array(points.rows * start.weights.length)
  const meanLogLikelihoods: number[] = []
  let mixture = start
  let previous = Number.NEGATIVE_INFINITY
  let converged = false
  for (let step = 1; step <= maximumSteps && !converged; step++) {
    const k = mixture.weights.length
    const responsibilities = { rows: points.rows, cols: k, data: room.subarray(0, points.rows * k) }
    const likelihood = expectation(points, mixture, responsibilities)
    if (!Number.isFinite(likelihood)) return undefined
    meanLogLikelihoods.push(likelihood)
    const next = maximise(mixture, points, responsibilities, regularisation)
    if (next === undefined) return undefined
    mixture = withoutEmptyComponents(next, points.rows)
    onStep?.(step)
    converged = Math.abs(likelihood - previous) < tolerance
    previous = likelihood
  }
  const removed = start.weights.length - mixture.weights.length
  return { mixture, meanLogLikelihoods, converged, removed }
}

/**
 * Fills `responsibilities` (n × k) and returns the mean log-likelihood, which is not finite when a point has no
 * density under any component.
 */
export function expectation(points: Matrix, mixture: Mixture, responsibilities: Matrix): number {
  const { rows: n, cols: d, data } = points
  const k = mixture.weights.length
  const logDensitiesInto = componentLogDensities(mixture)
  const terms = responsibilities.data
  let total = 0
  for (let i = 0; i < n; i++) {
    const start = i * k
    const end = start + k
    logDensitiesInto(data, i * d, terms, start)
    let largest = Number.NEGATIVE_INFINITY
    for (let j = start; j < end; j++) if (terms[j]! > largest) largest = terms[j]!
    let sum = 0
    for (let j = start; j < end; j++) {
      const e = exp(terms[j]! - largest)
      terms[j] = e
      sum += e
    }
    for (let j = start; j < end; j++) terms[j] = terms[j]! / sum
    total += largest + log(sum)
  }
  return total / n
}

/**
 * EM from a new start for each regularisation, until one is large enough.
 *
 * A regularisation that proves too small (a covariance that is singular or out of range, a likelihood that is not
 * finite) is raised tenfold, start and EM run again, up to 1e-3. What was not done as asked is said in the notes.
 */

export interface FittedFromStart<M extends Mixture> extends EmResult<M> {
  /** What was added to covariance diagonals in the end. */
  readonly regularisation: number
  readonly notes: readonly string[]
}

const LARGEST_REGULARISATION = 1e-3

/**
 * `points` n × d; `startWith` gives the mixture to start from, undefined when the regularisation is too small for one.
 * Throws DataError.
 */
export function fitFromStart<M extends Mixture>(
  points: Matrix,
  em: EmParameters,
  startWith: (regularisation: number) => M | undefined,
  onStep?: (step: number) => void,
): FittedFromStart<M> {
  for (const regularisation of regularisationSteps(em.regularisation)) {
    const start = startWith(regularisation)
    const result = start && runEm(points, start, { ...em, regularisation }, onStep)
    if (result === undefined) continue
    const notes: string[] = []
    if (regularisation !== em.regularisation) {
      notes.push(
        `regularisation raised from ${em.regularisation} to ${regularisation}: a covariance was singular`,
      )
    }
    if (!result.converged) {
      notes.push(`EM stopped after ${em.maximumSteps} steps, short of its tolerance ${em.tolerance}`)
    }
    if (result.removed > 0) {
      notes.push(`${plural(result.removed, 'component')} removed, to which no rows belonged any more`)
    }
    return { ...result, regularisation, notes }
  }
  throw new DataError(
    `a covariance of the mixture stays singular, or its densities out of range, with ${LARGEST_REGULARISATION} on the diagonal: the rows are too large or too similar; use a smaller d or k, or scale the rows in another way`,
    'regularisation',
  )
}

/** The regularisation asked for, then tenfold as often as 1e-3 allows. */
function regularisationSteps(first: number): number[] {
  const steps = [first]
  for (let r = Math.max(first, 1e-12) * 10; r < LARGEST_REGULARISATION; r *= 10) steps.push(r)
  if (first < LARGEST_REGULARISATION) steps.push(LARGEST_REGULARISATION)
  return steps
}

/** undefined when a covariance is not positive definite. `precisionRegularisation` is 0 for k-means++. */
export function mixtureFromMoments(
  { weights, means, covariances }: ClusterMoments,
  precisionRegularisation: number,
): MixtureModel | undefined {
  const k = weights.length
  const d = means.cols
  const factors = covariances.slice()
  if (precisionCholeskyInPlace(factors, k, d) >= 0) return undefined
  if (precisionRegularisation > 0) {
    const precision = new Float64Array(d * d)
    for (let j = 0; j < k; j++) {
      lowerTransposeTimesSelf(factors, j * d * d, d, precision, 0)
      for (let i = 0; i < d; i++) precision[i * d + i]! += precisionRegularisation
      if (!factorPrecision(precision, d, factors, j * d * d)) return undefined
    }
  }
  return { covarianceType: 'full', weights, means, precisionCholesky: factors }
}

/**
 * Lower-triangular W with WᵀW = Q. Cholesky gives LLᵀ, so it is taken of Q with its rows and columns in
 * reverse order, and its factor turned back.
 */
function factorPrecision(precision: Float64Array, d: number, out: Float64Array, start: number): boolean {
  const reversed = precision.slice().reverse()
  if (!choleskyInto(reversed, 0, d, reversed, 0)) return false
  for (let i = 0; i < d; i++) {
    for (let j = 0; j < d; j++) out[start + i * d + j] = reversed[(d - 1 - j) * d + (d - 1 - i)]!
  }
  return true
}

/**
 * From embedded rows to a mixture of full covariances: clusters, start, EM. EM starts from the clusters of
 * QuickShift++, or from as many of k-means (docs/decisions/0015-where-em-starts.md). Above `clusterSearchRows` rows a
 * random sample is searched, since time grows faster than n; k-means and EM see all rows.
 */

interface FittedMixture extends FittedFromStart<MixtureModel> {
  readonly clustersFound: number
  readonly clustersKept: number
}

interface MixtureProgress {
  readonly onClusters?: (fraction: number) => void
  readonly onEmStep?: (step: number) => void
}

/** Clusters that a mixture is started from. */
interface StartClusters {
  /** The rows that were clustered. */
  readonly clustered: Matrix
  readonly clustering: Clustering
  /** Labels of the clusters that become components. */
  readonly kept: Uint32Array
}

/** `points` n × d. Draws from the forks `cluster-sample` and `k-means` of `rng`. Throws DataError. */
export function fitMixture(
  points: Matrix,
  start: StartParameters,
  em: EmParameters,
  rng: Rng,
  { onClusters, onEmStep }: MixtureProgress = {},
): FittedMixture {
  const notes: string[] = []
  let clusters: StartClusters
  let found: { clustersFound: number; clustersKept: number }
  let fromClusters = false
  if (start.kind === 'k-means++') {
    clusters = clusterByKMeans(points, start.k, rng)
    const { count } = clusters.clustering
    if (count < start.k) notes.push(`k lowered from ${start.k} to ${count}: no more embedded rows differ`)
    found = { clustersFound: count, clustersKept: count }
  } else {
    clusters = clusterByQuickShift(points, start, rng, notes, onClusters)
    found = { clustersFound: clusters.clustering.count, clustersKept: clusters.kept.length }
    fromClusters = start.mixtureStart === 'clusters'
    if (!fromClusters) clusters = clusterByKMeans(points, clusters.kept.length, rng)
  }
  const { clustered, clustering, kept } = clusters
  const startWith = (regularisation: number) => {
    const moments = clusterMoments(clustered, clustering, kept, regularisation)
    return mixtureFromMoments(moments, fromClusters ? regularisation : 0)
  }
  const fitted = fitFromStart(points, em, startWith, onEmStep)
  return { ...fitted, ...found, notes: [...notes, ...fitted.notes] }
}

function clusterByKMeans(points: Matrix, k: number, rng: Rng): StartClusters {
  const clustering = kMeans(points, k, rng.fork('k-means'))
  return {
    clustered: points,
    clustering,
    kept: Uint32Array.from({ length: clustering.count }, (_, i) => i),
  }
}

function clusterByQuickShift(
  points: Matrix,
  { beta, neighbours, coverage, maximumClusters, clusterSearchRows }: QuickShiftStart,
  rng: Rng,
  notes: string[],
  onClusters?: (fraction: number) => void,
): StartClusters {
  let clustered = points
  if (points.rows > clusterSearchRows) {
    const chosen = sampleWithoutReplacement(points.rows, clusterSearchRows, rng.fork('cluster-sample'))
    clustered = takeRows(points, chosen.sort())
    notes.push(`clusters were searched in a random ${clusterSearchRows} of ${points.rows} rows`)
  }
  let k = neighbours ?? defaultNeighbours(clustered.rows)
  // of a model's parameters, over fewer rows than they were stated for
  if (k > clustered.rows) {
    notes.push(`neighbours lowered from ${k} to ${clustered.rows} rows`)
    k = clustered.rows
  }
  const clustering = quickShiftPlusPlus(clustered, k, beta, onClusters)
  return { clustered, clustering, kept: keepLargestClusters(clustering, coverage, maximumClusters) }
}
