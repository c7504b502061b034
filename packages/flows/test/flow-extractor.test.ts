import { ArgumentError, type FlowContract, FormatError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  copyFlowRecord,
  createFlowExtractor,
  extractRecords,
  type FlowRecord,
  learnIatSizeContract,
  learnOnePacketRule,
} from '../src/index.js'
import { batchesOf, collect, contractOf, extract, inOrder, type Packet } from './support/packets.js'

const A = [1, 4000] as const
const B = [2, 443] as const

/** Packets of one flow at these seconds, sizes 100, 101, … */
function flowAt(times: readonly number[]): Packet[] {
  return times.map((t, i) => ({
    t,
    from: i % 2 === 0 ? A : B,
    to: i % 2 === 0 ? B : A,
    bytes: 100 + i,
  }))
}

function run(packets: readonly Packet[], changes = {}) {
  return extract(batchesOf(packets), contractOf(changes))
}

describe('timeouts', () => {
  it('splits on a gap longer than 600 s and not on one of exactly 600 s', () => {
    const truncation = { mode: 'truncate', durationMicros: 1e10 }
    expect(run(flowAt([0, 600, 1200]), { truncation }).records.map((r) => r.packets)).toEqual([3])
    const { records } = run(flowAt([0, 600, 1200.000001, 1201]), { truncation })
    expect(records.map((r) => [r.packets, r.endReason, r.pieceIndex])).toEqual([
      [2, 'idle-timeout', 0],
      [2, 'end-of-capture', 0],
    ])
    // The next flow of the same key has an initiator of its own.
    expect(records.map((r) => r.initiatorPort)).toEqual([4000, 4000])
  })

  it('begins the next record at the active timeout, counted from the start of the record', () => {
    const truncation = { mode: 'truncate', durationMicros: 1e10 }
    const { records } = run(flowAt([0, 20, 40, 60, 61, 100]), { truncation, activeTimeoutMicros: 40e6 })
    expect(records.map((r) => [r.packets, r.endReason, r.pieceIndex, r.startMicros])).toEqual([
      [3, 'active-timeout', 0, 0],
      [3, 'end-of-capture', 1, 60e6],
    ])
  })

  it('lets time stand still where it runs backwards, counts it, and splits nothing', () => {
    const { records, counters } = run(flowAt([0, 2, 1, 3]))
    expect(counters.timestampBackwards).toBe(1)
    expect(Array.from(records[0].row!)).toEqual([2, 100, 0, 101, 2, 102, 103])
    expect(records[0].durationMicros).toBe(4e6)
  })
})

describe('truncate', () => {
  const truncation = { mode: 'truncate', durationMicros: 5_000_000 }
  it('keeps what is later than the duration out of the row and in the totals', () => {
    const { records } = run(flowAt([0, 5, 5.000001, 9]), { truncation })
    expect(records).toHaveLength(1)
    expect(Array.from(records[0].row!)).toEqual([5, 100, 101, 0, 0, 0, 0])
    expect(records[0]).toMatchObject({ packets: 4, rowPackets: 2, bytes: 406, durationMicros: 9e6 })
  })
  it('makes no row, and says so, where one packet alone is in time', () => {
    const { records, counters } = run(flowAt([0, 6, 7]), { truncation })
    expect(records[0]).toMatchObject({ row: null, noRowReason: 'too-few-packets', packets: 3 })
    expect(counters).toMatchObject({ records: 1, rows: 0, shortRecords: 1, onePacketFlows: 0 })
  })
})

describe('split', () => {
  it('starts the next record at the first packet later than the window', () => {
    const { records } = run(flowAt([0, 10, 10.5, 11, 30, 31]))
    expect(records.map((r) => [r.startMicros, r.packets, r.endReason])).toEqual([
      [0, 2, 'window'],
      [10.5e6, 2, 'window'],
      [30e6, 2, 'end-of-capture'],
    ])
    // The initiator is that of the flow, also where the responder sends a record's first packet.
    expect(records.map((r) => r.initiatorPort)).toEqual([4000, 4000, 4000])
    expect(records.map((r) => r.firstPacketNumber)).toEqual([0, 2, 4])
    expect(records.map((r) => r.flowFirstPacketNumber)).toEqual([0, 0, 0])
    expect(records.map((r) => r.flowStartMicros)).toEqual([0, 0, 0])
  })
  it('keeps a window open until it holds two packets, so slow traffic makes rows', () => {
    const { records } = run(flowAt([0, 60, 120, 180, 240]))
    expect(records.map((r) => [r.packets, r.noRowReason])).toEqual([
      [2, null],
      [2, null],
      [1, 'remainder'],
    ])
  })
  it('counts the packet that is left over, and does not call it a flow of one packet', () => {
    const { counters } = run(flowAt([0, 60, 120]))
    expect(counters).toMatchObject({ remainders: 1, remainderPackets: 1, onePacketFlows: 0, rows: 1 })
  })
})

