/**
 * From embedded rows to a mixture: clusters, start, EM, and what to do when a covariance is singular.
 *
 * A regularisation that proves too small is raised tenfold, start and EM run again, up to 1e-3. QuickShift++
 * takes n² time and n^(5/3) memory, so above MAXIMUM_CLUSTERED_ROWS rows it sees a random sample; EM sees all.
 */
import { DataError, type Matrix, type Rng, sampleWithoutReplacement, takeRows } from '@oddflow/core'
import { clusterMoments } from './cluster-moments.js'
import { keepLargestClusters } from './cluster-selection.js'
import { type EmResult, runEm } from './expectation-maximisation.js'
import { kMeans } from './k-means.js'
import { mixtureFromMoments } from './mixture-start.js'
import type { EmParameters, StartParameters } from './parameters.js'
import { type Clustering, defaultNeighbours, quickShiftPlusPlus } from './quickshift-pp.js'

/** QuickShift++ searches at most so many rows. */
export const MAXIMUM_CLUSTERED_ROWS = 10_000

export interface FittedMixture extends EmResult {
  readonly clustersFound: number
  readonly clustersKept: number
  readonly regularisation: number
  readonly notes: readonly string[]
}

export interface MixtureProgress {
  readonly onClusters?: (fraction: number) => void
  readonly onEmStep?: (step: number) => void
}

/** `points` n × d. Draws from the forks `cluster-sample` and `k-means` of `rng`. Throws DataError. */
export function fitMixture(
  points: Matrix,
  start: StartParameters,
  em: EmParameters,
  rng: Rng,
  progress: MixtureProgress = {},
): FittedMixture {
  const notes: string[] = []
  const { clustered, clustering, kept } = findClusters(points, start, rng, notes, progress)
  for (const regularisation of regularisationSteps(em.regularisation)) {
    const moments = clusterMoments(clustered, clustering, kept, regularisation)
    const first = mixtureFromMoments(moments, start.kind === 'quickshift++' ? regularisation : 0)
    const result = first && runEm(points, first, { ...em, regularisation }, progress.onEmStep)
    if (result === undefined) continue
    if (regularisation !== em.regularisation) {
      notes.push(
        `regularisation raised from ${em.regularisation} to ${regularisation}: a covariance was singular`,
      )
    }
    if (!result.converged) {
      notes.push(`EM stopped after ${em.maximumSteps} steps, short of its tolerance ${em.tolerance}`)
    }
    return { ...result, clustersFound: clustering.count, clustersKept: kept.length, regularisation, notes }
  }
  throw new DataError(
    'a covariance of the mixture stays singular with 0.001 on its diagonal: the embedded rows are too large or too alike; use a smaller d or k, or scale the rows',
    'regularisation',
  )
}

function findClusters(
  points: Matrix,
  start: StartParameters,
  rng: Rng,
  notes: string[],
  { onClusters }: MixtureProgress,
): { clustered: Matrix; clustering: Clustering; kept: Uint32Array } {
  if (start.kind === 'k-means++') {
    const clustering = kMeans(points, start.k, rng.fork('k-means'))
    if (clustering.count < start.k) {
      notes.push(`k lowered from ${start.k} to ${clustering.count}: no more embedded rows differ`)
    }
    return {
      clustered: points,
      clustering,
      kept: Uint32Array.from({ length: clustering.count }, (_, i) => i),
    }
  }
  let clustered = points
  if (points.rows > MAXIMUM_CLUSTERED_ROWS) {
    const chosen = sampleWithoutReplacement(points.rows, MAXIMUM_CLUSTERED_ROWS, rng.fork('cluster-sample'))
    clustered = takeRows(points, chosen.sort())
    notes.push(`clusters were searched in a random ${MAXIMUM_CLUSTERED_ROWS} of ${points.rows} rows`)
  }
  const neighbours = start.neighbours ?? defaultNeighbours(clustered.rows)
  if (neighbours > clustered.rows)
    notes.push(`neighbours lowered from ${neighbours} to ${clustered.rows} rows`)
  const clustering = quickShiftPlusPlus(clustered, neighbours, start.beta, onClusters)
  return {
    clustered,
    clustering,
    kept: keepLargestClusters(clustering, start.coverage, start.maximumClusters),
  }
}

/** The regularisation asked for, then tenfold as often as 1e-3 allows. */
function regularisationSteps(first: number): number[] {
  const steps = [first]
  for (let r = first * 10; r < 1e-3; r *= 10) steps.push(r)
  if (first < 1e-3) steps.push(1e-3)
  return steps
}
