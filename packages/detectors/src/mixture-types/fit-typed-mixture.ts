/**
 * From clusters to a mixture of one covariance type: start, EM, and what to do when something degenerates.
 *
 * The start is the M-step on the clusters' memberships. A regularisation that proves too small (a variance
 * that is 0 or not finite, a likelihood that is not) is raised tenfold and all is run again, up to 1e-3. A
 * component that no row belongs to any more is removed at the end: EM leaves it at the origin with a variance
 * of nothing but the regularisation, where it would take a far row, embedded at 0, for a normal one. All of
 * it is said in the notes.
 *
 * The authors' program adds the regularisation to the starting precisions of full covariances alone, so
 * nothing is added here.
 */
import { DataError, type Matrix, matrixOf } from '@oddflow/core'
import type { EmParameters } from '../parameters.js'
import type { Clustering } from '../quickshift-pp.js'
import { mixtureOf, momentsOf } from './by-covariance-type.js'
import { runTypedEm, type TypedEmResult } from './typed-em.js'
import type { TypedCovarianceType, TypedMixture } from './typed-mixture.js'
import { clusterMemberships } from './weighted-means.js'

export interface ClusteredRows {
  /** The rows that were clustered: all that EM sees, or a sample. */
  readonly points: Matrix
  readonly clustering: Clustering
  /** Labels of the clusters that become components. */
  readonly kept: ArrayLike<number>
}

export interface FittedTypedMixture extends TypedEmResult {
  /** What was added to covariance diagonals in the end. */
  readonly regularisation: number
  readonly notes: readonly string[]
}

const LARGEST_REGULARISATION = 1e-3
/** A component of less than so much of one row is empty. */
const EMPTY_ROWS = 1e-6

/** `points` n × d, n ≥ 1. Throws DataError. */
export function fitTypedMixture(
  points: Matrix,
  start: ClusteredRows,
  covarianceType: TypedCovarianceType,
  em: EmParameters,
  onStep?: (step: number) => void,
): FittedTypedMixture {
  const notes: string[] = []
  const kept = nonEmptyClusters(start, notes)
  const memberships = clusterMemberships(start.clustering, kept)
  for (const regularisation of regularisationSteps(em.regularisation)) {
    const first = mixtureOf(
      covarianceType,
      momentsOf(covarianceType, start.points, memberships, regularisation),
    )
    const result = first && runTypedEm(points, first, { ...em, regularisation }, onStep)
    if (result === undefined) continue
    if (regularisation !== em.regularisation) {
      notes.push(
        `regularisation raised from ${em.regularisation} to ${regularisation}: a covariance was singular`,
      )
    }
    if (!result.converged) {
      notes.push(`EM stopped after ${em.maximumSteps} steps, short of its tolerance ${em.tolerance}`)
    }
    const mixture = withoutEmptyComponents(result.mixture, points.rows)
    const removed = result.mixture.weights.length - mixture.weights.length
    if (removed > 0) notes.push(`${removed} components were removed: no rows belonged to them after EM`)
    return { ...result, mixture, regularisation, notes }
  }
  throw new DataError(
    `a ${covarianceType} covariance of the mixture stays singular, or its densities out of range, with ${LARGEST_REGULARISATION} on the diagonal: the rows are too large or too alike; use a smaller k, or scale the rows`,
    'regularisation',
  )
}

/**
 * The mixture without components of less than 1e-6 of one of the `rows` rows, weights summing to 1 again; the
 * same mixture when there are none.
 */
export function withoutEmptyComponents(mixture: TypedMixture, rows: number): TypedMixture {
  const kept: number[] = []
  mixture.weights.forEach((weight, j) => {
    if (weight * rows >= EMPTY_ROWS) kept.push(j)
  })
  if (kept.length === mixture.weights.length) return mixture
  const d = mixture.means.cols
  const parts = (values: Float64Array, size: number) =>
    Float64Array.from({ length: kept.length * size }, (_, at) => {
      return values[kept[Math.floor(at / size)]! * size + (at % size)]!
    })
  const weights = parts(mixture.weights, 1)
  const total = weights.reduce((a, b) => a + b, 0)
  const own = {
    weights: weights.map((w) => w / total),
    means: matrixOf(kept.length, d, parts(mixture.means.data, d)),
  }
  switch (mixture.covarianceType) {
    case 'diagonal':
      return { ...mixture, ...own, precisionCholesky: parts(mixture.precisionCholesky, d) }
    case 'tied':
      return { ...mixture, ...own }
    case 'spherical':
      return { ...mixture, ...own, precisionCholesky: parts(mixture.precisionCholesky, 1) }
  }
}

function nonEmptyClusters({ clustering, kept }: ClusteredRows, notes: string[]): number[] {
  const sizes = new Uint32Array(clustering.count)
  for (const label of clustering.labels) sizes[label] = sizes[label]! + 1
  const filled = Array.from(kept).filter((label) => (sizes[label] ?? 0) > 0)
  if (filled.length === 0) {
    throw new DataError('no cluster has rows: there is nothing to start a mixture from', 'k')
  }
  if (filled.length < kept.length) {
    notes.push(`${kept.length - filled.length} clusters without rows were left out`)
  }
  return filled
}

/** The regularisation asked for, then tenfold as often as 1e-3 allows. */
function regularisationSteps(first: number): number[] {
  const steps = [first]
  for (let r = Math.max(first, 1e-12) * 10; r < LARGEST_REGULARISATION; r *= 10) steps.push(r)
  if (first < LARGEST_REGULARISATION) steps.push(LARGEST_REGULARISATION)
  return steps
}