describe('records', () => {
  it('cuts the sequence at D columns, or pads it, the last size right after the last pair', () => {
    const long = run(flowAt([0, 1, 2, 3, 4, 5])).records[0]
    expect(Array.from(long.row!)).toEqual([1, 100, 1, 101, 1, 102, 1])
    const full = run(flowAt([0, 1, 2, 3])).records[0]
    expect(Array.from(full.row!)).toEqual([1, 100, 1, 101, 1, 102, 103])
    expect(long.rowPackets).toBe(6)
    expect(Array.from(run(flowAt([0, 1, 3])).records[0].row!)).toEqual([1, 100, 2, 101, 102, 0, 0])
  })
  it('gives microseconds and IP lengths where the contract asks for them', () => {
    const { records } = run(flowAt([0, 0.1]), { iatUnit: 'microseconds', sizeMeasure: 'ip' })
    expect(Array.from(records[0].row!)).toEqual([100000, 86, 87, 0, 0, 0, 0])
    expect(records[0].bytes).toBe(173)
  })
  it('tells who began it', () => {
    const { records } = run([
      { t: 0, from: B, to: A },
      { t: 1, from: A, to: B },
    ])
    expect(records[0]).toMatchObject({ ipVersion: 4, protocol: 6, initiatorPort: 443, responderPort: 4000 })
    expect(records[0].initiatorAddress[3]).toBe(0x0a000002)
    expect(records[0].responderAddress[3]).toBe(0x0a000001)
    expect([records[0].initiatorMac[5], records[0].responderMac[5]]).toEqual([2, 1])
  })
  it('keeps captures apart', () => {
    const records: FlowRecord[] = []
    const extractor = createFlowExtractor({
      contract: contractOf(),
      onRecord: (r) => records.push({ ...r }),
    })
    for (let capture = 0; capture < 2; capture++) {
      for (const batch of batchesOf(flowAt([5, 6]))) extractor.add(batch)
      extractor.endCapture()
    }
    expect(records.map((r) => [r.captureIndex, r.packets])).toEqual([
      [0, 2],
      [1, 2],
    ])
    expect(extractor.openFlows).toBe(0)
  })
})

describe('counts', () => {
  it('finds every packet again: in a flow, or dropped by name', () => {
    const { counters, records } = run([
      ...flowAt([0, 1]),
      { t: 1, from: A, to: B, status: 'arp' },
      { t: 1, from: A, to: B, status: 'ip-later-fragment' },
      { t: Number.NaN, from: A, to: B },
      { t: 1, from: A, to: B, protocol: 1 },
      { t: 1, from: A, to: B, protocol: 132 },
      { t: 1, from: A, to: B, protocol: 200 },
      { t: 1, from: A, to: [9, 80] },
    ])
    expect(counters.dropped).toEqual({
      arp: 1,
      'ip-later-fragment': 1,
      'no-timestamp': 1,
      'protocol-icmp': 1,
      'protocol-sctp': 1,
      'protocol-200': 1,
    })
    expect(counters).toMatchObject({ packets: 9, packetsInFlows: 3, flows: 2, records: 2, rows: 1 })
    expect(inOrder(records).map((r) => r.noRowReason)).toEqual([null, 'one-packet'])
  })
})

describe('limits', () => {
  const scan: Packet[] = Array.from({ length: 5000 }, (_, k) => ({
    t: k / 1000,
    from: [1, 1 + k],
    to: [2, 443],
  }))
  it('ends the least recently active flow when memory is full, counted, and loses no packet', () => {
    const { records, counters } = extract(batchesOf(scan), contractOf(), { memoryBytes: 100_000 })
    expect(counters.evictedFlows).toBeGreaterThan(4000)
    expect(counters.evictedFlows).toBe(records.filter((r) => r.endReason === 'evicted').length)
    expect(records.reduce((sum, r) => sum + r.packets, 0)).toBe(5000)
    expect(counters.onePacketFlows).toBe(5000)
    // The oldest first.
    expect(records.map((r) => r.firstPacketNumber)).toEqual(scan.map((_, k) => k))
  })
  it('spares the flow that is active, and gives its whole row beside a flood', () => {
    const packets = scan.flatMap((packet, k) => [
      packet,
      {
        t: k / 1000,
        from: k % 2 ? B : ([3, 5] as const),
        to: k % 2 ? ([3, 5] as const) : B,
        bytes: 200 + (k % 50),
      },
    ])
    const contract = contractOf({ packetsPerFlow: 2000, dimension: 3999 })
    const small = extract(batchesOf(packets), contract, { memoryBytes: 150_000 })
    const large = extract(batchesOf(packets), contract)
    const rowOf = (e: typeof small) => e.records.filter((r) => r.row !== null).map((r) => r.row)
    expect(rowOf(small)).toEqual(rowOf(large))
    expect(rowOf(small)).toHaveLength(1)
    expect(small.counters.evictedFlows).toBeGreaterThan(0)
    expect(large.counters.evictedFlows).toBe(0)
  })
  it('refuses what cannot work', () => {
    const onRecord = () => {}
    expect(() => createFlowExtractor({ contract: contractOf(), onRecord, memoryBytes: 10 })).toThrow(
      ArgumentError,
    )
    expect(() => createFlowExtractor({ contract: contractOf(), onRecord, row: new Float64Array(3) })).toThrow(
      ArgumentError,
    )
    expect(() => createFlowExtractor({ contract: contractOf({ dimension: 8 }), onRecord })).toThrow(
      FormatError,
    )
  })
})

