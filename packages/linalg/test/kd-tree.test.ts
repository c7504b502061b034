import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createKdTree,
  neighbourRadii,
  squaredDistance,
  squaredDistances,
  squaredDistanceToBox,
  squaredGap,
  squaredReach,
} from '../src/index.js'
import { selectPairs, selectValue } from '../src/pair-distance-quantiles.js'

/** Points with many ties, or with none, or spread over many orders of magnitude; d from 1 to 4. */
const pointSets = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 120 }), fc.integer({ min: 0, max: 2 }))
  .chain(([d, n, kind]) =>
    fc
      .array(
        kind === 0
          ? fc.integer({ min: 0, max: 3 })
          : kind === 1
            ? fc.double({ min: -1, max: 1, noNaN: true })
            : fc.double({ min: -1e300, max: 1e300, noNaN: true }),
        { minLength: n * d, maxLength: n * d },
      )
      .map((values) => matrixOf(n, d, Float64Array.from(values))),
  )

describe('k-d tree', () => {
  it('holds every point once, in its leaves, each node within its box', () => {
    fc.assert(
      fc.property(pointSets, (rows) => {
        const tree = createKdTree(rows)
        const { points, indices, starts, ends, seconds, lows, highs } = tree
        const { cols: d, rows: n } = rows
        expect([...indices].sort((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, i) => i))
        let sound = true
        for (let i = 0; i < n; i++) {
          for (let t = 0; t < d; t++) sound &&= points.data[i * d + t] === rows.data[indices[i]! * d + t]
        }
        let inLeaves = 0
        for (let node = 0; node < tree.nodes; node++) {
          if (seconds[node] === 0) inLeaves += ends[node]! - starts[node]!
          else {
            expect([starts[node + 1], ends[seconds[node]!]]).toEqual([starts[node], ends[node]])
            expect(ends[node + 1]).toBe(starts[seconds[node]!])
          }
          for (let i = starts[node]!; i < ends[node]!; i++) {
            for (let t = 0; t < d; t++) {
              const v = points.data[i * d + t]!
              sound &&= v >= lows[node * d + t]! && v <= highs[node * d + t]!
            }
          }
        }
        expect(inLeaves).toBe(n)
        expect(sound).toBe(true)
      }),
    )
  })

  it('has bounds that no distance breaks by as much as a bit', () => {
    fc.assert(
      fc.property(pointSets, (rows) => {
        const tree = createKdTree(rows)
        const { points, starts, ends } = tree
        const d = points.cols
        let held = true
        for (let a = 0; a < tree.nodes; a += 3) {
          for (let b = 0; b < tree.nodes; b += 2) {
            const gap = squaredGap(tree, a, b)
            const reach = squaredReach(tree, a, b)
            for (let i = starts[a]!; i < ends[a]!; i++) {
              const toBox = squaredDistanceToBox(tree, b, points.data, i * d)
              for (let j = starts[b]!; j < ends[b]!; j++) {
                const distance = squaredDistance(points.data, i * d, points.data, j * d, d)
                held &&= distance >= gap && distance >= toBox && distance <= reach
              }
            }
          }
        }
        expect(held).toBe(true)
      }),
      { numRuns: sampleCount(40, 0.25) },
    )
  })
})

describe('neighbour radii', () => {
  const expectSame = (rows: Matrix, k: number) => {
    const { rows: n, cols, data } = rows
    const radii = neighbourRadii(createKdTree(rows), k)
    expect(radii.k).toBe(Math.min(k, n))
    const squares = new Float64Array(n)
    const squaredRadii = new Float64Array(n)
    const lastNeighbours = new Uint32Array(n)
    for (let i = 0; i < n; i++) {
      squaredDistances(data, i * cols, data, 0, n, cols, squares, 0)
      const radius = squares.slice().sort()[radii.k - 1]!
      // of rows as far as the last neighbour, the lowest numbers come first
      let left = radii.k - squares.filter((square) => square < radius).length
      squaredRadii[i] = radius
      lastNeighbours[i] = squares.findIndex((square) => square === radius && --left === 0)
    }
    expect(radii.squaredRadii).toEqual(squaredRadii)
    expect(radii.lastNeighbours).toEqual(lastNeighbours)
  }

  it('are those of the lists of neighbours, to the last bit, ties by index', () => {
    fc.assert(fc.property(pointSets, fc.integer({ min: 1, max: 130 }), expectSame), {
      numRuns: sampleCount(200),
    })
  })

  it('are so for clusters, lines, copies and points without order', () => {
    const n = 700
    const rng = createRng(4)
    const normal = Float64Array.from({ length: 3 * n }, () => rng.nextNormal())
    const sets = [
      normal,
      normal.map((v, at) => v * 1e-3 + 10 * (Math.floor(at / 3) % 7)),
      normal.map((v) => Math.round(v)),
      normal.map((_, at) => Math.floor(at / 3) * 1e-7),
      normal.map((v, at) => (at % 2 === 0 ? v * 1e12 : v * 1e-12)),
    ]
    for (const data of sets) for (const k of [1, 73, 700]) expectSame(matrixOf(n, 3, data), k)
  })

  it('take distances that leave the range of numbers for infinite', () => {
    expectSame(matrixOf(5, 1, Float64Array.of(1e200, -1e200, 3e200, 1e-200, 2e200)), 3)
  })

  it('refuse k below 1', () => {
    const tree = createKdTree(matrixOf(1, 1, new Float64Array(1)))
    for (const k of [0, -1, 1.5, Number.NaN]) expect(() => neighbourRadii(tree, k)).toThrow(/k: expected/)
  })
})

describe('selection', () => {
  it('puts the value of a place where sorting would, and the next behind it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.double({ noNaN: true })), {
          minLength: 1,
          maxLength: 90,
        }),
        fc.nat(),
        (numbers, at) => {
          const place = at % numbers.length
          const values = Float64Array.from(numbers, (v) => v + 0)
          const sorted = values.slice().sort()
          expect(selectValue(values, 0, values.length - 1, place)).toBe(sorted[place])
          if (place + 1 < values.length) {
            expect(selectValue(values, place, values.length - 1, place + 1)).toBe(sorted[place + 1])
          }
          expect(values.sort()).toEqual(sorted)
        },
      ),
    )
  })

  it('puts the pair of a rank where sorting would', () => {
    type Pair = readonly [value: number, index: number]
    const compare = (a: Pair, b: Pair) => a[0] - b[0] || a[1] - b[1]
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 90 }),
        fc.nat(),
        (numbers, at) => {
          const n = numbers.length
          const rank = at % n
          const values = Float64Array.from(numbers)
          const indices = Uint32Array.from({ length: n }, (_, i) => n - 1 - i)
          const sorted = numbers.map((v, i): Pair => [v, n - 1 - i]).sort(compare)
          selectPairs(values, indices, n, rank)
          const pairs = Array.from(values, (v, i): Pair => [v, indices[i]!])
          const chosen = pairs[rank]!
          expect(chosen).toEqual(sorted[rank])
          expect([...pairs].sort(compare)).toEqual(sorted)
          expect(pairs.slice(0, rank).every((pair) => compare(pair, chosen) < 0)).toBe(true)
          expect(pairs.slice(rank + 1).every((pair) => compare(pair, chosen) > 0)).toBe(true)
        },
      ),
    )
  })
})
