/**
 * Weights and means of rows that belong to components by degrees; and degrees of 0 or 1 from clusters.
 *
 * Each component's mass carries 10·2⁻⁵², as scikit-learn's does, so that one which no row belongs to has a mean
 * and a weight instead of 0/0.
 */
import { createMatrix, type Matrix } from '@oddflow/core'
import type { Clustering } from '../quickshift-pp.js'

export interface WeightedMeans {
  /** Length k, positive: sums of the responsibilities. */
  readonly mass: Float64Array
  /** Length k, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
}

const EMPTY_MASS = 10 * Number.EPSILON

/** `points` n × d, `responsibilities` n × k, at least 0. */
export function weightedMeans(points: Matrix, responsibilities: Matrix): WeightedMeans {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const mass = new Float64Array(k)
  const means = createMatrix(k, d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      mass[j] = mass[j]! + w
      for (let a = 0; a < d; a++) means.data[j * d + a] = means.data[j * d + a]! + w * data[i * d + a]!
    }
  }
  let total = 0
  for (let j = 0; j < k; j++) {
    mass[j] = mass[j]! + EMPTY_MASS
    total += mass[j]!
    for (let a = 0; a < d; a++) means.data[j * d + a] = means.data[j * d + a]! / mass[j]!
  }
  return { mass, weights: mass.map((m) => m / total), means }
}

/** n × k: 1 where a row's cluster is the component's, in the order of `kept`; rows of other clusters have 0. */
export function clusterMemberships({ labels, count }: Clustering, kept: ArrayLike<number>): Matrix {
  const k = kept.length
  const componentOf = new Int32Array(count).fill(-1)
  for (let j = 0; j < k; j++) componentOf[kept[j]!] = j
  const out = createMatrix(labels.length, k)
  for (let i = 0; i < labels.length; i++) {
    const j = componentOf[labels[i]!]!
    if (j >= 0) out.data[i * k + j] = 1
  }
  return out
}
