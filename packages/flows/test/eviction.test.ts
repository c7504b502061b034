/**
 * When the flow table is full: who goes first, that each eviction is counted, and that no packet is lost, in
 * a flood of SYNs from as many sources (bench/syn-flood.mjs is the same with a million and measures memory).
 */
import { createPacketBatch } from '@oddflow/capture'
import { describe, expect, it } from 'vitest'
import { createFlowExtractor, type FlowRecord } from '../src/index.js'
import { batchesOf, contractOf, extract, type Packet } from './support/packets.js'

const SYN = 2
const ACK = 16
const small = { memoryBytes: 100_000 }

function scan(count: number, from = 0): Packet[] {
  return Array.from({ length: count }, (_, k) => ({
    t: from + k / 1000,
    from: [1, 1 + (k % 60000)] as const,
    to: [2 + Math.floor(k / 60000), 443] as const,
    flags: SYN,
  }))
}

describe('a full table', () => {
  it('ends half-open flows before established ones, though these were silent for longer', () => {
    const open: Packet[] = [0, 1, 2].map((k) => ({ t: 0, from: [9, 1 + k], to: [8, 80], flags: SYN }))
    const answered = open.map((p): Packet => ({ ...p, from: p.to, to: p.from, flags: SYN | ACK }))
    const { records, counters } = extract(
      batchesOf([...open, ...answered, ...scan(3000)]),
      contractOf(),
      small,
    )
    expect(counters.evictedHalfOpenFlows).toBeGreaterThan(2000)
    expect(counters).toMatchObject({ evictedActiveFlows: 0, evictedIdleFlows: 0 })
    expect(counters.evictedFlows).toBe(counters.evictedHalfOpenFlows)
    expect(records.filter((r) => r.packets === 2).map((r) => r.endReason)).toEqual(
      Array(3).fill('end-of-capture'),
    )
  })
  it('ends the least recently active one when all are established', () => {
    const packets = scan(3000).flatMap((p) => [p, { ...p, from: p.to, to: p.from, flags: SYN | ACK }])
    const { records, counters } = extract(batchesOf(packets), contractOf(), small)
    expect(counters.evictedActiveFlows).toBeGreaterThan(2000)
    expect(counters.evictedHalfOpenFlows).toBe(0)
    expect(records.map((r) => r.firstPacketNumber)).toEqual(records.map((_, k) => 2 * k))
  })
  it('ends idle flows first, which counts as their timeout', () => {
    const { maximumFlows } = createFlowExtractor({ contract: contractOf(), onRecord: () => {}, ...small })
    const established: Packet[] = [
      { t: 0, from: [9, 1], to: [8, 80] },
      { t: 0, from: [8, 80], to: [9, 1] },
    ]
    const packets = [...established, ...scan(maximumFlows, 601)]
    const { records, counters } = extract(batchesOf(packets), contractOf(), small)
    expect(counters).toMatchObject({ evictedIdleFlows: 1, evictedFlows: 0 })
    expect(records[0]).toMatchObject({ packets: 2, endReason: 'idle-timeout' })
  })
  it('lets new flows live to have a row when established ones fill it', () => {
    const { maximumFlows } = createFlowExtractor({ contract: contractOf(), onRecord: () => {}, ...small })
    // established flows that go on for ever, one packet of each in turn, and new ones of two packets among them:
    // whichever is ended comes back and ends the next
    const old = Array.from(
      { length: maximumFlows },
      (_, k): Packet => ({ t: 0, from: [9, 1 + k], to: [8, 80] }),
    )
    const packets = [...old, ...old]
    const begun = scan(400, 1)
    begun.forEach((syn, k) => {
      packets.push({ ...syn, flags: SYN })
      for (let turn = 0; turn < 10; turn++) packets.push({ ...old[(10 * k + turn) % old.length]!, t: syn.t })
      packets.push({ ...syn, t: syn.t, from: syn.to, to: syn.from, flags: SYN | ACK })
    })
    const { records, counters } = extract(batchesOf(packets), contractOf(), small)
    expect(counters.evictedFlows).toBeGreaterThan(400)
    const ofNew = records.filter(
      ({ initiatorPort, responderPort }) => initiatorPort === 443 || responderPort === 443,
    )
    expect(ofNew.filter(({ row }) => row !== null).length).toBe(400)
    expect(counters.packets).toBe(records.reduce((sum, record) => sum + record.packets, 0))
  })
  it('ends the longest row among the least recently active ones', () => {
    const { maximumFlows } = createFlowExtractor({ contract: contractOf(), onRecord: () => {}, ...small })
    const old = Array.from(
      { length: maximumFlows },
      (_, k): Packet => ({ t: 0, from: [9, 1 + k], to: [8, 80] }),
    )
    const twice = old.flatMap((p) => [p, p])
    // the 16th from the oldest end, and one beyond those that are compared
    for (const k of [15, 40]) twice.splice(2 * k, 0, old[k]!)
    for (const k of [40]) twice.splice(2 * k, 0, old[k]!)
    const { records } = extract(batchesOf([...twice, ...scan(2, 1)]), contractOf(), small)
    const evicted = records.filter(({ endReason }) => endReason === 'evicted')
    expect(evicted.map(({ initiatorPort, packets }) => [initiatorPort, packets])).toEqual([
      [16, 3],
      [1, 2],
    ])
    expect(evicted.every(({ row }) => row !== null)).toBe(true)
  })
  it('gives half-open flows no more than a quarter of it', () => {
    const { maximumFlows } = createFlowExtractor({ contract: contractOf(), onRecord: () => {}, ...small })
    const old = Array.from(
      { length: maximumFlows },
      (_, k): Packet => ({ t: 0, from: [9, 1 + k], to: [8, 80] }),
    )
    const { records, counters } = extract(batchesOf([...old, ...old, ...scan(3000, 1)]), contractOf(), small)
    expect(counters.evictedActiveFlows).toBe(Math.floor(maximumFlows / 4) + 1)
    expect(counters.evictedHalfOpenFlows).toBe(3000 - counters.evictedActiveFlows)
    expect(records.reduce((sum, record) => sum + record.packets, 0)).toBe(counters.packets)
  })
  it('keeps a flow of repeated SYNs half-open', () => {
    const again = scan(300).flatMap((p) => [p, p])
    const { counters } = extract(batchesOf([...again, ...scan(3000, 10)]), contractOf(), small)
    expect(counters.evictedActiveFlows).toBe(0)
  })
})

