/**
 * Against captures whose flows, features and rules others worked out (shared/data/golden-captures): counts of
 * flows, the packets of each flow, the paper's features with T and p, and hand-written timeouts.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFlowKeySet, formatAddress, PACKET_OK, type PacketBatch } from '@oddflow/capture'
import { describe, expect, it } from 'vitest'
import {
  copyFlowRecord,
  END_REASONS,
  extractRecords,
  type FlowRecord,
  learnIatSizeContract,
} from '../src/index.js'
import { collect, contractOf, extract, inOrder } from './support/packets.js'
import { goldenCaptures, readPackets, sharedMissing } from './support/shared.js'

interface GoldenFlow {
  ip_version: number
  endpoint_a: [string, number]
  endpoint_b: [string, number]
  proto: number
  first_source: [string, number]
  packets: [string, number, number, number, number, number][]
}

function readJson<T>(...path: string[]): T {
  const file = join(goldenCaptures, ...path)
  return (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}) as T
}

function filesOf(folder: string): string[] {
  return existsSync(join(goldenCaptures, folder)) ? readdirSync(join(goldenCaptures, folder)) : []
}

/** "ipv4 tcp A B" with the ends sorted as text, which both sides can make. */
function keyOf(protocol: number, ...ends: readonly (readonly [string, number])[]): string {
  return `${protocol} ${ends.map(([address, port]) => `${address} ${port}`).sort()}`
}

function keyOfRecord(r: FlowRecord): string {
  return keyOf(
    r.protocol,
    [formatAddress(r.initiatorAddress, 0, r.ipVersion), r.initiatorPort],
    [formatAddress(r.responderAddress, 0, r.ipVersion), r.responderPort],
  )
}

/** No cut by duration and no timeout: whole flows. */
const uncut = contractOf({
  packetsPerFlow: 2,
  idleTimeoutMicros: Number.MAX_SAFE_INTEGER,
  truncation: { mode: 'truncate', durationMicros: Number.MAX_SAFE_INTEGER },
})

describe.skipIf(sharedMissing)('distinct flows (expected.json, flows_outer)', () => {
  interface Expected {
    packets: number
    flows_outer: Record<string, number> & { total: number; packets: number; with_2plus_packets: number }
  }
  const expected = readJson<Record<string, Expected>>('expected.json')
  const names = Object.keys(expected).filter((name) => expected[name].flows_outer !== undefined)
  it.each(names)('%s', async (name) => {
    const golden = expected[name]
    const outer = golden.flows_outer
    const batches = await readOrNothing(join(goldenCaptures, name))
    const keys = createFlowKeySet()
    for (const batch of batches) {
      for (let i = 0; i < batch.count; i++) if (batch.status[i] === PACKET_OK) keys.add(batch, i)
    }
    const { records, counters } = extract(batches, uncut)
    const timed = counters.packetsInFlows + (counters.dropped['no-timestamp'] ?? 0)
    const found = {
      tcp: keys.counts.tcp,
      udp: keys.counts.udp,
      packets: timed,
      twoOrMore: records.filter((r) => r.packets >= 2).length,
    }
    const wanted = {
      tcp: (outer.ipv4_tcp ?? 0) + (outer.ipv6_tcp ?? 0),
      udp: (outer.ipv4_udp ?? 0) + (outer.ipv6_udp ?? 0),
      packets: outer.packets,
      twoOrMore: outer.with_2plus_packets,
    }
    if (name in FLOW_DIFFERENCES) expect(found).not.toEqual(wanted)
    else expect(found).toEqual(wanted)
  })
})

/** Captures whose flows differ, and why. An entry that no longer differs fails. */
const FLOW_DIFFERENCES: Record<string, string> = {
  'captures/format/pcapng_absurd_ts_snap.pcapng':
    'times in the year 586,524 are beyond 2^53 µs and count as none, so their packets are in no flow',
  ...Object.fromEntries(
    ['test010', 'test011', 'test016', 'test100', 'test101', 'test202'].flatMap((test) =>
      ['be', 'le'].map((order): [string, string] => [
        `captures/pcapng_suite/${test}_${order}.pcapng`,
        'packets without a time (simple packet blocks) are in no flow, so fewer flows have two',
      ]),
    ),
  ),
}

