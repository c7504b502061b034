import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { squaredDistance, squaredDistances, squaredDistancesOfFour } from '../src/index.js'

const value = fc.double({ min: -1e6, max: 1e6, noNaN: true })

describe('squared distances', () => {
  it('are the plain sum, bit for bit, in every kernel, at every place, in both directions', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 0, max: 11 }),
        fc.infiniteStream(value),
        (d, count, numbers) => {
          const take = (n: number) => Float64Array.from({ length: n }, () => numbers.next().value as number)
          const x = take(4 * d + 3)
          const y = take(count * d + 2)
          const plain = (r: number, j: number) => {
            let sum = 0
            for (let t = 0; t < d; t++) sum += (x[3 + r * d + t]! - y[2 + j * d + t]!) ** 2
            return sum
          }
          const four = new Float64Array(4 * (count + 1) + 1)
          squaredDistancesOfFour(x, 3, y, 2, count, d, four, 1, count + 1)
          for (let r = 0; r < 4; r++) {
            const one = new Float64Array(count + 1)
            squaredDistances(x, 3 + r * d, y, 2, count, d, one, 1)
            for (let j = 0; j < count; j++) {
              expect(one[1 + j]).toBe(plain(r, j))
              expect(four[1 + r * (count + 1) + j]).toBe(plain(r, j))
              expect(squaredDistance(y, 2 + j * d, x, 3 + r * d, d)).toBe(plain(r, j))
            }
          }
        },
      ),
      { numRuns: sampleCount(40, 0.25) },
    )
  })

  it('do not lose small distances between large numbers', () => {
    const x = Float64Array.of(1e8)
    const y = Float64Array.of(1e8 + 1e-7)
    expect(squaredDistance(x, 0, y, 0, 1)).toBeGreaterThan(0)
  })
})
