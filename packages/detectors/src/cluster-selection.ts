/**
 * Which clusters become components: the largest first, until they hold enough of the rows.
 *
 * The paper keeps "the smallest number of clusters that account for at least 95 % of the data", at most 20.
 * The authors' program goes on until the running total exceeds floor(0.95·n); that is the rule here. Clusters
 * of equal size keep the order of their first points.
 */
import type { Clustering } from './quickshift-pp.js'

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
