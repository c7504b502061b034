/**
 * Flow summaries: against an independent reference in Python over real captures, against the plainest code over
 * random traffic, and small cases by hand.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { FLOW_SUMMARY_DIMENSION, featureColumns } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { flowSummaryContract, learnFeatureContract } from '../src/index.js'
import { batchesOf, collect, extract, inOrder, type Packet } from './support/packets.js'
import { readPackets, shared } from './support/shared.js'

const contract = flowSummaryContract({ idleTimeoutMicros: 600_000_000, activeTimeoutMicros: null })
const columns = featureColumns(contract).map(({ name }) => name)
const [A, B] = [[1, 4000] as const, [2, 443] as const]

function summaryOf(packets: readonly Packet[], rules = contract): Record<string, number>[] {
  const { records } = extract(batchesOf(packets), rules)
  return inOrder(records).map(({ row }) =>
    Object.fromEntries(columns.map((name, k) => [name, (row as Float64Array)[k] as number])),
  )
}

/** Columns 0 to 17 by the reference, of payload sizes and exact times; null where a flow's times go back. */
const PYTHON = `
import sys, json, struct, numpy as np
sys.path.insert(0, sys.argv[1])
import watch_reference as reference
def exact(path):
    b = open(path, 'rb').read(); e = '<' if b[:4] in (b'\\xd4\\xc3\\xb2\\xa1', b'\\x4d\\x3c\\xb2\\xa1') else '>'; o = 24; start = None
    while o + 16 <= len(b):
        s, u, c, n = struct.unpack(e + 'IIII', b[o:o + 16]); d = b[o + 16:o + 16 + c]; o += 16 + c
        start = s if start is None else start
        yield np.longdouble((s - start) * 1000000 + u) / 1000000, payload(d), d
def payload(d):
    if len(d) < 34: return 0
    if d[12:14] == b'\\x08\\x00': ip, at, protocol = struct.unpack('>H', d[16:18])[0], 14 + (d[14] & 15) * 4, d[23]
    elif d[12:14] == b'\\x86\\xdd':
        ip, at, protocol = 40 + struct.unpack('>H', d[18:20])[0], 54, d[20]
        while protocol in (0, 43, 60) and len(d) >= at + 8: protocol, at = d[at], at + 8 + d[at + 1] * 8
    else: return 0
    if protocol == 6: header = (d[at + 12] >> 4) * 4 if len(d) > at + 12 else 20
    else: header = 8
    return max(0, 14 + ip - at - header)
reference.frames = exact
def row(f):
    if (np.diff(np.array(f['t'])) < 0).any(): return None
    old, s, o = reference.summary(f), np.array(f['s']), np.array(f['o'])
    first = lambda x: np.log1p(x[x > 0][0]) if (x > 0).any() else 0
    return [float(x) for x in [*old[:13], old[15], first(s[o]), first(s[~o]), *old[16:18]]]
print(json.dumps([[row(f) for f in reference.flows(path)] for path in sys.argv[2:]]))
`
const folder = join(shared, 'data/watch/')
const captures = existsSync(folder)
  ? readdirSync(folder).flatMap((device) =>
      device.includes('.')
        ? []
        : readdirSync(join(folder, device))
            .filter((name) => name.endsWith('.pcap'))
            .slice(0, 4)
            .map((name) => join(folder, device, name)),
    )
  : []
const hasNumpy = captures.length > 0 && runs('import numpy, scipy.spatial')
if (!hasNumpy) console.warn(`SKIPPED: no captures at ${folder}, or no python3 with numpy and scipy`)

