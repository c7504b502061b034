import { matrixOf } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { forEachPairRun } from '../src/pair-distance-quantiles.js'

/** All squared distances in the order in which they are visited. */
function runsOf(n: number, cols: number, simd: boolean): number[] {
  const data = Float64Array.from({ length: n * cols }, (_, i) => ((i * 7919) % 101) / 7 - 3)
  const found: number[] = []
  forEachPairRun(
    matrixOf(n, cols, data),
    (values, start, count) => found.push(...values.subarray(start, start + count)),
    simd,
  )
  return found
}

describe('forEachPairRun', () => {
  it('visits every pair once, and the same numbers in the same order on both paths', () => {
    for (const n of [2, 3, 4, 5, 7, 8, 9, 13, 16, 30]) {
      for (const cols of [1, 2, 5]) {
        const typed = runsOf(n, cols, false)
        expect(typed.length).toBe((n * (n - 1)) / 2)
        expect(runsOf(n, cols, true)).toEqual(typed)
      }
    }
  })
})