it('accounts for 200,000 distinct SYNs exactly', () => {
  const batch = createPacketBatch(2000)
  let [records, packets, evicted] = [0, 0, 0]
  const onRecord = (record: FlowRecord) => {
    records++
    packets += record.packets
    if (record.endReason === 'evicted') evicted++
  }
  const extractor = createFlowExtractor({ contract: contractOf(), onRecord, memoryBytes: 2 * 1024 * 1024 })
  for (let start = 0; start < 200_000; start += batch.status.length) {
    batch.count = batch.status.length
    batch.firstFrame = start
    for (let i = 0; i < batch.count; i++) {
      batch.timestampMicros[i] = start + i
      batch.ipVersion[i] = 4
      batch.protocol[i] = 6
      batch.tcpFlags[i] = SYN
      batch.sourceAddress[4 * i + 3] = 0x0a000000 + start + i
      batch.destinationAddress[4 * i + 3] = 0xc0a80001
      batch.destinationPort[i] = 443
    }
    extractor.add(batch)
    expect(extractor.openFlows).toBeLessThanOrEqual(extractor.maximumFlows)
  }
  const counters = extractor.finish()
  expect([records, packets]).toEqual([200_000, 200_000])
  expect(counters).toMatchObject({ packets: 200_000, packetsInFlows: 200_000, onePacketFlows: 200_000 })
  expect(counters.evictedHalfOpenFlows).toBe(200_000 - extractor.maximumFlows)
  expect(evicted).toBe(counters.evictedFlows)
})