/** Packets of one microsecond keep the order of the capture. */
function byTime(x: GoldenFlow['packets'][number], y: GoldenFlow['packets'][number]): number {
  return Number(BigInt(x[0]) / 1000n - BigInt(y[0]) / 1000n) || x[5] - y[5]
}

async function readOrNothing(file: string): Promise<PacketBatch[]> {
  return readPackets(file).catch(() => [])
}

describe.skipIf(sharedMissing)('packets of each flow (expected_flows)', () => {
  it.each(filesOf('expected_flows').filter((file) => !PACKET_DIFFERENCES.includes(file)))(
    '%s',
    async (file) => {
      const golden = readJson<{ capture: string; flows_outer: GoldenFlow[] }>('expected_flows', file)
      const batches = await readPackets(join(goldenCaptures, golden.capture))
      const flows = collect(batches, uncut)
      const numbers = new Map<string, number[]>()
      const first = new Map<string, string>()
      let current = 0
      extractRecords(flows, uncut, (r) => {
        const key = keyOfRecord(r)
        first.set(key, `${formatAddress(r.initiatorAddress, 0, r.ipVersion)} ${r.initiatorPort}`)
        const [from, to] = [flows.packetOffset[current], flows.packetOffset[current + 1]]
        numbers.set(key, Array.from(flows.packetNumber.slice(from, to)))
        current++
      })
      expect(numbers.size).toBe(golden.flows_outer.length)
      for (const flow of golden.flows_outer) {
        const key = keyOf(flow.proto, flow.endpoint_a, flow.endpoint_b)
        flow.packets.sort(byTime)
        expect(numbers.get(key), key).toEqual(flow.packets.map((packet) => packet[5] - 1))
        expect(first.get(key)).toBe(flow.first_source.join(' '))
      }
      let packet = 0
      for (const flow of [...golden.flows_outer].sort((x, y) => x.packets[0][5] - y.packets[0][5])) {
        let clock = Number.NEGATIVE_INFINITY
        for (const [nanos, wire] of flow.packets) {
          clock = Math.max(clock, Number(BigInt(nanos) / 1000n))
          expect(flows.packetMicros[packet]).toBe(clock)
          expect(flows.packetBytes[packet++]).toBe(wire)
        }
      }
      expect(packet).toBe(flows.packetMicros.length)
    },
  )
})

/** Captures with packets that are in no flow here; why stands in FLOW_DIFFERENCES. */
const PACKET_DIFFERENCES = ['pcapng_suite_test101_le.pcapng.json']

describe.skipIf(sharedMissing)('the paper’s features (expected_features_paper_reading)', () => {
  it.each(filesOf('expected_features_paper_reading'))('%s', async (name) => {
    const folder = ['expected_features_paper_reading', name]
    const meta = readJson<Record<string, number>>(...folder, 'meta.json')
    const text = readFileSync(join(goldenCaptures, ...folder, 'IAT_SIZE_us.csv'), 'utf8')
    const golden = text
      .trim()
      .split('\n')
      .map((line) => line.split(','))
    const batches = await readPackets(join(goldenCaptures, 'captures', name.replace('_', '/')))
    const flows = collect(batches)
    const contract = learnIatSizeContract(flows, { mode: 'truncate', iatUnit: 'microseconds' })
    expect(contract.truncation.durationMicros).toBe(Math.floor(meta.interval_ns / 1000 + 1e-6))
    expect(contract.packetsPerFlow).toBe(meta.dim)
    expect(contract.dimension).toBe(meta.D)

    const rows: [string, number, number[]][] = []
    let withTwo = 0
    extractRecords(flows, contract, (r) => {
      if (r.packets >= 2) withTwo++
      if (r.row !== null) rows.push([keyOfRecord(r), r.rowPackets, Array.from(r.row)])
    })
    expect(withTwo).toBe(meta.flows)
    expect(rows).toHaveLength(meta.flows_after_truncation)
    const text1 = (row: [string, number, number[]]) => JSON.stringify(row)
    expect(rows.map(text1).sort()).toEqual(
      golden
        .map(([a, aport, b, bport, proto, n, ...features]): [string, number, number[]] => [
          keyOf(Number(proto), [a, Number(aport)], [b, Number(bport)]),
          Number(n),
          features.map(Number),
        ])
        .map(text1)
        .sort(),
    )
  })
})

