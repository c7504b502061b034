/**
 * The packet pass changes nothing: with it and without it, records, early rows and counts are the same to the bit, over
 * random traffic with everything that stops a run of ordinary packets.
 */
import type { PacketBatch } from '@oddflow/capture'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  copyFlowRecord,
  createFlowExtractor,
  type FlowCounters,
  type FlowExtractorOptions,
  type FlowRecord,
  flowSummaryContract,
} from '../src/index.js'
import { createPacketPass } from '../src/packet-pass.js'
import { batchesOf, contractOf, type Packet } from './support/packets.js'

/** Creates with WebAssembly hidden, as where a policy forbids it. */
function withoutWasm<T>(create: () => T): T {
  const scope = globalThis as { WebAssembly?: unknown }
  const wasm = scope.WebAssembly
  scope.WebAssembly = undefined
  try {
    return create()
  } finally {
    scope.WebAssembly = wasm
  }
}

/** The packets of `from` in `to`. */
function copyBatch(from: PacketBatch, to: PacketBatch): PacketBatch {
  to.count = from.count
  to.firstFrame = from.firstFrame
  const target = to as unknown as Record<string, Uint8Array>
  for (const [name, column] of Object.entries(from)) {
    if (ArrayBuffer.isView(column)) target[name].set(column as Uint8Array)
  }
  return to
}

interface Outcome {
  readonly records: readonly FlowRecord[]
  readonly early: readonly FlowRecord[]
  readonly counters: FlowCounters
}

function extractWith(
  batches: readonly PacketBatch[],
  options: Omit<FlowExtractorOptions, 'onRecord' | 'onEarlyRow'>,
  isEarly: boolean,
  way: 'own-batch' | 'other-batch' | 'without-pass',
): Outcome {
  const records: FlowRecord[] = []
  const early: FlowRecord[] = []
  const create = () =>
    createFlowExtractor({
      ...options,
      onRecord: (record) => records.push(copyFlowRecord(record)),
      ...(isEarly ? { onEarlyRow: (record: FlowRecord) => early.push(copyFlowRecord(record)) } : {}),
    })
  const extractor = way === 'without-pass' ? withoutWasm(create) : create()
  const own = extractor.createBatch(batches[0]?.status.length ?? 1)
  batches.forEach((batch, k) => {
    extractor.add(way === 'own-batch' ? copyBatch(batch, own) : batch)
    // Live sources look for what is over now and then.
    const now = batch.timestampMicros[0]
    if (k % 3 === 2 && !Number.isNaN(now)) extractor.expire(now)
  })
  return { records, early, counters: extractor.finish() }
}

const end = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 3 }))
const step = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(0, 0, 0.000001, 0.3, 1) },
  { weight: 1, arbitrary: fc.constantFrom(9, 20, 20.000001, 50, -0.5, -30, Number.NaN) },
)
const packet = fc.record({
  step,
  from: end,
  to: end,
  bytes: fc.integer({ min: 40, max: 1500 }),
  protocol: fc.constantFrom(6, 6, 6, 6, 17, 17, 1),
  version: fc.constantFrom(4 as const, 4 as const, 6 as const),
  vlan: fc.constantFrom(0, 0, 4095),
  flags: fc.constantFrom(2, 18, 16, 16, 16, 17, 20, 255),
  status: fc.oneof(
    { weight: 20, arbitrary: fc.constant('ok' as const) },
    { weight: 1, arbitrary: fc.constant('not-ip' as const) },
  ),
})
const traffic = fc.array(packet, { maxLength: 300 }).map((packets) => {
  let t = 100
  return packets.map((p): Packet => {
    const time = t + p.step
    if (!Number.isNaN(time)) t = time
    return { ...p, t: time }
  })
})
const contract = fc
  .record({
    packetsPerFlow: fc.integer({ min: 3, max: 9 }),
    mode: fc.constantFrom('split' as const, 'truncate' as const),
    endOnClose: fc.boolean(),
    vlanKey: fc.boolean(),
    durationMicros: fc.constantFrom(1, 1e6, 5.5e6, 1e9),
    active: fc.constantFrom(null, 3_000_000, 25_000_000),
    minimumPackets: fc.constantFrom(2, 3),
    sizeMeasure: fc.constantFrom('frame' as const, 'ip' as const),
    featureSet: fc.constantFrom(
      'iat-size' as const,
      'iat' as const,
      'size' as const,
      'flow-summary' as const,
    ),
  })
  .map((c) => {
    const { endOnClose, vlanKey } = c
    if (c.featureSet === 'flow-summary') {
      const timeouts = { idleTimeoutMicros: 20_000_000, activeTimeoutMicros: c.active }
      return flowSummaryContract({ ...timeouts, endOnClose, vlanKey })
    }
    const p = c.packetsPerFlow
    const { iatUnit, ...rules } = contractOf({
      packetsPerFlow: p,
      idleTimeoutMicros: 20_000_000,
      activeTimeoutMicros: c.active,
      truncation: { mode: c.mode, durationMicros: c.durationMicros },
      minimumPackets: c.minimumPackets,
      sizeMeasure: c.sizeMeasure,
      endOnClose,
      vlanKey,
    })
    const dimension = { 'iat-size': 2 * p - 1, iat: p - 1, size: p }[c.featureSet]
    const times = c.featureSet === 'size' ? {} : { iatUnit }
    return { ...rules, ...times, featureSet: c.featureSet, dimension } as FlowExtractorOptions['contract']
  })

