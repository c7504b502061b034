/**
 * k-means: Lloyd's iterations from k-means++ seeds (Arthur and Vassilvitskii, 2007), until no point changes its
 * cluster, or after 300 rounds. k is lowered if there are no more different points. A cluster that empties takes the
 * point that is farthest from its own centre. Ties go to the lower index.
 */
import { ArgumentError, createMatrix, type Matrix, type Rng } from '@oddflow/core'
import { squaredDistances } from '@oddflow/linalg'
import type { Clustering } from './quickshift-pp.js'

/**
 * Chooses the clusters that become components: the largest first, until they hold enough of the rows.
 *
 * The paper keeps "the smallest number of clusters that account for at least 95 % of the data", at most 20. The
 * authors' program continues until the running total exceeds floor(0.95·n); so does this one. Clusters of equal size
 * keep the order of their first points.
 */

/** Labels of the kept clusters, largest first. */
export function keepLargestClusters(
  { labels, count }: Clustering,
  coverage: number,
  maximumClusters: number,
): Uint32Array {
  const sizes = new Uint32Array(count)
  for (const label of labels) sizes[label]!++
  const bySize = Uint32Array.from({ length: count }, (_, i) => i).sort(
    (a, b) => sizes[b]! - sizes[a]! || a - b,
  )
  const enough = Math.floor(labels.length * coverage)
  let kept = 0
  let total = 0
  while (kept < count && kept < maximumClusters && total <= enough) total += sizes[bySize[kept++]!]!
  return bySize.slice(0, kept)
}

const MAXIMUM_ROUNDS = 300

/** Clusters `points` (n × d, n ≥ 1) into min(k, different points) clusters, none empty. */
export function kMeans(points: Matrix, k: number, rng: Rng): Clustering {
  const { rows: n, cols: d, data } = points
  if (n === 0) throw new ArgumentError('points: expected at least one', 'points')
  const centres = seed(points, Math.min(k, n), rng)
  const count = centres.rows
  const labels = new Uint32Array(n)
  const nearest = new Float64Array(n)
  const distances = new Float64Array(count)
  const sizes = new Uint32Array(count)
  for (let round = 0; round < MAXIMUM_ROUNDS; round++) {
    let changed = round === 0 ? n : 0
    sizes.fill(0)
    for (let i = 0; i < n; i++) {
      squaredDistances(data, i * d, centres.data, 0, count, d, distances, 0)
      let best = 0
      for (let j = 1; j < count; j++) if (distances[j]! < distances[best]!) best = j
      if (labels[i] !== best) {
        labels[i] = best
        changed++
      }
      nearest[i] = distances[best]!
      sizes[best]!++
    }
    changed += fillEmptyClusters(labels, nearest, sizes)
    if (changed === 0) break
    centres.data.fill(0)
    for (let i = 0; i < n; i++) {
      const j = labels[i]!
      for (let a = 0; a < d; a++) centres.data[j * d + a]! += data[i * d + a]!
    }
    for (let j = 0; j < count; j++) {
      for (let a = 0; a < d; a++) centres.data[j * d + a] = centres.data[j * d + a]! / sizes[j]!
    }
  }
  return { labels, count }
}

function seed(points: Matrix, k: number, rng: Rng): Matrix {
  const { rows: n, cols: d, data } = points
  const centres = createMatrix(k, d)
  const nearest = new Float64Array(n).fill(Number.POSITIVE_INFINITY)
  const distances = new Float64Array(n)
  let next = rng.nextBelow(n)
  for (let j = 0; j < k; j++) {
    centres.data.set(data.subarray(next * d, (next + 1) * d), j * d)
    squaredDistances(data, next * d, data, 0, n, d, distances, 0)
    let total = 0
    for (let i = 0; i < n; i++) {
      if (distances[i]! < nearest[i]!) nearest[i] = distances[i]!
      total += nearest[i]!
    }
    if (!(total > 0)) return { rows: j + 1, cols: d, data: centres.data.slice(0, (j + 1) * d) }
    next = drawProportional(nearest, total, rng)
  }
  return centres
}

/** An index drawn with probability weights[i] / total; never one of weight 0. */
function drawProportional(weights: Float64Array, total: number, rng: Rng): number {
  const target = rng.nextFloat() * total
  let sum = 0
  let last = 0
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0) continue
    sum += weights[i]!
    last = i
    if (sum > target) return i
  }
  return last
}

/** Gives each empty cluster the point farthest from its center, out of clusters with more than one point. */
function fillEmptyClusters(labels: Uint32Array, nearest: Float64Array, sizes: Uint32Array): number {
  let moved = 0
  for (let j = 0; j < sizes.length; j++) {
    if (sizes[j]! > 0) continue
    let farthest = -1
    for (let i = 0; i < labels.length; i++) {
      if (sizes[labels[i]!]! > 1 && (farthest < 0 || nearest[i]! > nearest[farthest]!)) farthest = i
    }
    sizes[labels[farthest]!]!--
    labels[farthest] = j
    nearest[farthest] = 0
    sizes[j] = 1
    moved++
  }
  return moved
}
