/**
 * Cluster in Cluster, the simulated data of the paper's figure on embeddings: two classes of which no straight line can
 * part one from the other. The inner class is normal around the origin with standard deviation 1; the outer is a ring of
 * radius 5 whose thickness has standard deviation 0.5. (The paper gives n = 5,000 and no more.)
 */
import { createMatrix, type Matrix, type Rng } from '@oddflow/core'

const RING_RADIUS = 5
const RING_DEVIATION = 0.5

export interface ClusterInCluster {
  /** n × 2. */
  readonly rows: Matrix
  /** 1 = the ring; every other row. */
  readonly isOuter: Uint8Array
}

export function drawClusterInCluster(count: number, rng: Rng): ClusterInCluster {
  const rows = createMatrix(count, 2)
  const isOuter = new Uint8Array(count)
  for (let i = 0; i < count; i++) {
    // the direction of a pair of normal deviates is uniform, which needs no sine or cosine
    const x = rng.nextNormal()
    const y = rng.nextNormal()
    isOuter[i] = i % 2
    const stretch =
      isOuter[i] === 1 ? (RING_RADIUS + RING_DEVIATION * rng.nextNormal()) / Math.sqrt(x * x + y * y) : 1
    rows.data[2 * i] = stretch * x
    rows.data[2 * i + 1] = stretch * y
  }
  return { rows, isOuter }
}
