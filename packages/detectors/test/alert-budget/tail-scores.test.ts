import { ArgumentError, DataError } from '@oddflow/core'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createTailScoreCollector } from '../../src/calibration/tail-scores.js'

const scores = fc.array(
  fc.oneof(fc.integer({ min: -5, max: 5 }), fc.double({ noNaN: true, noDefaultInfinity: true })),
  {
    maxLength: 80,
  },
)

it('keeps the lowest, and the count of all, also when it goes on from an earlier one', () => {
  fc.assert(
    fc.property(scores, scores, fc.integer({ min: 1, max: 30 }), (first, second, capacity) => {
      const collector = createTailScoreCollector(capacity)
      for (const score of first) collector.add(score)
      const next = createTailScoreCollector(capacity, collector.snapshot())
      for (const score of second) next.add(score)
      const all = Float64Array.from([...first, ...second]).sort()
      const { count, lowest } = next.snapshot()
      expect(count).toBe(all.length)
      expect([...lowest]).toEqual([...all.subarray(0, capacity)])
    }),
  )
})

it('refuses what is no score, and what is no earlier state', () => {
  expect(() => createTailScoreCollector().add(Number.NaN)).toThrow(DataError)
  const refused = [
    { count: 3, lowest: Float64Array.of(2, 1, 3) },
    { count: 1, lowest: Float64Array.of(1, 2) },
    { count: 9, lowest: Float64Array.of(1, 2) },
    { count: 2, lowest: Float64Array.of(1, Number.NaN) },
    { count: -1, lowest: new Float64Array(0) },
  ]
  for (const earlier of refused) expect(() => createTailScoreCollector(8, earlier)).toThrow(ArgumentError)
  expect(() => createTailScoreCollector(0)).toThrow(ArgumentError)
})
