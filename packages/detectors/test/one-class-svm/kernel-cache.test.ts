/** The cache against a plain map from row to values, under random use. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KernelCache } from '../../src/one-class-svm/active-set.js'

const WIDTH = 12
const value = (row: number, column: number) => 100 * row + column

describe('Kernel cache', () => {
  it('gives back what was put there, through narrowing and clearing, and the newest two always', () => {
    const steps = fc.array(
      fc.oneof(
        { weight: 12, arbitrary: fc.record({ use: fc.nat(WIDTH - 1) }) },
        {
          weight: 1,
          arbitrary: fc.record({ keep: fc.array(fc.boolean(), { minLength: WIDTH, maxLength: WIDTH }) }),
        },
        { weight: 1, arbitrary: fc.constant({ clear: true }) },
      ),
      { maxLength: 80 },
    )
    const sizes = fc.integer({ min: 0, max: 8 * WIDTH * (WIDTH + 1) })
    fc.assert(
      fc.property(sizes, steps, (bytes, list) => {
        const cache = new KernelCache(WIDTH, bytes, 'float64')
        let ids = Array.from({ length: WIDTH }, (_, i) => i)
        let recent: number[] = []
        const check = (position: number, at: number) =>
          ids.forEach((id, p) => {
            expect(cache.data[at + p]).toBe(value(ids[position]!, id))
          })
        for (const step of list) {
          if ('use' in step) {
            const position = step.use % ids.length
            let at = cache.find(position)
            if (at < 0) {
              at = cache.claim(position)
              ids.forEach((id, p) => {
                cache.data[at + p] = value(ids[position]!, id)
              })
            }
            recent = [position, ...recent.filter((p) => p !== position)].slice(0, 2)
          } else if ('keep' in step) {
            const kept = ids.flatMap((_, p) => (step.keep[p] ? [p] : []))
            if (kept.length < 2) continue
            cache.keepOnly(Int32Array.from(kept), kept.length)
            recent = recent.flatMap((p) => (kept.includes(p) ? [kept.indexOf(p)] : []))
            ids = kept.map((p) => ids[p]!)
          } else {
            cache.clear(WIDTH)
            ids = Array.from({ length: WIDTH }, (_, i) => i)
            recent = []
          }
          for (const p of recent) expect(cache.has(p)).toBe(true)
          ids.forEach((_, p) => {
            if (cache.has(p)) check(p, cache.find(p))
          })
          // the check above was a use of every row: make the newest two the newest again
          for (const p of [...recent].reverse()) cache.find(p)
          expect(cache.data.length).toBeLessThanOrEqual(Math.max(2 * WIDTH, bytes / 8))
        }
      }),
      { numRuns: sampleCount(400) },
    )
  })
})
