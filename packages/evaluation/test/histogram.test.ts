import { ArgumentError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { histogram, histogramEdges } from '../src/index.js'

const values = fc.array(fc.oneof(fc.double({ noNaN: true }), fc.integer({ min: -9, max: 9 })), {
  minLength: 1,
})

describe('histogram', () => {
  it('counts every value once, in the bin whose edges hold it', () => {
    fc.assert(
      fc.property(
        values,
        fc.integer({ min: 1, max: 40 }),
        fc.double({ min: 0, max: 0.49, noNaN: true }),
        (list, bins, tail) => {
          fc.pre(list.some(Number.isFinite))
          const edges = histogramEdges(list, bins, tail)
          expect(edges.length).toBe(bins + 1)
          expect(edges.every(Number.isFinite)).toBe(true)
          const { counts, below, above } = histogram(list, edges)
          expect(counts.reduce((a, b) => a + b, 0) + below + above).toBe(list.length)
          const cumulative = (edge: number): number => list.filter((v) => v < edge).length
          let so = below
          for (let i = 0; i + 1 < bins; i++) {
            so += counts[i]!
            expect(so).toBe(cumulative(edges[i + 1]!))
          }
        },
      ),
      { numRuns: sampleCount(300) },
    )
  })

  it('is, by hand', () => {
    const edges = histogramEdges([0, 1, 2, 3, 4], 2)
    expect([...edges]).toEqual([0, 2, 4])
    expect(histogram([-1, 0, 1.9, 2, 4, 4.1], edges)).toEqual({
      edges,
      counts: Float64Array.of(2, 2),
      below: 1,
      above: 1,
    })
  })

  it('leaves out a far tail but counts it', () => {
    const scores = [-1e9, ...Array.from({ length: 99 }, (_, i) => i)]
    const edges = histogramEdges(scores, 10, 0.02)
    expect(edges[0]).toBe(0)
    expect(histogram(scores, edges).below).toBe(1)
  })

  it('gives bins around values that are all equal', () => {
    for (const value of [0, 7, -1e300]) {
      const { counts, below, above } = histogram([value, value], histogramEdges([value, value], 3))
      expect([...counts, below, above]).toEqual([0, 2, 0, 0, 0])
    }
  })

  it.each<[string, () => unknown]>([
    ['no bins', () => histogramEdges([1], 0)],
    ['a tail of one half', () => histogramEdges([1], 1, 0.5)],
    ['nothing', () => histogramEdges([], 1)],
    ['nothing finite', () => histogramEdges([Number.POSITIVE_INFINITY], 1)],
    ['NaN', () => histogram([Number.NaN], Float64Array.of(0, 1))],
    ['one edge', () => histogram([1], Float64Array.of(0))],
    ['edges out of order', () => histogram([1], Float64Array.of(1, 0))],
  ])('refuses %s', (_, call) => {
    expect(call).toThrow(ArgumentError)
  })
})
