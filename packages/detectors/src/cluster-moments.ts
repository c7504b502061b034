/**
 * Weights, means and covariances of clusters: what a mixture is started from.
 */
import { createMatrix, type Matrix } from '@oddflow/core'
import type { Clustering } from './quickshift-pp.js'

export interface ClusterMoments {
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
