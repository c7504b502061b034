/**
 * What a flow holds depends on its own packets, the contract and the steps of the capture's clock, on nothing else:
 * properties over random traffic, times running backwards included, against a reference written for these tests.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { copyFlowRecord, createFlowExtractor, extractRecords, type FlowRecord } from '../src/index.js'
import { batchesOf, collect, contractOf, extract, inOrder, type Packet } from './support/packets.js'
import { referenceRecords } from './support/reference-flows.js'

const end = fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 3 }))
/** Steps in seconds: mostly small, some around the timeouts. */
const onward = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(0, 0.000001, 0.3, 1, 2.5) },
  { weight: 2, arbitrary: fc.constantFrom(9, 10, 20, 20.000001, 50) },
)
/** The same, and some backwards. */
const step = fc.oneof({ weight: 8, arbitrary: onward }, { weight: 1, arbitrary: fc.constantFrom(-0.5, -30) })
const trafficOf = (steps: fc.Arbitrary<number>) =>
  fc
    .array(
      fc.record({
        step: steps,
        from: end,
        to: end,
        bytes: fc.integer({ min: 40, max: 1500 }),
        protocol: fc.constantFrom(6, 6, 17, 1),
        version: fc.constantFrom(4, 6),
      }),
      { maxLength: 120 },
    )
    .map((packets) => {
      let t = 100
      return packets.map((packet): Packet => {
        t += packet.step
        return { ...packet, t, version: packet.version as 4 | 6 }
      })
    })
const traffic = trafficOf(step)

const contract = fc
  .record({
    packetsPerFlow: fc.integer({ min: 3, max: 9 }),
    mode: fc.constantFrom('split' as const, 'truncate' as const),
    durationMicros: fc.constantFrom(1, 1e6, 5.5e6, 1e9),
    active: fc.constantFrom(null, 3_000_000, 25_000_000),
    minimumPackets: fc.constantFrom(2, 2, 3),
    iatUnit: fc.constantFrom('seconds' as const, 'microseconds' as const),
    sizeMeasure: fc.constantFrom('frame' as const, 'ip' as const),
  })
  .map((c) =>
    contractOf({
      packetsPerFlow: c.packetsPerFlow,
      idleTimeoutMicros: 20_000_000,
      activeTimeoutMicros: c.active,
      truncation: { mode: c.mode, durationMicros: c.durationMicros },
      minimumPackets: c.minimumPackets,
      iatUnit: c.iatUnit,
      sizeMeasure: c.sizeMeasure,
    }),
  )

function plain(records: readonly FlowRecord[]) {
  return inOrder(records).map((r) => ({
    firstPacketNumber: r.firstPacketNumber,
    flowFirstPacketNumber: r.flowFirstPacketNumber,
    flowStartMicros: r.flowStartMicros,
    pieceIndex: r.pieceIndex,
    startMicros: r.startMicros,
    durationMicros: r.durationMicros,
    packets: r.packets,
    bytes: r.bytes,
    row: r.row === null ? null : Array.from(r.row),
  }))
}

describe('rows and records', () => {
  it('are those of the reference', () => {
    fc.assert(
      fc.property(traffic, contract, (packets, rule) => {
        const batches = batchesOf(packets)
        const { records, counters } = extract(batches, rule)
        expect(plain(records)).toEqual(referenceRecords(batches, rule))
        const dropped = Object.values(counters.dropped).reduce((sum: number, n) => sum + (n ?? 0), 0)
        expect(counters.packetsInFlows + dropped).toBe(packets.length)
        expect(records.reduce((sum, r) => sum + r.packets, 0)).toBe(counters.packetsInFlows)
        const { rows, onePacketFlows, shortRecords, remainders } = counters
        expect(rows + onePacketFlows + shortRecords + remainders).toBe(records.length)
      }),
      { numRuns: sampleCount(500) },
    )
  })

  it('are equal to the bit, collected and cut or streamed, whatever the batch size and the hash key', () => {
    fc.assert(
      fc.property(
        traffic,
        contract,
        fc.integer({ min: 1, max: 40 }),
        fc.maxSafeInteger(),
        (packets, rule, size, hashSeed) => {
          const streamed = extract(batchesOf(packets, size), rule, { hashSeed })
          expect(streamed).toEqual(extract(batchesOf(packets, 200), rule))
          const cut: FlowRecord[] = []
          const counts = extractRecords(collect(batchesOf(packets), rule), rule, (r) =>
            cut.push(copyFlowRecord(r)),
          )
          expect(inOrder(cut)).toEqual(inOrder(streamed.records))
          expect(streamed.counters).toMatchObject(counts)
        },
      ),
      { numRuns: sampleCount(300) },
    )
  })

  it('do not depend on when idle flows are looked for, once times are in order', () => {
    fc.assert(
      fc.property(
        trafficOf(onward),
        contract,
        fc.array(fc.boolean(), { minLength: 120, maxLength: 120 }),
        (ordered, rule, sweeps) => {
          const records: FlowRecord[] = []
          const extractor = createFlowExtractor({
            contract: rule,
            onRecord: (r) => records.push(copyFlowRecord(r)),
          })
          batchesOf(ordered, 1).forEach((batch, i) => {
            extractor.add(batch)
            if (sweeps[i]) extractor.expire(batch.timestampMicros[0])
          })
          extractor.finish()
          expect(inOrder(records)).toEqual(inOrder(extract(batchesOf(ordered), rule).records))
        },
      ),
    )
  })

  it('do not depend on the other traffic', () => {
    fc.assert(
      fc.property(trafficOf(onward), contract, (packets, rule) => {
        const keep = (p: Packet) => p.protocol === 17
        const numbers = packets.flatMap((p, i) => (keep(p) ? [i] : []))
        const alone = inOrder(extract(batchesOf(packets.filter(keep)), rule).records)
        const among = inOrder(extract(batchesOf(packets), rule).records.filter((r) => r.protocol === 17))
        expect(among.map(({ row, bytes, durationMicros }) => ({ row, bytes, durationMicros }))).toEqual(
          alone.map(({ row, bytes, durationMicros }) => ({ row, bytes, durationMicros })),
        )
        expect(among.map((r) => r.firstPacketNumber)).toEqual(alone.map((r) => numbers[r.firstPacketNumber]))
      }),
    )
  })
})

it('expire ends silent flows at once and leaves the others', () => {
  const records: FlowRecord[] = []
  const extractor = createFlowExtractor({
    contract: contractOf(),
    onRecord: (r) => records.push(copyFlowRecord(r)),
  })
  const [batch] = batchesOf([
    { t: 0, from: [1, 1], to: [2, 2] },
    { t: 500, from: [1, 3], to: [2, 4] },
  ])
  extractor.add(batch)
  extractor.expire(600_000_000)
  expect(records).toHaveLength(0)
  extractor.expire(600_000_001)
  expect(records.map((r) => [r.initiatorPort, r.endReason])).toEqual([[1, 'idle-timeout']])
  expect(extractor.openFlows).toBe(1)
})
