/**
 * Feature sets other than iat-size: against features that others worked out (the paper's reading), streamed
 * and collected alike, early or at the end; and small cases by hand.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  FLOW_FEATURE_SETS,
  type FlowContract,
  type FlowFeatureSet,
  featureDimension,
  type PacketContract,
  packetFeatureSet,
} from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  copyFlowRecord,
  createFlowExtractor,
  extractRecords,
  type FlowRecord,
  flowSummaryContract,
  learnFeatureContract,
} from '../src/index.js'
import { batchesOf, collect, contractOf, extract, inOrder, type Packet } from './support/packets.js'
import { goldenCaptures, readPackets, sharedMissing } from './support/shared.js'

const reading = join(goldenCaptures, 'expected_features_paper_reading')

describe.skipIf(sharedMissing)('the paper’s reading', () => {
  it.each(existsSync(reading) ? readdirSync(reading) : [])('%s', async (name) => {
    const numbers = (file: string): number[][] =>
      readFileSync(join(reading, name, file), 'utf8')
        .trim()
        .split('\n')
        .map((line) => line.split(',').slice(6).map(Number))
    const flows = collect(await readPackets(join(goldenCaptures, 'captures', name.replace('_', '/'))))
    const rowsOf = (options: Parameters<typeof learnFeatureContract>[1]): number[][] => {
      const rows: number[][] = []
      const contract = learnFeatureContract(flows, { mode: 'truncate', ...options })
      extractRecords(flows, contract, (r) => {
        if (r.row !== null) rows.push(Array.from(r.row))
      })
      return rows
    }
    const stats = rowsOf({ featureSet: 'stats-header' })
    expect(stats.map((row) => row.slice(0, -10))).toEqual(numbers('FLAGS_TTL.csv'))
    expect(stats.map((row) => row.slice(-10))).toEqual(numbers('STATS.csv'))
    const samp = (samplingQuantile: number) => rowsOf({ featureSet: 'samp-size', samplingQuantile })
    expect(samp(0.3)).toEqual(numbers('SAMP_SIZE_q30.csv'))
    expect(samp(0.9)).toEqual(numbers('SAMP_SIZE_q90.csv'))
    const pairs = rowsOf({ featureSet: 'iat-size', iatUnit: 'microseconds' })
    expect(pairs).toEqual(numbers('IAT_SIZE_us.csv'))
  })
})

/** A contract of any feature set, of two to six packets, windows of 700 ms. */
function contractOfSet(featureSet: FlowFeatureSet, changes: Partial<PacketContract> = {}): FlowContract {
  const { iatUnit, ...rules } = contractOf({ packetsPerFlow: 4 })
  if (featureSet === 'flow-summary') {
    const {
      idleTimeoutMicros,
      activeTimeoutMicros,
      endOnClose = true,
      vlanKey = false,
    } = {
      ...rules,
      ...changes,
    }
    return flowSummaryContract({ idleTimeoutMicros, activeTimeoutMicros, endOnClose, vlanKey })
  }
  const packetsPerFlow = changes.packetsPerFlow ?? 4
  const fields: Readonly<Record<string, unknown>> = {
    iatUnit,
    packetsKept: packetsPerFlow + 3,
    samplingIntervalMicros: featureSet === 'samp-num' ? 700_000.3 : 700_000,
  }
  const { ownFields } = packetFeatureSet(featureSet)
  const own = Object.fromEntries(Object.entries(fields).filter(([field]) => ownFields.includes(field)))
  return {
    ...rules,
    ...changes,
    ...own,
    featureSet,
    packetsPerFlow,
    dimension: featureDimension(featureSet, packetsPerFlow, 'split'),
  } as FlowContract
}

const end = fc.tuple(fc.integer({ min: 1, max: 2 }), fc.integer({ min: 1, max: 2 }))
const traffic = fc
  .array(
    fc.record({
      step: fc.constantFrom(0, 0.000001, 0.2, 0.7, 1.4, 2.5, 11, 21, -0.5),
      from: end,
      to: end,
      bytes: fc.integer({ min: 40, max: 1500 }),
      protocol: fc.constantFrom(6, 17),
      vlan: fc.constantFrom(0, 7),
      flags: fc.integer({ min: 0, max: 255 }),
      ttl: fc.integer({ min: 0, max: 255 }),
    }),
    { maxLength: 100 },
  )
  .map((packets) => {
    let t = 100
    return packets.map((packet): Packet => {
      t += packet.step
      return { ...packet, t }
    })
  })
const rules = fc.record({
  endOnClose: fc.boolean(),
  vlanKey: fc.boolean(),
  packetsPerFlow: fc.integer({ min: 2, max: 6 }),
  idleTimeoutMicros: fc.constant(20_000_000),
  activeTimeoutMicros: fc.constantFrom(null, 4_000_000),
  truncation: fc.record({
    mode: fc.constantFrom('split' as const, 'truncate' as const),
    durationMicros: fc.constantFrom(1_000_000, 8_000_000, 1e9),
  }),
})

