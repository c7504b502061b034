/**
 * QuickShift++: clusters as what climbs to the same core (Jiang, Jang, Kpotufe 2018; paper, "Choice of number
 * of components k").
 *
 * First the cores (quickshift-cores.ts). Every point in no core then follows its nearest denser point
 * (denser-search.ts); a point that nothing is denser than stands alone. The chains end in cores, and the core is the
 * cluster.
 *
 * Labels are numbered by first appearance. Equal to google/quickshift up to that numbering where the latter
 * is defined. Ill-conditioned by nature: changes of 1e-15 in the points can change the number of clusters,
 * hence direct differences and ties by index throughout.
 */
import { ArgumentError, checkFinite, type Matrix } from '@oddflow/core'
import { createKdTree, neighbourRadii } from '@oddflow/linalg'
import { checkWhole } from './checked-rows.js'
import { createDenserSearch } from './denser-search.js'
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
 * Clusters `points` (n × d, n ≥ 1, finite). `neighbours` counts the point itself, at most n; 0 < beta < 1.
 * Memory grows with n, time a little faster in few dimensions, and like n² where a tree is of no use. `onProgress`
 * gets the share done. Throws ArgumentError.
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
  checkFinite(points, 'points')
  checkWhole('neighbours', neighbours, 1, n)
  const tree = createKdTree(points)
  const nearest = neighbourRadii(
    tree,
    neighbours,
    onProgress === undefined ? undefined : (done) => onProgress(done / n),
  )
  const { cores, count } = findCores(tree, nearest, beta)
  const sets = new DisjointSets(n)
  const lastOfCore = new Int32Array(count).fill(-1)
  for (let i = 0; i < n; i++) {
    const core = cores[i]!
    if (core < 0) continue
    if (lastOfCore[core]! >= 0) sets.join(lastOfCore[core]!, i)
    lastOfCore[core] = i
  }
  const findDenser = createDenserSearch(tree, nearest.squaredRadii.map(Math.sqrt))
  for (let at = 0; at < n; at++) {
    const i = tree.indices[at]!
    if (cores[i]! >= 0) continue
    const denser = findDenser(at)
    if (denser >= 0) sets.join(i, denser)
  }
  return { ...numberByAppearance(sets, n), cores }
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
