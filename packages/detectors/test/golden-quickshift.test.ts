import { matrixFromRows } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { keepLargestClusters } from '../src/clustering/k-means.js'
import { quickShiftPlusPlus } from '../src/clustering/quickshift-pp.js'
import { expectClose } from './close.js'
import { nearestNeighbours } from './quickshift-by-lists.js'
import { goldenAbsent, readGolden } from './shared.js'

interface Case {
  k: number
  beta: number
  X: number[][]
  labels: number[]
  cores: number[]
  n_clusters: number
  kept_clusters_95pct_cap20: number[]
  kept_sizes: number[]
  radii?: number[]
  neighbours?: number[][]
}

const cases = goldenAbsent
  ? []
  : Object.entries(readGolden<Record<string, Case | string>>('06_quickshift')).filter(
      (entry): entry is [string, Case] => typeof entry[1] === 'object',
    )

describe.skipIf(goldenAbsent)('golden 06: QuickShift++ (google/quickshift)', () => {
  for (const [name, g] of cases) {
    it(name, () => {
      const points = matrixFromRows(g.X)
      const result = quickShiftPlusPlus(points, g.k, g.beta)
      expect(result.count).toBe(g.n_clusters)
      expect([...result.labels]).toEqual(g.labels)
      expect([...result.cores].map((c) => (c >= 0 ? 1 : 0))).toEqual(g.cores.map((c) => (c >= 0 ? 1 : 0)))
      const kept = keepLargestClusters(result, 0.95, 20)
      expect([...kept]).toEqual(g.kept_clusters_95pct_cap20)
      const sizeOf = (label: number) => result.labels.filter((l) => l === label).length
      expect([...kept].map(sizeOf)).toEqual(g.kept_sizes)
      if (g.radii !== undefined && g.neighbours !== undefined) {
        const nearest = nearestNeighbours(points, g.k)
        expectClose(nearest.squaredRadii.map(Math.sqrt), g.radii, 1e-14)
        g.neighbours.forEach((list, i) => {
          const own = [...nearest.indices.subarray(i * g.k, (i + 1) * g.k)]
          expect(own.sort((a, b) => a - b)).toEqual([...list].sort((a, b) => a - b))
        })
      }
    })
  }
})