it('the example of docs/flows.md', () => {
  const times = [0, 4, 10, 10.5, 30, 31, 32, 33, 90]
  const sizes = [74, 60, 90, 80, 74, 60, 66, 70, 50]
  const packets = times.map((t, i): Packet => ({ t, from: A, to: B, bytes: sizes[i] }))
  const rowsOf = (mode: 'split' | 'truncate') =>
    run(packets, { packetsPerFlow: 3, truncation: { mode, durationMicros: 10e6 } }).records.map((r) =>
      r.row === null ? r.noRowReason : Array.from(r.row).join(' '),
    )
  expect(rowsOf('split')).toEqual(['4 74 6 60 90', '19.5 80 74 0 0', '1 60 1 66 70', 'remainder'])
  expect(rowsOf('truncate')).toEqual(['4 74 6 60 90'])
})

describe('transports', () => {
  // a ping answered, an error message alone, SCTP, and a TCP pair
  const packets: Packet[] = [
    { t: 0, from: [1, 8], to: [2, 0], protocol: 1 },
    { t: 0.1, from: [2, 0], to: [1, 8], protocol: 1 },
    { t: 0.2, from: [2, 3], to: [1, 1], protocol: 1 },
    { t: 0.3, from: [1, 128], to: [2, 129], protocol: 58, version: 6 },
    { t: 0.4, from: [1, 5000], to: [2, 2905], protocol: 132 },
    { t: 0.5, from: [2, 2905], to: [1, 5000], protocol: 132 },
    { t: 1, from: [1, 5000], to: [2, 2905] },
    { t: 2, from: [2, 2905], to: [1, 5000] },
    { t: 3, from: [1, 0], to: [2, 0], protocol: 47 },
  ]

  it('other than TCP and UDP make flows where the contract says so, and are counted elsewhere', () => {
    const usual = extract(batchesOf(packets), contractOf())
    expect(usual.records.map((r) => r.protocol)).toEqual([6])
    expect(usual.counters.dropped).toEqual({
      'protocol-icmp': 3,
      'protocol-icmpv6': 1,
      'protocol-sctp': 2,
      'protocol-gre': 1,
    })
    const all = contractOf({ protocols: ['tcp', 'udp', 'icmp', 'sctp'] })
    const { records, counters } = extract(batchesOf(packets), all)
    expect(inOrder(records).map((r) => [r.protocol, r.packets, r.initiatorPort, r.responderPort])).toEqual([
      [1, 2, 8, 0],
      [1, 1, 3, 1],
      [58, 1, 128, 129],
      [132, 2, 5000, 2905],
      [6, 2, 5000, 2905],
    ])
    expect(counters.dropped).toEqual({ 'protocol-gre': 1 })
    expect(counters.packets).toBe(counters.packetsInFlows + 1)
    const icmp = extract(batchesOf(packets), contractOf({ protocols: ['icmp'] }))
    expect(icmp.counters.dropped).toMatchObject({ 'protocol-tcp': 2, 'protocol-sctp': 2 })
    const collected: FlowRecord[] = []
    extractRecords(collect(batchesOf(packets), all), all, (r) => collected.push(copyFlowRecord(r)))
    expect(inOrder(collected)).toEqual(inOrder(records))
  })

  it('are part of what is learned and of what must agree', () => {
    const flows = collect(batchesOf(packets), { protocols: ['sctp', 'tcp'] })
    const view = { decapsulation: 'inner', joinFragments: true } as const
    const contract = learnIatSizeContract(flows, { view })
    expect(contract).toMatchObject({ ...view, protocols: ['tcp', 'sctp'] })
    expect(extractRecords(flows, contract, () => {})).toMatchObject({ rows: 2 })
    expect(() => extractRecords(flows, contractOf(), () => {})).toThrow(
      'protocols: the contract says tcp,udp, the flows were collected with tcp,sctp',
    )
    const unknown = ['gre'] as unknown as NonNullable<FlowContract['protocols']>
    expect(() => collect(batchesOf(packets), { protocols: unknown })).toThrow(
      'protocols: expected some of tcp, udp, icmp, sctp, found gre',
    )
  })

  it('have a service for flows of one packet: ICMP its type, of either direction', () => {
    const flows = collect(batchesOf(packets), { protocols: ['tcp', 'udp', 'icmp', 'sctp'] })
    expect(learnOnePacketRule(flows).services).toEqual(['icmp/3', 'icmpv6/128'])
  })
})