describe.skipIf(sharedMissing)('hand-written flows (synthetic)', () => {
  interface Expected {
    bidirectional_flows?: number
    bidirectional_flows_2plus?: number
    packets?: number[]
    pieces?: number[]
    iat_us?: number[][]
    wire_sizes?: number[][]
    duration_us?: number[]
  }
  const folder = ['captures', 'synthetic']
  const expected = readJson<Record<string, Expected>>(...folder, 'expected.json')
  const contract = contractOf({
    packetsPerFlow: 8,
    dimension: 15,
    iatUnit: 'microseconds',
    truncation: { mode: 'truncate', durationMicros: Number.MAX_SAFE_INTEGER },
  })
  it.each(Object.keys(expected).filter((name) => !(name in SYNTHETIC_DIFFERENCES)))('%s', async (name) => {
    const golden = expected[name]
    const { records } = extract(await readPackets(join(goldenCaptures, ...folder, name)), contract)
    const flows = inOrder(records)
    const several = flows.filter((r) => r.row !== null)
    if (golden.bidirectional_flows !== undefined) expect(flows).toHaveLength(golden.bidirectional_flows)
    if (golden.bidirectional_flows_2plus !== undefined) {
      expect(several).toHaveLength(golden.bidirectional_flows_2plus)
    }
    const packets = golden.packets ?? golden.pieces
    if (packets !== undefined) expect(flows.map((r) => r.packets)).toEqual(packets)
    golden.wire_sizes?.forEach((sizes, f) => {
      const iats = golden.iat_us![f]
      const row = sizes.flatMap((size, i) => (i < iats.length ? [iats[i], size] : [size]))
      expect(Array.from(several[f].row!)).toEqual([...row, ...Array(15 - row.length).fill(0)])
    })
    if (golden.duration_us !== undefined) {
      expect(flows.map((r) => r.durationMicros)).toEqual(golden.duration_us)
    }
  })

  it('splits out_of_order_across_timeout.pcap, since it does not wait for packets to sort them', async () => {
    const { records } = extract(
      await readPackets(join(goldenCaptures, ...folder, 'out_of_order_across_timeout.pcap')),
      contract,
    )
    expect(records.length).toBeGreaterThan(1)
    expect(records.reduce((sum, r) => sum + r.packets, 0)).toBe(4)
  })
})

const SYNTHETIC_DIFFERENCES: Record<string, string> = {
  'out_of_order_across_timeout.pcap':
    'expected of a reader that sorts the capture first; one rule for files and live traffic cannot wait',
}

describe.skipIf(sharedMissing)('every golden capture', () => {
  const files = ['iot', 'format', 'link', 'ip', 'time', 'encap', 'pcapng_suite'].flatMap((folder) =>
    filesOf(join('captures', folder)).map((file) => join('captures', folder, file)),
  )
  it.each(files)('%s gives the same rows streamed and collected, in any batches', async (file) => {
    const batches = await readOrNothing(join(goldenCaptures, file))
    for (const mode of ['split', 'truncate'] as const) {
      const contract = contractOf({ packetsPerFlow: 7, truncation: { mode, durationMicros: 800_000 } })
      const streamed = extract(batches, contract)
      const cut: FlowRecord[] = []
      extractRecords(collect(batches), contract, (r) => cut.push(copyFlowRecord(r)))
      expect(inOrder(cut)).toEqual(inOrder(streamed.records))
      const small = await readPackets(join(goldenCaptures, file), 3).catch(() => [])
      expect(extract(small, contract)).toEqual(streamed)
      for (const r of cut) expect(END_REASONS).toContain(r.endReason)
    }
  })
})
