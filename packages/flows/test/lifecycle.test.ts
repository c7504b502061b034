/** A wrong call is refused by name and changes nothing. */
import { ArgumentError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { createFlowCollector, createFlowExtractor } from '../src/index.js'
import { batchesOf, contractOf } from './support/packets.js'

const packets = Array.from({ length: 20 }, (_, k) => ({
  t: k,
  from: [1 + (k % 5), 1000] as const,
  to: [9, 443] as const,
}))
const [batch] = batchesOf(packets)

describe('an extractor', () => {
  it.each([-1, 2.5, Number.NaN, 65])('refuses a batch whose count is %s', (count) => {
    const extractor = createFlowExtractor({ contract: contractOf(), onRecord: () => {} })
    extractor.add(batch)
    expect(() => extractor.add({ ...batch, count })).toThrow(ArgumentError)
    expect(extractor.finish().packets).toBe(20)
  })

  it('takes nothing after finish, and tells the same counts again', () => {
    const extractor = createFlowExtractor({ contract: contractOf(), onRecord: () => {} })
    extractor.add(batch)
    const counters = extractor.finish()
    for (const late of [
      () => extractor.add(batch),
      () => extractor.expire(1),
      () => extractor.endFlows(1),
      () => extractor.endCapture(),
    ]) {
      expect(late).toThrow(/have ended with finish/)
    }
    expect(extractor.finish()).toEqual(counters)
  })

  it('is not entered by its own callbacks', () => {
    const errors: unknown[] = []
    const extractor = createFlowExtractor({
      contract: contractOf(),
      onRecord: () => {
        try {
          extractor.add(batch)
        } catch (error) {
          errors.push(error)
        }
      },
    })
    extractor.add(batch)
    extractor.finish()
    expect(errors.length).toBeGreaterThanOrEqual(5)
    expect(String(errors[0])).toMatch(/called by a callback/)
  })

  it('refuses a time or a limit that is no number', () => {
    const extractor = createFlowExtractor({ contract: contractOf(), onRecord: () => {} })
    extractor.add(batch)
    expect(() => extractor.expire(Number.NaN)).toThrow(/nowMicros: expected a number, found NaN/)
    expect(() => extractor.endFlows(Number.NaN)).toThrow(/limit/)
    expect(() => extractor.endFlows(-1)).toThrow(/limit/)
    expect(extractor.openFlows).toBe(5)
  })
})

describe('a collector', () => {
  it('refuses odd counts, and all after finish', () => {
    const collector = createFlowCollector()
    collector.add(batch)
    expect(() => collector.add({ ...batch, count: 65 })).toThrow(ArgumentError)
    expect(collector.finish().counters.packets).toBe(20)
    expect(() => collector.add(batch)).toThrow(/have ended with finish/)
  })
})
