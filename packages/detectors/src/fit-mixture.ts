/**
 * From embedded rows to a mixture of full covariances: clusters, start, EM.
 *
 * QuickShift++ says how many components there are. EM starts from its clusters, or from as many of k-means; which of
 * the two finds the better mixture is a matter of the rows, and `mixtureStart` chooses (docs/decisions/0015-where-em-starts.md
 * has the figures). Above `clusterSearchRows` rows it searches a random sample of so many, since its time grows faster
 * than n and its number of neighbours with it; k-means and EM see all rows, in time that grows as n.
 */
import { type Matrix, type Rng, sampleWithoutReplacement, takeRows } from '@oddflow/core'
import { clusterMoments } from './cluster-moments.js'
import { keepLargestClusters } from './cluster-selection.js'
import { type FittedFromStart, fitFromStart } from './fit-from-start.js'
import { kMeans } from './k-means.js'
import { mixtureFromMoments } from './mixture-start.js'
import type { MixtureModel } from './model.js'
import type { EmParameters, QuickShiftStart, StartParameters } from './parameters.js'
import { type Clustering, defaultNeighbours, quickShiftPlusPlus } from './quickshift-pp.js'

export interface FittedMixture extends FittedFromStart<MixtureModel> {
  readonly clustersFound: number
  readonly clustersKept: number
}

export interface MixtureProgress {
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
