/**
 * From clusters to a mixture of one covariance type.
 *
 * The start is the M-step on the clusters' memberships. The authors' program adds the regularisation to the starting
 * precisions of full covariances alone, so nothing is added here.
 */
import { DataError, type Matrix } from '@oddflow/core'
import { type FittedFromStart, fitFromStart } from '../fit-from-start.js'
import type { EmParameters } from '../parameters.js'
import type { Clustering } from '../quickshift-pp.js'
import { mixtureOf, momentsOf } from './by-covariance-type.js'
import type { TypedCovarianceType, TypedMixture } from './typed-mixture.js'
import { clusterMemberships } from './weighted-means.js'

export interface ClusteredRows {
  /** The rows that were clustered: all that EM sees, or a sample. */
  readonly points: Matrix
  readonly clustering: Clustering
  /** Labels of the clusters that become components. */
  readonly kept: ArrayLike<number>
}

/** `points` n × d, n ≥ 1. Throws DataError. */
export function fitTypedMixture(
  points: Matrix,
  start: ClusteredRows,
  covarianceType: TypedCovarianceType,
  em: EmParameters,
  onStep?: (step: number) => void,
): FittedFromStart<TypedMixture> {
  const notes: string[] = []
  const kept = nonEmptyClusters(start, notes)
  const memberships = clusterMemberships(start.clustering, kept)
  const startWith = (regularisation: number) =>
    mixtureOf(covarianceType, momentsOf(covarianceType, start.points, memberships, regularisation))
  const fitted = fitFromStart<TypedMixture>(points, em, startWith, onStep)
  return { ...fitted, notes: [...notes, ...fitted.notes] }
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
