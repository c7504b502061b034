/**
 * TCP flows that end when they close: by hand, over small captures, and against a reference in the plainest code over
 * random traffic.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { formatAddress } from '@oddflow/capture'
import type { FlowContract } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  connectionState,
  copyFlowRecord,
  createFlowCollector,
  createFlowExtractor,
  extractRecords,
  type FlowRecord,
  flowSummaryContract,
} from '../src/index.js'
import { batchesOf, collect, contractOf, extract, inOrder, type Packet } from './support/packets.js'
import { readPackets, shared } from './support/shared.js'

const [FIN, SYN, RST, ACK] = [1, 2, 4, 16]
const A = [1, 4000] as const
const B = [2, 443] as const
const IDLE = 20_000_000
const closing = contractOf({ endOnClose: true, idleTimeoutMicros: IDLE, packetsPerFlow: 9 })
const out = (t: number, flags: number, bytes = 60): Packet => ({ t, from: A, to: B, flags, bytes })
const back = (t: number, flags: number, bytes = 60): Packet => ({ t, from: B, to: A, flags, bytes })
const other = (t: number): Packet => ({ t, from: [7, 7], to: [8, 8], protocol: 17 })

const ofA = (records: readonly FlowRecord[]) =>
  inOrder(records)
    .filter(({ protocol }) => protocol === 6)
    .map((r) => [r.startMicros / 1e6, r.packets, r.endReason])

describe('a flow', () => {
  const handshake = [out(0, SYN), back(0.1, SYN | ACK), out(0.2, ACK)]
  const fins = [out(1, FIN | ACK), back(1.1, FIN | ACK), out(1.2, ACK)]

  it('is given out half a second after both FINs, as soon as any packet is later', () => {
    const times: number[] = []
    let now = 0
    const extractor = createFlowExtractor({ contract: closing, onRecord: () => times.push(now) })
    for (const packet of [...handshake, ...fins, other(1.5), other(1.6), other(1.7), other(3)]) {
      now = packet.t
      for (const batch of batchesOf([packet])) extractor.add(batch)
    }
    // The packet at 1.7 s has its turn when a later one has come.
    expect(times).toEqual([3])
    expect(extractor.openFlows).toBe(1)
  })

  it('is given out by expire', () => {
    const records: FlowRecord[] = []
    const extractor = createFlowExtractor({
      contract: closing,
      onRecord: (r) => records.push(copyFlowRecord(r)),
    })
    for (const batch of batchesOf([...handshake, back(1, RST)])) extractor.add(batch)
    extractor.expire(1_500_000)
    expect(records).toHaveLength(0)
    extractor.expire(1_500_001)
    expect(ofA(records)).toEqual([[0, 4, 'closed']])
    expect(extractor.openFlows).toBe(0)
    expect(extractor.finish().records).toBe(1)
    expect(records).toHaveLength(1)
  })

  it('takes what trails within half a second, data too', () => {
    const { records } = extract(batchesOf([...handshake, ...fins, back(1.6, ACK, 500), other(9)]), closing)
    expect(ofA(records)).toEqual([[0, 7, 'closed']])
  })

  it('is followed by another that begins with data, and what has neither data nor a SYN is counted', () => {
    const late = [back(1.7, ACK), out(9, RST), back(10, ACK, 61), out(10.1, ACK)]
    const { records, counters } = extract(batchesOf([...handshake, ...fins, ...late]), closing)
    expect(ofA(records)).toEqual([
      [0, 6, 'closed'],
      [10, 2, 'end-of-capture'],
    ])
    expect(inOrder(records)[1]?.initiatorPort).toBe(443)
    expect(counters.dropped).toEqual({ 'after-close': 2 })
    expect(counters.packets).toBe(counters.packetsInFlows + 2)
  })

  it('is not followed by another at a last segment that is sent again, with data or without', () => {
    const again = [back(1.7, FIN | ACK, 129), back(3, FIN | ACK, 129), out(5, RST, 129), back(9, FIN | ACK)]
    const { records, counters } = extract(batchesOf([...handshake, ...fins, ...again]), closing)
    expect(ofA(records)).toEqual([[0, 6, 'closed']])
    expect(counters.dropped).toEqual({ 'after-close': 4 })
    const after = extract(batchesOf([...handshake, ...fins, back(30, FIN | ACK, 129)]), closing)
    expect(ofA(after.records)).toEqual([
      [0, 6, 'closed'],
      [30, 1, 'closed'],
    ])
  })

  it('is followed by another at a SYN, at once, also after one FIN', () => {
    const again = handshake.map((p) => ({ ...p, t: p.t + 1.3 }))
    const wanted = [
      [0, 4, 'closed'],
      [1.3, 3, 'end-of-capture'],
    ]
    for (const last of [out(1, RST), back(1, RST | ACK), out(1, FIN | ACK)]) {
      expect(ofA(extract(batchesOf([...handshake, last, ...again]), closing).records)).toEqual(wanted)
    }
    const fresh = again.map((p) => ({ ...p, t: p.t + 5 }))
    expect(ofA(extract(batchesOf([...handshake, out(1, RST), other(3), ...fresh]), closing).records)).toEqual(
      [
        [0, 4, 'closed'],
        [6.3, 3, 'end-of-capture'],
      ],
    )
  })

  it('goes on at a SYN where nothing closed it, and at a SYN-ACK', () => {
    const packets = [...handshake, out(1, SYN), back(1.1, SYN | ACK), out(2, FIN), back(2.1, SYN | ACK)]
    expect(ofA(extract(batchesOf(packets), closing).records)).toEqual([[0, 7, 'end-of-capture']])
  })

  it('of which one end alone is recorded closes with its FIN', () => {
    const packets = [out(0, SYN), out(0.2, ACK), out(1, FIN | ACK), other(5)]
    expect(ofA(extract(batchesOf(packets), closing).records)).toEqual([[0, 3, 'closed']])
  })

  it('is forgotten after the idle timeout: then any packet begins another', () => {
    const packets = [out(0, RST), other(3), out(20, ACK), out(20.000001, ACK)]
    const { records, counters } = extract(batchesOf(packets), closing)
    expect(ofA(records)).toEqual([
      [0, 1, 'closed'],
      [20.000001, 1, 'end-of-capture'],
    ])
    expect(counters.dropped).toEqual({ 'after-close': 1 })
  })

  it('is not waited for where the clock went back', () => {
    const records: FlowRecord[] = []
    const extractor = createFlowExtractor({
      contract: closing,
      onRecord: (r) => records.push(copyFlowRecord(r)),
    })
    const future = { ...out(31_536_000, RST), from: [5, 5] as const }
    for (const batch of batchesOf([future, ...handshake, out(1, RST), other(2.1), other(3)]))
      extractor.add(batch)
    expect(records.map(({ startMicros }) => startMicros / 1e6).sort()).toEqual([0, 31_536_000])
  })

  it('asks whether it may begin after another that closed', () => {
    const asked: number[] = []
    const { counters } = extract(
      batchesOf([out(0, RST), out(5, ACK), out(6, SYN), out(7, ACK, 100)]),
      closing,
      {
        admitsFlow: (batch, i) => {
          asked.push(batch.timestampMicros[i] as number)
          return batch.timestampMicros[i] !== 6e6
        },
      },
    )
    expect(asked).toEqual([0, 6e6, 7e6])
    expect(counters.dropped).toEqual({ 'after-close': 1, 'not-admitted': 1 })
  })

  it('goes on through FIN and RST where its contract does not say so', () => {
    const packets = [...handshake, ...fins, out(3, SYN), back(4, RST)]
    const plain = contractOf({ idleTimeoutMicros: IDLE })
    expect(extract(batchesOf(packets), plain).records).toHaveLength(1)
    const summary = flowSummaryContract({ idleTimeoutMicros: IDLE, activeTimeoutMicros: null })
    expect(ofA(extract(batchesOf(packets), summary).records)).toHaveLength(2)
    const whole = { ...summary, endOnClose: false }
    expect(extract(batchesOf(packets), whole).records).toHaveLength(1)
  })
})

it('closed flows give way before any other, and a table full of them stays bounded', () => {
  const records: FlowRecord[] = []
  const contract = flowSummaryContract({ idleTimeoutMicros: 600_000_000, activeTimeoutMicros: null })
  const extractor = createFlowExtractor({
    contract,
    memoryBytes: 64 * 1024,
    onRecord: (r) => records.push(copyFlowRecord(r)),
  })
  const alive: Packet[] = [
    { t: 0, from: [9, 9], to: B, flags: SYN },
    { t: 0.1, from: B, to: [9, 9], flags: SYN | ACK },
  ]
  const many = Array.from({ length: 20 * extractor.maximumFlows }, (_, k): Packet[] => [
    { t: 1 + 2 * k, from: [100 + k, 1], to: B, flags: SYN },
    { t: 1.1 + 2 * k, from: B, to: [100 + k, 1], flags: RST | ACK },
  ]).flat()
  for (const batch of batchesOf([...alive, ...many])) extractor.add(batch)
  expect(extractor.openFlows).toBe(2)
  const counters = extractor.finish()
  expect(counters).toMatchObject({ evictedFlows: 0, evictedIdleFlows: 0, rows: records.length })
  expect(records.filter(({ packets }) => packets !== 2)).toEqual([])
})

it.each(['endOnClose', 'vlanKey'])('a collector of directional flows refuses %s', (option) => {
  expect(() => createFlowCollector({ flowKey: 'directional-5-tuple', [option]: true })).toThrow(
    `${option}: expected false`,
  )
})

describe('random traffic', () => {
  const packet = fc.record({
    step: fc.constantFrom(0, 0.000001, 0.2, 0.2, 0.5, 0.500001, 5, 20, 20.000001),
    key: fc.integer({ min: 1, max: 2 }),
    isBack: fc.boolean(),
    flags: fc.constantFrom(SYN, SYN | ACK, ACK, ACK, FIN | ACK, RST, SYN | FIN, 0),
    bytes: fc.constantFrom(60, 61, 900),
    protocol: fc.constantFrom(6, 6, 6, 17),
  })
  const traffic = fc.array(packet, { maxLength: 80 }).map((packets) => {
    let t = 100
    return packets.map(({ step, key, isBack, protocol, flags, bytes }): Packet => {
      t += step
      const [a, b] = [[key, 1] as const, [5, 5] as const]
      return {
        t,
        bytes,
        protocol,
        flags: protocol === 6 ? flags : 0,
        from: isBack ? b : a,
        to: isBack ? a : b,
      }
    })
  })
  const contracts: FlowContract[] = [
    closing,
    flowSummaryContract({ idleTimeoutMicros: IDLE, activeTimeoutMicros: null }),
  ]

  it.each(contracts)('$featureSet: is gathered as the reference says', (contract) => {
    fc.assert(
      fc.property(traffic, fc.integer({ min: 1, max: 40 }), (packets, size) => {
        const { records, counters } = extract(batchesOf(packets, size), {
          ...contract,
          activeTimeoutMicros: null,
        })
        const { flows, dropped } = referenceFlows(packets)
        const whole = new Map<number, number>()
        for (const r of records) {
          whole.set(r.flowFirstPacketNumber, (whole.get(r.flowFirstPacketNumber) ?? 0) + r.packets)
        }
        expect([...whole].sort(([a], [b]) => a - b)).toEqual(flows)
        expect(counters.dropped['after-close'] ?? 0).toBe(dropped)
        expect(counters.packetsInFlows + dropped).toBe(packets.length)
      }),
      { numRuns: sampleCount(400, 0.25) },
    )
  })

  it.each(contracts)(
    '$featureSet: is the same collected, swept or in other batches, with times that go back too',
    (contract) => {
      fc.assert(
        fc.property(traffic, fc.boolean(), fc.integer({ min: 1, max: 9 }), (ordered, isBack, size) => {
          const packets = isBack ? ordered.map((p, k) => ({ ...p, t: k % 7 === 3 ? p.t - 3 : p.t })) : ordered
          const streamed = extract(batchesOf(packets, 100), contract)
          expect(extract(batchesOf(packets, size), contract, { hashSeed: size })).toEqual(streamed)
          const cut: FlowRecord[] = []
          const flows = collect(batchesOf(packets, size), contract)
          extractRecords(flows, contract, (r) => cut.push(copyFlowRecord(r)))
          expect(inOrder(cut)).toEqual(inOrder(streamed.records))
          if (isBack) return
          const swept: FlowRecord[] = []
          const extractor = createFlowExtractor({ contract, onRecord: (r) => swept.push(copyFlowRecord(r)) })
          for (const batch of batchesOf(packets, 1)) {
            extractor.add(batch)
            extractor.expire(batch.timestampMicros[0] as number)
          }
          extractor.finish()
          expect(inOrder(swept)).toEqual(inOrder(streamed.records))
        }),
        { numRuns: sampleCount(200, 0.25) },
      )
    },
  )
})

/** Packets of each flow by the number of its first, and packets that came after a close. One packet at a time. */
function referenceFlows(packets: readonly Packet[]) {
  interface Flow {
    first: number
    packets: number
    last: number
    closed: number | null
    sent: Set<string>
    fins: Set<string>
  }
  const open = new Map<string, Flow>()
  const flows: Flow[] = []
  let dropped = 0
  packets.forEach((packet, number) => {
    const micros = Math.round(packet.t * 1e6)
    const key = `${packet.protocol} ${[packet.from, packet.to].map(String).sort()}`
    const flags = packet.flags ?? 0
    const isSyn = (flags & (SYN | ACK)) === SYN
    const hasData = packet.protocol === 6 && (packet.bytes ?? 0) > 60
    let flow = open.get(key)
    if (flow !== undefined && flow.closed !== null && micros - flow.closed > 5e5 && !isSyn) {
      if ((!hasData || (flags & (FIN | RST)) !== 0) && micros - flow.closed <= IDLE) {
        dropped++
        return
      }
      flow = undefined
    } else if (flow !== undefined && isSyn && (flow.closed !== null || flow.fins.size > 0)) flow = undefined
    else if (flow !== undefined && micros - flow.last > IDLE) flow = undefined
    if (flow === undefined) {
      flow = { first: number, packets: 0, last: 0, closed: null, sent: new Set(), fins: new Set() }
      open.set(key, flow)
      flows.push(flow)
    }
    flow.packets++
    flow.last = micros
    const end = String(packet.from)
    flow.sent.add(end)
    if ((flags & FIN) !== 0) flow.fins.add(end)
    const isClosed = (flags & RST) !== 0 || (flow.fins.size > 0 && flow.fins.size === flow.sent.size)
    if (isClosed && flow.closed === null) flow.closed = micros
  })
  return { flows: flows.map((f) => [f.first, f.packets]), dropped }
}

