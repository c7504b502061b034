/** Times out of order, clocks that are set and packets from the future: what flows and rows make of them. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { copyFlowRecord, createFlowExtractor, extractRecords, type FlowRecord } from '../src/index.js'
import { batchesOf, collect, contractOf, extract, inOrder, type Packet } from './support/packets.js'
import { readPackets, shared } from './support/shared.js'

const YEAR = 365 * 86_400
const contract = contractOf({
  packetsPerFlow: 8,
  dimension: 15,
  truncation: { mode: 'truncate', durationMicros: Number.MAX_SAFE_INTEGER },
})

/** Interarrival times of a row of n packets, in seconds. */
function gaps(record: FlowRecord): number[] {
  return Array.from({ length: record.packets - 1 }, (_, j) => record.row![2 * j])
}

/** Packets of one flow at these seconds. */
function flowAt(times: readonly number[], host = 1): Packet[] {
  return times.map((t, i) => ({
    t,
    from: i % 2 === 0 ? [host, 4000] : [100, 443],
    to: i % 2 === 0 ? [100, 443] : [host, 4000],
    protocol: 17,
  }))
}

describe('one flow', () => {
  const cases: [string, number[], number[], Record<string, number>][] = [
    [
      'a clock that is set back',
      [0, 1, 2, -7, -6, -5],
      [1, 1, 0, 1, 1],
      { timestampBackwards: 1, clockSteps: 1 },
    ],
    ['one packet from the future', [0, 1, YEAR, 3, 4, 5], [1, 0, 2, 1, 1], { futurePackets: 1 }],
    ['a clock that was never set', [0, 1, 50 * YEAR, 50 * YEAR + 1], [1, 0, 1], { clockSteps: 1 }],
    [
      'packets that are microseconds late',
      [0, 0.0003, 0.0001, 0.0002, 0.0004, 0.0005],
      [0.0001, 0.0001, 0.0001, 0.0001, 0.0001],
      { reorderedPackets: 2 },
    ],
  ]
  it.each(cases)('%s', (_, times, expected, counts) => {
    const { records, counters } = extract(batchesOf(flowAt(times.map((t) => 10_000 + t))), contract)
    expect(records).toHaveLength(1)
    expect(gaps(records[0])).toEqual(expected)
    expect(records[0].durationMicros).toBe(Math.round(1e6 * expected.reduce((sum, gap) => sum + gap)))
    const none = {
      timestampBackwards: 0,
      reorderedPackets: 0,
      latePackets: 0,
      clockSteps: 0,
      futurePackets: 0,
    }
    expect(counters).toMatchObject({ ...none, ...counts, heldPackets: 0 })
  })

  it('has the start that the capture gives it, in each piece', () => {
    const split = contractOf({ truncation: { mode: 'split', durationMicros: 1_500_000 } })
    const batches = batchesOf(flowAt([100, 101, 102, 53, 54, 55, 56]))
    const { records } = extract(batches, split)
    expect(records.map((r) => [r.startMicros / 1e6, r.packets])).toEqual([
      [100, 2],
      [102, 3],
      [55, 2],
    ])
    const cut: FlowRecord[] = []
    extractRecords(collect(batches), split, (r) => cut.push(copyFlowRecord(r)))
    expect(cut).toEqual(records)
  })
})

