import { createRng, type Matrix, matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nearestNeighbours, squaredDistance } from '../src/index.js'

function bruteForce({ rows: n, cols, data }: Matrix, k: number): number[][] {
  return Array.from({ length: n }, (_, i) => {
    const d = Array.from({ length: n }, (_, j) => squaredDistance(data, i * cols, data, j * cols, cols))
    return d
      .map((_, j) => j)
      .sort((a, b) => d[a]! - d[b]! || a - b)
      .slice(0, k)
  })
}

const lists = (rows: Matrix, k: number) => {
  const { indices, k: used } = nearestNeighbours(rows, k)
  return Array.from({ length: rows.rows }, (_, i) => [...indices.subarray(i * used, (i + 1) * used)])
}

describe('nearest neighbours', () => {
  it('are those of a full sort, ties by index', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 2, maxLength: 80 }),
        fc.integer({ min: 1, max: 50 }),
        (numbers, k) => {
          const n = numbers.length >> 1
          const rows = matrixOf(n, 2, Float64Array.from(numbers.slice(0, 2 * n)))
          expect(lists(rows, k)).toEqual(bruteForce(rows, Math.min(k, n)))
        },
      ),
    )
  })

  it('are so for many rows, where a threshold is guessed, whatever their order', () => {
    const n = 350
    const rng = createRng(11)
    const random = Float64Array.from({ length: 3 * n }, () => rng.nextNormal())
    const tied = random.map((v) => Math.round(2 * v))
    const sorted = random.slice().sort()
    // every sixteenth row is far away: the guessed threshold is of no use
    const misleading = random.map((v, i) => (Math.floor(i / 3) % 16 === 0 ? v + 1e6 * i : v))
    for (const data of [random, tied, sorted, misleading]) {
      const rows = matrixOf(n, 3, data)
      expect(lists(rows, 20)).toEqual(bruteForce(rows, 20))
    }
  })

  it('has the radius, the distance to the last neighbour', () => {
    const rows = matrixOf(4, 1, Float64Array.of(0, 1, 3, 7))
    expect([...nearestNeighbours(rows, 2).squaredRadii]).toEqual([1, 1, 4, 16])
  })

  it('refuses k below 1', () => {
    expect(() => nearestNeighbours(matrixOf(1, 1, new Float64Array(1)), 0)).toThrow(/k: expected/)
  })
})