const cases = join(shared, 'cases')
if (!existsSync(cases)) console.warn(`SKIPPED: no small captures at ${cases}`)

describe.skipIf(!existsSync(cases))('small captures', () => {
  const statesOf = async (name: string, contract: FlowContract) =>
    inOrder(extract(await readPackets(join(cases, `${name}.pcap`)), contract).records).map((r) => [
      formatAddress(r.initiatorAddress, 0, 4),
      connectionState(r),
      r.packets,
    ])
  const usual = contractOf()
  const whole = contractOf({ endOnClose: true })

  it('a connection on the ports of one that closed', async () => {
    const long = contractOf({ truncation: { mode: 'truncate', durationMicros: 1e12 } })
    expect(await statesOf('reuse', long)).toEqual([['192.0.2.10', 'RSTR', 8]])
    expect(await statesOf('reuse', whole)).toEqual([
      ['192.0.2.10', 'SF', 6],
      ['192.0.2.10', 'REJ', 2],
    ])
  })

  it('connections a minute apart from one port', async () => {
    const states = await statesOf('fixed-port-reconnect', whole)
    expect(states).toEqual(Array(20).fill(['192.0.2.10', 'SF', 8]))
  })

  it('the same addresses and ports in two VLANs', async () => {
    const packets = await readPackets(join(cases, 'vlan-overlap.pcap'))
    expect(extract(packets, usual).records.map((r) => [r.vlan, r.packets])).toEqual([[10, 12]])
    const byVlan = contractOf({ vlanKey: true })
    expect(inOrder(extract(packets, byVlan).records).map((r) => [r.vlan, r.packets])).toEqual([
      [10, 6],
      [20, 6],
    ])
  })

  it.each([
    ['synack-first', 'SF', 7],
    ['st2-lost-synack', 'SF', 8],
    ['st2-lost-synack-rst', 'RSTR', 6],
    ['st2-synack-only', 'OTH', 1],
  ])('%s', async (name, state, packets) => {
    for (const contract of [usual, whole]) {
      expect(await statesOf(name, contract)).toEqual([['192.0.2.10', state, packets]])
    }
  })
})