describe('the cases of the evidence', () => {
  const expected: [string, number[], number, Record<string, number>][] = [
    ['clock-back.pcap', [1, 1, 0, 1, 1], 4e6, { timestampBackwards: 1 }],
    ['one-future-packet.pcap', [1, 0, 2, 1, 1], 5e6, { futurePackets: 1, timestampBackwards: 0 }],
    ['late-by-two.pcap', [0.0001, 0.0001, 0.0001, 0.0001, 0.0001], 500, { timestampBackwards: 0 }],
  ]
  it.for(expected)('%s', async ([name, times, durationMicros, counts], context) => {
    const file = join(shared, 'cases', name)
    if (!existsSync(file)) return context.skip(`no ${file}: set ODDFLOW_SHARED`)
    const { records, counters } = extract(await readPackets(file), contract)
    expect(records.map((r) => [gaps(r), r.durationMicros])).toEqual([[times, durationMicros]])
    expect(counters).toMatchObject(counts)
  })

  it('exf-back10m.pcap.gz has the flows and pieces of exf-none.pcap.gz, whatever the cut', async (context) => {
    const [without, withStep] = ['exf-none', 'exf-back10m'].map((name) =>
      join(shared, `cases/${name}.pcap.gz`),
    )
    if (!existsSync(without) || !existsSync(withStep)) {
      return context.skip(`no ${without}: set ODDFLOW_SHARED`)
    }
    for (const seconds of [1, 10, 60, 300]) {
      const split = contractOf({ truncation: { mode: 'split', durationMicros: seconds * 1e6 } })
      const piecesOf = async (of: string): Promise<number[]> => {
        const { records } = extract(await readPackets(of), split)
        return [records.length, records.filter(({ pieceIndex }) => pieceIndex === 0).length]
      }
      const [[pieces, flows], [expectedPieces, expectedFlows]] = [
        await piecesOf(withStep),
        await piecesOf(without),
      ]
      expect(flows).toBe(expectedFlows)
      // A piece begins where the one before it ends, so the step moves the cuts of its own flow.
      expect(Math.abs(pieces - expectedPieces)).toBeLessThan(0.01 * expectedPieces)
    }
  })

  it('n4-mq.pcap.gz gives the rows that its packets give in the order of time', async (context) => {
    const file = join(shared, 'cases/n4-mq.pcap.gz')
    if (!existsSync(file)) return context.skip(`no ${file}: set ODDFLOW_SHARED`)
    const lab = join(import.meta.dirname, '../../../test/fixtures/lab/normal-4.pcap.gz')
    const split = contractOf({ truncation: { mode: 'split', durationMicros: 10_000_000 } })
    const rowsOf = async (of: string): Promise<string[]> =>
      inOrder(extract(await readPackets(of), split).records).map((r) => Array.from(r.row ?? []).join(' '))
    const [late, sorted] = [(await rowsOf(file)).sort(), (await rowsOf(lab)).sort()]
    // Times that became equal may stand either way around.
    const left = new Set(sorted)
    expect(late.filter((row) => !left.has(row)).length).toBeLessThanOrEqual(2)
    expect(late).toHaveLength(sorted.length)
  })
})

const traffic = fc.array(
  fc.record({
    gap: fc.constantFrom(0, 0.001, 0.3, 1, 5),
    host: fc.integer({ min: 1, max: 4 }),
    step: fc.oneof(
      { weight: 10, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.constantFrom(-7, -600, -86_400, -30 * YEAR, 3 * YEAR) },
    ),
  }),
  { maxLength: 200 },
)

describe('steps', () => {
  it('end no flow and leave all gaps as they are but those in which they lie', () => {
    fc.assert(
      fc.property(traffic, (each) => {
        let [now, shown, steps] = [0, 40 * YEAR, 0]
        const packets = each.map(({ gap, host, step }) => {
          now += gap
          shown += gap + step
          if (step !== 0) steps++
          return { ...flowAt([shown], host)[0], now, steps }
        })
        const whole = contractOf({
          packetsPerFlow: 250,
          iatUnit: 'microseconds',
          truncation: { mode: 'truncate', durationMicros: Number.MAX_SAFE_INTEGER },
        })
        const { records } = extract(batchesOf(packets, 16), whole)
        const hosts = [...new Set(each.map(({ host }) => host))]
        expect(records).toHaveLength(hosts.length)
        for (const record of records) {
          const own = packets.filter(({ from }) => from[0] === packets[record.firstPacketNumber].from[0])
          expect(record.packets).toBe(own.length)
          if (record.row === null) continue
          own.slice(1).forEach((packet, j) => {
            const { row } = record
            const real = Math.round(1e6 * (packet.now - own[j].now))
            // A step takes from a gap what lies between the packets beside it, and no more.
            if (packet.steps === own[j].steps) expect(Math.abs(row![2 * j] - real)).toBeLessThanOrEqual(1)
            else expect(row![2 * j]).toBeLessThanOrEqual(real + 1)
          })
        }
      }),
      { numRuns: sampleCount(200, 0.25) },
    )
  })

  it('and packets from the future end no idle flow before its time, live or not', () => {
    fc.assert(
      fc.property(traffic, fc.nat(200), (each, wrong) => {
        let shown = 40 * YEAR
        const packets = each.map(({ gap, host, step }, i) => {
          shown += gap + step
          const t =
            i === wrong && i > 0 && i + 1 < each.length && step === 0 && each[i + 1].step === 0
              ? shown + 3600
              : shown
          return flowAt([t], host)[0]
        })
        const split = contractOf({ idleTimeoutMicros: 3_000_000 })
        const live: FlowRecord[] = []
        const extractor = createFlowExtractor({
          contract: split,
          onRecord: (r) => live.push(copyFlowRecord(r)),
        })
        for (const batch of batchesOf(packets, 1)) {
          extractor.add(batch)
          if (extractor.latestMicros > 0) extractor.expire(extractor.latestMicros)
        }
        extractor.finish()
        expect(inOrder(live)).toEqual(inOrder(extract(batchesOf(packets), split).records))
      }),
      { numRuns: sampleCount(200, 0.25) },
    )
  })
})
