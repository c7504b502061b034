/** Flows that a caller does not let in: open flows continue, every packet is counted, and nothing else changes. */
import type { PacketBatch } from '@oddflow/capture'
import { describe, expect, it } from 'vitest'
import { batchesOf, contractOf, extract, inOrder, type Packet } from './support/packets.js'

/** Interleaved flows of `length` packets each, both directions. */
function interleaved(flows: number, length: number): Packet[] {
  return Array.from({ length: flows * length }, (_, k) => {
    const flow = k % flows
    const turn = Math.floor(k / flows)
    const ends = [[1, 1000 + flow] as const, [2, 443] as const]
    return { t: k / 1e4, from: ends[turn % 2], to: ends[1 - (turn % 2)], bytes: 100 + (k % 50) }
  })
}
const portOf = (batch: PacketBatch, i: number): number =>
  Math.max(batch.sourcePort[i], batch.destinationPort[i])

describe('admission of flows', () => {
  it('gives the admitted flows as without the others, in batches of any size and with every feature set', () => {
    const packets = interleaved(50, 9)
    const admitsFlow = (batch: PacketBatch, i: number): boolean => portOf(batch, i) % 3 === 0
    const contracts = [
      contractOf(),
      contractOf({ truncation: { mode: 'truncate', durationMicros: 10_000_000 } }),
    ]
    for (const contract of contracts) {
      for (const size of [1, 7, 64, 450]) {
        const some = extract(batchesOf(packets, size), contract, { admitsFlow })
        const alone = packets.filter(({ from, to }) => Math.max(from[1], to[1]) % 3 === 0)
        const expected = extract(batchesOf(alone, size), contract)
        const rowsOf = ({ records }: typeof some) =>
          inOrder(records).map((record) => [
            record.initiatorPort,
            record.packets,
            Array.from(record.row ?? []),
          ])
        expect(rowsOf(some)).toEqual(rowsOf(expected))
        expect(some.records.length).toBeGreaterThan(10)
        const { counters } = some
        expect(counters.dropped).toEqual({ 'not-admitted': packets.length - alone.length })
        expect(counters.packets).toBe(packets.length)
        expect(counters.packetsInFlows).toBe(alone.length)
      }
    }
  })

  it('asks for the first packet of a flow alone, and again for those of one that was not let in', () => {
    const asked: number[] = []
    let isOpen = true
    const admitsFlow = (batch: PacketBatch, i: number): boolean => {
      asked.push(portOf(batch, i))
      return isOpen
    }
    const first = batchesOf(interleaved(3, 4))
    extract(first, contractOf(), { admitsFlow })
    expect(asked).toEqual([1000, 1001, 1002])
    isOpen = false
    asked.length = 0
    const { records, counters } = extract(first, contractOf(), { admitsFlow })
    expect(asked).toHaveLength(12)
    expect(records).toHaveLength(0)
    expect(counters).toMatchObject({ flows: 0, packetsInFlows: 0, dropped: { 'not-admitted': 12 } })
  })

  it('lets a flow end after its idle timeout and begin again without asking', () => {
    let isOpen = true
    const packets = [0, 1, 700, 701].map((t): Packet => ({ t, from: [1, 4000], to: [2, 443] }))
    const { records, counters } = extract(batchesOf(packets, 2), contractOf(), {
      admitsFlow: () => {
        const answer = isOpen
        isOpen = false
        return answer
      },
    })
    expect(records.map((record) => record.packets)).toEqual([2, 2])
    expect(counters.dropped).toEqual({})
  })
})
