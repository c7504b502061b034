/** Ending flows a few at a time gives the records of ending them all at once, in the same order. */
import { describe, expect, it } from 'vitest'
import { copyFlowRecord, createFlowExtractor, type FlowRecord } from '../src/index.js'
import { batchesOf, contractOf, extract, type Packet } from './support/packets.js'

describe('endFlows', () => {
  // 40 flows, of which every third is half-open and the first ten are idle when the last packet comes
  const packets: Packet[] = Array.from({ length: 40 }, (_, i): Packet[] => {
    const t = i < 10 ? i : 1000 + i
    const one: Packet = { t, from: [1, 1000 + i], to: [2, 443], flags: 2 }
    return i % 3 === 0 ? [one] : [one, { t: t + 0.5, from: [2, 443], to: [1, 1000 + i], flags: 18 }]
  }).flat()

  it.each([1, 7, 40, 100])('%i at a time', (limit) => {
    const expected = extract(batchesOf(packets), contractOf())
    const records: FlowRecord[] = []
    const extractor = createFlowExtractor({
      contract: contractOf(),
      onRecord: (record) => records.push(copyFlowRecord(record)),
      memoryBytes: 4 * 1024 * 1024,
    })
    for (const batch of batchesOf(packets)) extractor.add(batch)
    let turns = 1
    for (let before = records.length; extractor.endFlows(limit); before = records.length, turns++) {
      expect(records.length - before).toBe(limit)
    }
    expect(turns).toBe(limit >= 40 ? 1 : Math.ceil(40 / limit))
    expect(extractor.openFlows).toBe(0)
    expect(extractor.finish()).toEqual(expected.counters)
    expect(records).toEqual(expected.records)
    expect(new Set(records.map(({ endReason }) => endReason))).toEqual(
      new Set(['idle-timeout', 'end-of-capture']),
    )
  })
})
