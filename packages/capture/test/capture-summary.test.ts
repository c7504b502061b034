import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type CaptureSummary,
  compileFilter,
  createFlowKeySet,
  createPacketBatch,
  linkTypeName,
  type PacketBatch,
} from '../src/index.js'
import { summariseCaptureFile } from '../src/node/index.js'
import { GOLDEN_DIFFERENCES } from './explained-differences.js'
import { goldenCaptures, readJson, sharedMissing } from './support/shared.js'

interface GoldenFact {
  packets: number
  wire_bytes: number
  first_ts_ns: string | null
  last_ts_ns: string | null
  flows_outer: Record<string, number>
}

function accountedFor(summary: CaptureSummary): number {
  return Object.values(summary.skipped).reduce((sum, count) => sum + count, summary.keyedPackets)
}

describe.skipIf(sharedMissing)('summariseCaptureFile on data/golden-captures', () => {
  const facts = sharedMissing
    ? {}
    : (readJson(join(goldenCaptures, 'expected.json')) as Record<string, GoldenFact>)
  const unexplained = Object.entries(facts).filter(([file]) => GOLDEN_DIFFERENCES[file] === undefined)

  it.each(unexplained)('%s', async (file, fact) => {
    const summary = await summariseCaptureFile(join(goldenCaptures, file))
    const { flows_outer: flows } = fact
    expect(summary).toMatchObject({
      packets: fact.packets,
      wireBytes: fact.wire_bytes,
      firstTimestampMicros: fact.first_ts_ns === null ? null : Number(BigInt(fact.first_ts_ns) / 1000n),
      lastTimestampMicros: fact.last_ts_ns === null ? null : Number(BigInt(fact.last_ts_ns) / 1000n),
      flowOverflowPackets: 0,
    })
    expect(summary.flows.tcp).toBe((flows.ipv4_tcp ?? 0) + (flows.ipv6_tcp ?? 0))
    expect(summary.flows.udp).toBe((flows.ipv4_udp ?? 0) + (flows.ipv6_udp ?? 0))
    expect(accountedFor(summary)).toBe(summary.packets)
    expect(Object.values(summary.linkTypes).reduce((sum, count) => sum + count, 0)).toBe(summary.packets)
  })

  it('counts what a filter keeps, and the parts make the whole', async () => {
    const file = join(goldenCaptures, 'captures/iot/alexa_app.pcapng')
    const whole = await summariseCaptureFile(file)
    const parts = await Promise.all(
      ['tcp', 'not tcp'].map((text) => summariseCaptureFile(file, { filter: compileFilter(text) })),
    )
    expect(parts[0]!.packets).toBeGreaterThan(0)
    expect(parts[0]!.packets + parts[1]!.packets).toBe(whole.packets)
    expect(parts[0]!.flows).toEqual({ ...whole.flows, udp: 0, icmp: 0, sctp: 0, other: 0 })
    expect(parts[1]!.flows).toEqual({ ...whole.flows, tcp: 0 })
    expect(whole.linkTypes).toEqual({ LINKTYPE_ETHERNET: whole.packets })
  })
})

describe('createFlowKeySet', () => {
  function fill(
    packets: PacketBatch,
    i: number,
    a: number,
    b: number,
    p: number,
    q: number,
    proto: number,
  ): void {
    packets.sourceAddress.set([0, 0, 0, a], 4 * i)
    packets.destinationAddress.set([0, 0, 0, b], 4 * i)
    packets.sourcePort[i] = p
    packets.destinationPort[i] = q
    packets.protocol[i] = proto
    packets.ipVersion[i] = 4
  }

  it('counts unordered pairs of ends as a Map of text does', () => {
    const small = fc.integer({ min: 0, max: 3 })
    const packet = fc.tuple(small, small, small, small, fc.constantFrom(6, 17, 1, 132, 47))
    fc.assert(
      fc.property(fc.array(packet, { maxLength: 400 }), (list) => {
        const packets = createPacketBatch(1)
        const set = createFlowKeySet()
        const expected = new Set<string>()
        for (const [a, b, p, q, proto] of list) {
          fill(packets, 0, a, b, p, q, proto)
          set.add(packets, 0)
          // ICMP's type and code do not make flows here
          const ends = proto === 1 ? [`${a}`, `${b}`] : [`${a}:${p}`, `${b}:${q}`]
          expected.add(ends.sort().join(' ') + proto)
        }
        const { tcp, udp, icmp, sctp, other } = set.counts
        expect(tcp + udp + icmp + sctp + other).toBe(expected.size)
      }),
    )
  })

  it('counts alike under every seed', () => {
    const counted = [0, 1, 2 ** 52 + 5].map((seed) => {
      const packets = createPacketBatch(1)
      const set = createFlowKeySet(undefined, seed)
      for (let k = 0; k < 3000; k++) {
        fill(packets, 0, k % 700, 9, k % 30, 80, k % 2 === 0 ? 6 : 17)
        set.add(packets, 0)
      }
      return set.counts
    })
    expect(counted[1]).toEqual(counted[0])
    expect(counted[2]).toEqual(counted[0])
    expect(() => createFlowKeySet(0)).toThrow(/maximumKeys: expected/)
  })

  it('grows, and at its bound counts what it cannot hold', () => {
    const packets = createPacketBatch(1)
    const set = createFlowKeySet(5000)
    for (let round = 0; round < 2; round++) {
      for (let k = 0; k < 6000; k++) {
        fill(packets, 0, k * 65_537, 1, k & 0xffff, 80, 6)
        set.add(packets, 0)
      }
    }
    expect(set.counts.tcp).toBe(5000)
    expect(set.overflow).toBe(2000)
  })
})

describe('linkTypeName', () => {
  // tcpdump.org/linktypes
  it.each([
    [0, 'LINKTYPE_NULL'],
    [1, 'LINKTYPE_ETHERNET'],
    [101, 'LINKTYPE_RAW'],
    [105, 'LINKTYPE_IEEE802_11'],
    [113, 'LINKTYPE_LINUX_SLL'],
    [127, 'LINKTYPE_IEEE802_11_RADIOTAP'],
    [195, 'LINKTYPE_IEEE802_15_4_WITHFCS'],
    [228, 'LINKTYPE_IPV4'],
    [276, 'LINKTYPE_LINUX_SLL2'],
    [208, 'linktype-208'],
    [65_000, 'linktype-65000'],
  ])('%i is %s', (value, name) => {
    expect(linkTypeName(value)).toBe(name)
  })
})