describe('the packet pass', () => {
  it('is there where these tests run', () => {
    expect(createPacketPass(1 << 20)).not.toBeNull()
    expect(withoutWasm(() => createPacketPass(1 << 20))).toBeNull()
  })

  it('gives the records, early rows and counts of packets taken one by one', () => {
    fc.assert(
      fc.property(traffic, contract, fc.boolean(), fc.maxSafeInteger(), (packets, rule, early, hashSeed) => {
        const batches = batchesOf(packets, 48)
        const options = { contract: rule, hashSeed, memoryBytes: 1 << 20 }
        const expected = extractWith(batches, options, early, 'without-pass')
        expect(extractWith(batches, options, early, 'other-batch')).toEqual(expected)
        expect(extractWith(batches, options, early, 'own-batch')).toEqual(expected)
      }),
      { numRuns: sampleCount(400) },
    )
  })

  it('gives the same where neither flows nor their packets fit', () => {
    fc.assert(
      fc.property(contract, fc.boolean(), fc.nat(1000), (rule, early, seed) => {
        const packets = Array.from({ length: 1613 }, (_, k): Packet => {
          const random = Math.imul(k + 1000 * seed, 0x9e3779b1) >>> 8
          const host = k % 5 === 0 ? k : random % 200
          const last = random % 37 === 0 ? 20 : random % 11 === 0 ? 17 : 16
          return {
            t: 0.001 * k,
            from: [host, 1 + (random % 2)],
            to: [7, 443],
            version: host % 3 === 0 ? 6 : 4,
            flags: k % 5 === 0 ? 2 : last,
          }
        })
        const batches = batchesOf(packets, packets.length)
        const least = smallestMemory(rule)
        const options = { contract: rule, memoryBytes: least }
        const expected = extractWith(batches, options, early, 'without-pass')
        expect(extractWith(batches, options, early, 'other-batch')).toEqual(expected)
        expect(extractWith(batches, options, early, 'own-batch')).toEqual(expected)
        const { evictedHalfOpenFlows, evictedActiveFlows } = expected.counters
        expect(evictedHalfOpenFlows + evictedActiveFlows).toBeGreaterThan(0)
      }),
      { numRuns: sampleCount(40, 0.25) },
    )
  })
})

/** The fewest bytes that an extractor takes. */
function smallestMemory(rule: FlowExtractorOptions['contract']): number {
  try {
    createFlowExtractor({ contract: rule, onRecord: () => {}, memoryBytes: 1 })
  } catch (error) {
    return Number(/at least (\d+)/.exec(String(error))?.[1])
  }
  throw new Error('one byte was enough')
}
