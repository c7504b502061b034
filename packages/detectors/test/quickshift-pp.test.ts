import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { keepLargestClusters } from '../src/clustering/k-means.js'
import { defaultNeighbours, quickShiftPlusPlus } from '../src/clustering/quickshift-pp.js'
import { quickShiftByLists } from './quickshift-by-lists.js'
import { clusteredRows } from './rows.js'

const points = (...values: number[]): Matrix => matrixOf(values.length, 1, Float64Array.from(values))

describe('QuickShift++', () => {
  it('numbers clusters by first appearance and labels every point, whatever the points', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 70 }),
        fc.constantFrom(0.1, 0.5, 0.9),
        (values, most, beta) => {
          const neighbours = Math.min(most, values.length)
          const { labels, count, cores } = quickShiftPlusPlus(points(...values), neighbours, beta)
          expect(labels).toHaveLength(values.length)
          expect(cores).toHaveLength(values.length)
          let next = 0
          for (const label of labels) {
            expect(label).toBeLessThanOrEqual(next)
            if (label === next) next++
          }
          expect(next).toBe(count)
        },
      ),
    )
  })

  it('has the labels and cores of the one that looks at every pair', () => {
    const coordinate = fc.oneof(fc.integer({ min: 0, max: 4 }), fc.double({ min: 0, max: 4, noNaN: true }))
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3 }),
        fc.array(coordinate, { minLength: 3, maxLength: 180 }),
        fc.integer({ min: 1, max: 70 }),
        fc.constantFrom(0.1, 0.5, 0.9),
        (d, values, most, beta) => {
          const n = Math.floor(values.length / d)
          const neighbours = Math.min(most, n)
          const rows = matrixOf(n, d, Float64Array.from(values.slice(0, n * d)))
          expect(quickShiftPlusPlus(rows, neighbours, beta)).toEqual(
            quickShiftByLists(rows, neighbours, beta),
          )
        },
      ),
      { numRuns: sampleCount(300) },
    )
  })

  it('has them for clusters of many points, copies among them', () => {
    const rows = clusteredRows(900, 3)
    const copies = matrixOf(
      900,
      3,
      rows.data.map((v) => Math.round(v)),
    )
    for (const points of [rows, copies]) {
      for (const neighbours of [3, 40, 200]) {
        const found = quickShiftPlusPlus(points, neighbours, 0.7)
        expect(found).toEqual(quickShiftByLists(points, neighbours, 0.7))
        expect(found.count).toBeGreaterThan(1)
      }
    }
  })

  it('finds two clusters that are far apart', () => {
    const rng = createRng(1)
    const values = Array.from({ length: 120 }, (_, i) => (i < 60 ? 0 : 100) + rng.nextNormal())
    const { labels, count } = quickShiftPlusPlus(points(...values), 20, 0.5)
    expect(count).toBe(2)
    expect(new Set(labels.slice(0, 60)).size).toBe(1)
    expect(labels[0]).not.toBe(labels[60])
  })

  it('puts all into one cluster when all are neighbours', () => {
    expect(quickShiftPlusPlus(points(0, 1, 2, 5), 4, 0.9).count).toBe(1)
    expect(quickShiftPlusPlus(points(3), 1, 0.9).count).toBe(1)
  })

  it('keeps equal points together when all radii are 0', () => {
    expect(quickShiftPlusPlus(points(...Array(30).fill(7)), 5, 0.9).count).toBe(1)
    const two = quickShiftPlusPlus(points(...Array.from({ length: 30 }, (_, i) => i % 2)), 5, 0.9)
    expect(two.count).toBe(2)
    expect([...two.labels]).toEqual(Array.from({ length: 30 }, (_, i) => i % 2))
  })

  it('refuses no points and beta outside (0, 1)', () => {
    expect(() => quickShiftPlusPlus(matrixOf(0, 1, new Float64Array(0)), 5, 0.9)).toThrow(/points/)
    for (const beta of [0, 1, Number.NaN])
      expect(() => quickShiftPlusPlus(points(1, 2), 2, beta)).toThrow(/beta/)
  })

  it('refuses points that are not finite, and neighbours below 1 or above all points', () => {
    for (const v of [Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => quickShiftPlusPlus(points(1, v, 2), 2, 0.5)).toThrow(/points: row 1/)
    }
    for (const neighbours of [0, 3, 1.5, Number.NaN]) {
      expect(() => quickShiftPlusPlus(points(1, 2), neighbours, 0.5)).toThrow(
        /^neighbours: expected a whole number from 1 to 2/,
      )
    }
  })
})

describe('defaultNeighbours', () => {
  it('is floor(n^(2/3)), exact at cubes, at least 1', () => {
    for (const [n, k] of [
      [1, 1],
      [2, 1],
      [8, 4],
      [1000, 100],
      [999, 99],
      [5000, 292],
      [27_000, 900],
    ] as const) {
      expect(defaultNeighbours(n)).toBe(k)
    }
  })
})

describe('clusters kept', () => {
  const clustering = (sizes: number[]) => ({
    labels: Uint32Array.from(sizes.flatMap((size, label) => Array<number>(size).fill(label))),
    count: sizes.length,
  })

  it('go largest first until the total exceeds the share, ties by appearance', () => {
    expect([...keepLargestClusters(clustering([10, 50, 40]), 0.9, 20)]).toEqual([1, 2, 0])
    expect([...keepLargestClusters(clustering([10, 50, 41]), 0.9, 20)]).toEqual([1, 2])
    expect([...keepLargestClusters(clustering([5, 5, 5, 5]), 0.5, 20)]).toEqual([0, 1, 2])
    expect([...keepLargestClusters(clustering([7]), 1, 20)]).toEqual([0])
  })

  it('are at most so many', () => {
    expect([...keepLargestClusters(clustering([1, 2, 3, 4]), 1, 2)]).toEqual([3, 2])
  })
})
