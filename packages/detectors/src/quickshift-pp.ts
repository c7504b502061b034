/**
 * QuickShift++: clusters as what climbs to the same core (Jiang, Jang, Kpotufe 2018; paper, "Choice of number
 * of components k").
 *
 * First the cores (quickshift-cores.ts). Every point in no core then follows its nearest denser point, that
 * is the first of its neighbours with a smaller radius, or the nearest of all points with one when no
 * neighbour is denser; a point that nothing is denser than stands alone. The chains end in cores, and the
 * core is the cluster.
 *
 * Labels are numbered by first appearance. Equal to google/quickshift up to that numbering where the latter
 * is defined. Ill-conditioned by nature: changes of 1e-15 in the points can change the number of clusters,
 * hence direct differences and ties by index throughout.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import { nearestNeighbours, squaredDistances } from '@oddflow/linalg'
import { DisjointSets } from './disjoint-sets.js'
import { findCores } from './quickshift-cores.js'

export interface Clustering {
  /** Cluster of each point, 0 … count − 1 by first appearance. */
  readonly labels: Uint32Array
  readonly count: number
}

export interface QuickShiftResult extends Clustering {
  /** Core of each point as first numbered, −1 for points in none. */
  readonly cores: Int32Array
}

/** floor(n^(2/3)), exactly: the paper's number of neighbours. */
export function defaultNeighbours(n: number): number {
  let k = 1
  while ((k + 1) * (k + 1) * (k + 1) <= n * n) k++
  return k
}

/**
 * Clusters `points` (n × d, n ≥ 1). `neighbours` counts the point itself and is lowered to n; 0 < beta < 1.
 * n² time, n · neighbours memory. `onProgress` gets the share done.
 */
export function quickShiftPlusPlus(
  points: Matrix,
  neighbours: number,
  beta: number,
  onProgress?: (fraction: number) => void,
): QuickShiftResult {
  if (!(beta > 0 && beta < 1)) {
    throw new ArgumentError(`beta: expected a number between 0 and 1, found ${beta}`, 'beta')
  }
  const n = points.rows
  if (n === 0 || points.cols === 0) throw new ArgumentError('points: expected at least one', 'points')
  const nearest = nearestNeighbours(
    points,
    neighbours,
    onProgress === undefined ? undefined : (done) => onProgress(done / n),
  )
  const radii = nearest.squaredRadii.map(Math.sqrt)
  const { cores, count } = findCores(points, nearest, radii, beta)
  const sets = new DisjointSets(n)
  const lastOfCore = new Int32Array(count).fill(-1)
  for (let i = 0; i < n; i++) {
    const core = cores[i]!
    if (core < 0) continue
    if (lastOfCore[core]! >= 0) sets.join(lastOfCore[core]!, i)
    lastOfCore[core] = i
  }
  const scratch = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    if (cores[i]! >= 0) continue
    let denser = -1
    for (let at = i * nearest.k; at < (i + 1) * nearest.k && denser < 0; at++) {
      const q = nearest.indices[at]!
      if (radii[q]! < radii[i]!) denser = q
    }
    if (denser < 0) denser = nearestDenser(points, radii, i, scratch)
    if (denser >= 0) sets.join(i, denser)
  }
  return { ...numberByAppearance(sets, n), cores }
}

/** The nearest of all points with a smaller radius, the first of several; −1 when there is none. */
function nearestDenser(points: Matrix, radii: Float64Array, i: number, scratch: Float64Array): number {
  const { rows: n, cols, data } = points
  squaredDistances(data, i * cols, data, 0, n, cols, scratch, 0)
  let best = -1
  for (let j = 0; j < n; j++) {
    if (radii[j]! < radii[i]! && (best < 0 || scratch[j]! < scratch[best]!)) best = j
  }
  return best
}

function numberByAppearance(sets: DisjointSets, n: number): Clustering {
  const labels = new Uint32Array(n)
  const labelOfRoot = new Int32Array(n).fill(-1)
  let count = 0
  for (let i = 0; i < n; i++) {
    const root = sets.find(i)
    if (labelOfRoot[root]! < 0) labelOfRoot[root] = count++
    labels[i] = labelOfRoot[root]!
  }
  return { labels, count }
}