function runs(program: string): boolean {
  try {
    execFileSync('python3', ['-c', program], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

it.skipIf(!hasNumpy)('are the rows of the reference in Python', async () => {
  const reference = join(shared, 'reference')
  const options = { encoding: 'utf8' as const, maxBuffer: 1 << 28 }
  const expected = JSON.parse(execFileSync('python3', ['-c', PYTHON, reference, ...captures], options))
  let rows = 0
  for (const [k, file] of captures.entries()) {
    const records = inOrder(extract(await readPackets(file), { ...contract, endOnClose: false }).records)
    expect(records).toHaveLength(expected[k].length)
    records.forEach(({ row }, i) => {
      if (expected[k][i] === null) return
      const found = Array.from(row as Float64Array).slice(0, 18)
      const worst = Math.max(...found.map((x, j) => Math.abs(x - expected[k][i][j])))
      expect(worst, `${file}, flow ${i}: ${found} against ${expected[k][i]}`).toBeLessThan(1e-9)
      rows++
    })
  }
  expect(rows).toBeGreaterThan(1000)
})

describe('a row', () => {
  it('of one packet', () => {
    const [row] = summaryOf([{ t: 5, from: A, to: B, bytes: 74, flags: 2 }])
    expect(row).toMatchObject({
      initiator_bytes: Math.log1p(14),
      initiator_first_size: Math.log1p(14),
      initiator_size_sd: 0,
      responder_bytes: 0,
      responder_size_mean: 0,
      responder_first_size: 0,
      transport: 3,
      multicast: 0,
      unanswered: 3,
      service: 600_443,
    })
    expect(row?.duration).toBeCloseTo(-4, 12)
    expect([row?.iat_mean, row?.iat_max, row?.first_iat].map((x) => x?.toFixed(9))).toEqual(
      Array(3).fill('-5.000000000'),
    )
  })

  it('covers the whole flow, however long: data after many normal packets counts', () => {
    const normal = Array.from({ length: 10 }, (_, k): Packet => ({ t: k, from: A, to: B, bytes: 114 }))
    const upload = Array.from({ length: 500 }, (_, k): Packet => ({ t: 10 + k, from: A, to: B, bytes: 1414 }))
    const [row] = summaryOf([...normal, ...upload])
    expect(row?.initiator_bytes).toBeCloseTo(Math.log1p(10 * 54 + 500 * 1354), 12)
    expect(row?.initiator_packets).toBeCloseTo(Math.log1p(510), 12)
  })

  it('has a standard deviation of exactly 0 for equal sizes, however many', () => {
    const packets = Array.from(
      { length: 70_000 },
      (_, k): Packet => ({ t: 1e-3 * k, from: A, to: B, bytes: 1514 }),
    )
    expect(summaryOf(packets)[0]).toMatchObject({ initiator_size_sd: 0 })
    const [row] = summaryOf([...packets, { t: 100, from: A, to: B, bytes: 1500 }])
    const variance = (196 * 70_000) / 70_001 ** 2
    expect(row?.initiator_size_sd).toBeCloseTo(Math.log1p(Math.sqrt(variance)), 12)
  })

  it('begins again after the active timeout, with the same direction and number of flow', () => {
    const rules = flowSummaryContract({ idleTimeoutMicros: 600_000_000, activeTimeoutMicros: 60_000_000 })
    const packets: Packet[] = [0, 30, 60, 61, 100].map((t, k) => {
      const [from, to] = k === 3 ? [B, A] : [A, B]
      return { t, from, to, bytes: 114 }
    })
    const rows = summaryOf(packets, rules)
    expect(rows).toHaveLength(2)
    expect(rows[1]).toMatchObject({ responder_packets: Math.log1p(1), service: 600_443 })
    expect(rows[1]?.initiator_first_size).toBeCloseTo(Math.log1p(54), 12)
    expect(rows[1]?.responder_first_size).toBeCloseTo(Math.log1p(54), 12)
    expect(rows[1]?.first_iat).toBeCloseTo(Math.log10(39 + 1e-5), 12)
  })

  it('is unanswered if a SYN of the initiator met no SYN', () => {
    const syn: Packet = { t: 0, from: A, to: B, flags: 2 }
    const unanswered = (...packets: Packet[]) => summaryOf(packets)[0]?.unanswered
    expect(unanswered(syn, { t: 1, from: B, to: A, flags: 20 })).toBe(3)
    expect(unanswered(syn, { t: 1, from: B, to: A, flags: 18 })).toBe(0)
    expect(unanswered({ t: 0, from: A, to: B, flags: 16 })).toBe(0)
  })

  it('has the first size that is not 0 of each end', () => {
    const sizes = [60, 70, 60, 80, 90, 100]
    const packets = sizes.map(
      (bytes, k): Packet => ({ t: k, bytes, ...(k % 2 === 0 ? { from: A, to: B } : { from: B, to: A }) }),
    )
    const [row] = summaryOf(packets)
    expect(row?.initiator_first_size).toBeCloseTo(Math.log1p(30), 12)
    expect(row?.responder_first_size).toBeCloseTo(Math.log1p(10), 12)
  })

  it.each([
    ['dynamic ports are one', 6, 4, B, [3, 60_000], 632_768, 3, 0],
    ['the last port that is not', 6, 4, B, [3, 32_767], 632_767, 3, 0],
    ['a fixed source port is no service', 17, 4, [1, 53], [3, 40_000], 1_732_768, 0, 0],
    ['ICMP: the type', 1, 4, [1, 8], [2, 0], 100_008, -3, 0],
    ['SCTP', 132, 4, A, [2, 2905], 13_202_905, 6, 0],
  ] as const)('service: %s', (_, protocol, version, from, to, service, transport, multicast) => {
    const rules = flowSummaryContract(contract, undefined, ['tcp', 'udp', 'icmp', 'sctp'])
    expect(summaryOf([{ t: 0, from, to, protocol, version }], rules)[0]).toMatchObject({
      service,
      transport,
      multicast,
    })
    // The number is exact in single precision.
    expect(Math.fround(service)).toBe(service)
  })

  it.each([
    ['224.0.0.251', 4, [0, 0, 0, 0xe00000fb], true],
    ['239.255.255.250', 4, [0, 0, 0, 0xeffffffa], true],
    ['255.255.255.255', 4, [0, 0, 0, 0xffffffff], true],
    ['240.0.0.1', 4, [0, 0, 0, 0xf0000001], false],
    ['223.255.255.255', 4, [0, 0, 0, 0xdfffffff], false],
    ['ff02::fb', 6, [0xff020000, 0, 0, 0xfb], true],
    ['fe80::ffff:ffff', 6, [0xfe800000, 0, 0, 0xffffffff], false],
  ] as const)('multicast: %s', (_, version, address, multicast) => {
    const batches = batchesOf([{ t: 0, from: [1, 5353], to: [2, 5353], protocol: 17, version }])
    batches[0]?.destinationAddress.set(address, 0)
    const row = extract(batches, contract).records[0]?.row as Float64Array
    expect(row[columns.indexOf('multicast')]).toBe(multicast ? 3 : 0)
    expect(row[FLOW_SUMMARY_DIMENSION - 1]).toBe(1_705_353 + (multicast ? 50_000 : 0))
  })
})

const packet = fc.record({
  step: fc.constantFrom(0, 0, 0.000001, 0.3, 2, 30),
  back: fc.boolean(),
  bytes: fc.integer({ min: 34, max: 1500 }),
  flags: fc.integer({ min: 0, max: 255 }),
})

it('is that of the plainest code, over random flows', () => {
  fc.assert(
    fc.property(fc.array(packet, { minLength: 1, maxLength: 60 }), (steps) => {
      let t = 100
      const packets = steps.map(({ step, back, bytes, flags }, k): Packet => {
        t += step
        const isBack = back && k > 0
        return { t, from: isBack ? B : A, to: isBack ? A : B, bytes, flags: flags & ~7 }
      })
      const [row] = summaryOf(packets)
      const sizes = (end: readonly number[]) =>
        packets.filter(({ from }) => from === end).map(({ bytes = 0 }) => Math.max(0, bytes - 60))
      const times = packets.map((p) => Math.round(p.t * 1e6) / 1e6)
      const gaps = times.slice(1).map((time, k) => time - (times[k] as number))
      const mean = (x: readonly number[]) =>
        x.length === 0 ? 0 : x.reduce((sum, y) => sum + y, 0) / x.length
      const wanted: Record<string, number> = {
        duration: Math.log10((times.at(-1) as number) - (times[0] as number) + 1e-4),
        iat_mean: Math.log10(mean(gaps) + 1e-5),
        iat_max: Math.log10(Math.max(0, ...gaps) + 1e-5),
        first_iat: Math.log10((gaps[0] ?? 0) + 1e-5),
        initiator_first_size: Math.log1p(sizes(A).find((size) => size > 0) ?? 0),
        responder_first_size: Math.log1p(sizes(B).find((size) => size > 0) ?? 0),
      }
      for (const [name, end] of [
        ['initiator', A],
        ['responder', B],
      ] as const) {
        const x = sizes(end)
        wanted[`${name}_bytes`] = Math.log1p(x.reduce((sum, y) => sum + y, 0))
        wanted[`${name}_packets`] = Math.log1p(x.length)
        wanted[`${name}_size_max`] = Math.log1p(Math.max(0, ...x))
        wanted[`${name}_size_mean`] = Math.log1p(mean(x))
        wanted[`${name}_size_sd`] = Math.log1p(Math.sqrt(mean(x.map((y) => (y - mean(x)) ** 2))))
      }
      for (const [name, value] of Object.entries(wanted)) {
        // Gaps of two floats of seconds are off by 1e-14 s, where 1e-5 is added.
        expect(Math.abs((row?.[name] as number) - value), name).toBeLessThan(1e-8)
      }
    }),
  )
})

describe('a contract of summaries', () => {
  const packets: Packet[] = [{ t: 0, from: A, to: B }]
  it('is learned from flows of one packet', () => {
    const flows = collect(batchesOf(packets), { sizeMeasure: 'payload', endOnClose: true })
    expect(learnFeatureContract(flows, { featureSet: 'flow-summary' })).toEqual({
      ...contract,
      activeTimeoutMicros: 600_000_000,
    })
  })

  it.each([
    [{ mode: 'split' }, /mode: no such option for flow-summary|mode: expected no such option/],
    [{ quantile: 0.5 }, /quantile: expected no such option/],
    [{ minimumPackets: 2 }, /minimumPackets: expected no such option/],
    [{ iatUnit: 'seconds' }, /iatUnit: expected no such option/],
  ] as const)('refuses %j', (options, message) => {
    const flows = collect(batchesOf(packets), { sizeMeasure: 'payload', endOnClose: true })
    expect(() => learnFeatureContract(flows, { featureSet: 'flow-summary', ...options })).toThrow(message)
  })

  it('wants payload sizes, and a flow', () => {
    const learn = (flows: ReturnType<typeof collect>) => () =>
      learnFeatureContract(flows, { featureSet: 'flow-summary' })
    expect(learn(collect(batchesOf(packets)))).toThrow(/payload sizes/)
    expect(learn(collect([], { sizeMeasure: 'payload' }))).toThrow(/no flow to learn from/)
  })
})