describe.each(FLOW_FEATURE_SETS)('%s', (featureSet) => {
  it('is equal to the bit, streamed or collected, in any batches', () => {
    fc.assert(
      fc.property(traffic, rules, fc.integer({ min: 1, max: 40 }), (packets, changes, size) => {
        const contract = contractOfSet(featureSet, changes)
        const streamed = extract(batchesOf(packets, size), contract)
        const cut: FlowRecord[] = []
        const counts = extractRecords(collect(batchesOf(packets), contract), contract, (r) =>
          cut.push(copyFlowRecord(r)),
        )
        expect(inOrder(cut)).toEqual(inOrder(streamed.records))
        expect(streamed.counters).toMatchObject(counts)
        for (const { row } of cut) {
          if (row !== null) expect(row.every((x) => Number.isFinite(x))).toBe(true)
        }
      }),
    )
  })

  it('gives the same rows early, each once, and every record after', () => {
    fc.assert(
      fc.property(traffic, rules, fc.array(fc.boolean(), { maxLength: 100 }), (packets, changes, sweeps) => {
        const ordered = [...packets].sort((x, y) => x.t - y.t)
        const contract = contractOfSet(featureSet, changes)
        const late = inOrder(extract(batchesOf(ordered), contract).records)
        const early = new Map<number, number[]>()
        const records: FlowRecord[] = []
        const extractor = createFlowExtractor({
          contract,
          memoryBytes: 1024 * 1024,
          onEarlyRow: (r) => {
            expect(early.has(r.firstPacketNumber)).toBe(false)
            expect(r.rowGivenEarly).toBe(true)
            early.set(r.firstPacketNumber, Array.from(r.row!))
          },
          onRecord: (r) => records.push(copyFlowRecord(r)),
        })
        batchesOf(ordered, 1).forEach((batch, i) => {
          extractor.add(batch)
          if (sweeps[i] === true) extractor.expire(batch.timestampMicros[0])
        })
        const counters = extractor.finish()
        const whole = inOrder(records).map((r) => {
          expect(r.rowGivenEarly).toBe(early.has(r.firstPacketNumber))
          if (!r.rowGivenEarly) return r
          expect(r.row).toBeNull()
          return { ...r, rowGivenEarly: false, row: Float64Array.from(early.get(r.firstPacketNumber)!) }
        })
        expect(whole).toEqual(late)
        expect(counters.rows).toBe(late.filter((r) => r.row !== null).length)
      }),
    )
  })
})

describe('by hand', () => {
  const A = [1, 4000] as const
  const B = [2, 443] as const
  const packets: Packet[] = [
    { t: 0, from: A, to: B, bytes: 74, flags: 2, ttl: 64 },
    { t: 0.7, from: B, to: A, bytes: 60, flags: 18, ttl: 50 },
    { t: 0.8, from: A, to: B, bytes: 66, flags: 16, ttl: 64 },
    { t: 3.5, from: A, to: B, bytes: 100, flags: 25, ttl: 63 },
  ]
  const rowOf = (contract: FlowContract) => Array.from(extract(batchesOf(packets), contract).records[0].row!)
  it('windows of SAMP: the boundary is inside, empty windows are 0', () => {
    // 0 and 0.7 are in [0, 0.7]; 0.8 opens the second; 3.5 is the end of the fifth and opens a sixth.
    const changes = { packetsPerFlow: 6 }
    expect(rowOf(contractOfSet('samp-size', changes))).toEqual([134, 66, 0, 0, 0, 100])
    expect(rowOf(contractOfSet('samp-num', changes))).toEqual([2, 1, 0, 0, 1, 0])
  })
  it('header bits', () => {
    const row = rowOf(contractOfSet('header-bits', { packetsPerFlow: 5 }))
    const bits = (at: number, count: number) => Number.parseInt(row.slice(at, at + count).join(''), 2)
    const second = 77
    expect([bits(0, 1), bits(second, 1)]).toEqual([0, 1])
    expect([bits(second + 1, 4), bits(second + 5, 16), bits(second + 21, 8)]).toEqual([4, 46, 50])
    expect([bits(second + 29, 8), bits(second + 37, 16), bits(second + 53, 16)]).toEqual([6, 443, 4000])
    expect(bits(second + 69, 8)).toBe(18)
    expect(row.slice(4 * 77)).toEqual(Array(77).fill(-1))
  })
  it('sizes and interarrival times alone', () => {
    expect(rowOf(contractOfSet('size', { packetsPerFlow: 5 }))).toEqual([74, 60, 66, 100, 0])
    expect(rowOf(contractOfSet('iat', { packetsPerFlow: 5 }))).toEqual([0.7, 0.1, 2.7, 0])
  })
  it('statistics are of the packets kept', () => {
    const contract = {
      ...contractOfSet('stats-header', { packetsPerFlow: 2 }),
      packetsKept: 3,
    } as FlowContract
    expect(rowOf(contract)).toEqual([
      ...[0, 2, 0, 0, 2, 0, 0, 0, 64, 50],
      ...[0.8, 3 / 0.8, 200 / 0.8, 200 / 3, Math.sqrt(296 / 9), 63, 66, 70, 60, 74],
    ])
  })
})
