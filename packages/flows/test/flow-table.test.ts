import { createPacketBatch } from '@oddflow/capture'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HALF_OPEN } from '../src/activity-log.js'
import { FlowTable } from '../src/index.js'
import { batchesOf } from './support/packets.js'

/** A batch of one packet for each of `count` keys. */
function keys(count: number) {
  const packets = Array.from({ length: count }, (_, k) => ({
    t: 0,
    from: [k % 7, 1000 + k] as const,
    to: [9, 53] as const,
    version: (k % 2 === 0 ? 4 : 6) as 4 | 6,
  }))
  return batchesOf(packets, count)[0]
}

describe('FlowTable', () => {
  it('behaves as a map with a list by last use, through any mix of operations', () => {
    const batch = keys(40)
    const operation = fc.record({ what: fc.constantFrom('use', 'use', 'drop', 'grow'), key: fc.nat(39) })
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 400 }), fc.maxSafeInteger(), (operations, seed) => {
        const table = new FlowTable(4, seed)
        const numbers = new Map<number, number>() // in order of last use
        for (const { what, key } of operations) {
          const flow = table.find(batch, key)
          expect(flow).toBe(numbers.get(key) ?? -1)
          if (what === 'use' && flow >= 0) {
            table.activity.touch(flow, HALF_OPEN)
            numbers.delete(key)
            numbers.set(key, flow)
          } else if (what === 'use') {
            expect(table.full).toBe(numbers.size === table.capacity)
            if (table.full) table.grow(table.capacity + 3)
            const created = table.insert()
            expect([...numbers.values()]).not.toContain(created)
            numbers.set(key, created)
          } else if (what === 'drop' && flow >= 0) {
            table.remove(flow)
            numbers.delete(key)
          } else if (what === 'grow' && table.capacity < 60) table.grow(table.capacity + 1)
          expect(table.count).toBe(numbers.size)
          expect(table.activity.oldest(HALF_OPEN)).toBe([...numbers.values()][0] ?? -1)
        }
        for (let key = 0; key < 40; key++) expect(table.find(batch, key)).toBe(numbers.get(key) ?? -1)
      }),
    )
  })

  it('takes both directions for one flow and says which end spoke', () => {
    const there = { t: 0, from: [1, 4000] as const, to: [2, 53] as const }
    const back = { t: 0, from: there.to, to: there.from }
    const samePorts = { t: 0, from: [2, 4000] as const, to: [1, 53] as const }
    const batch = batchesOf([there, back, samePorts, { ...there, protocol: 17 }, { ...there, version: 6 }])[0]
    const table = new FlowTable(8, 1)
    table.find(batch, 0)
    const flow = table.insert()
    const first = table.lastSwapped
    expect(table.find(batch, 1)).toBe(flow)
    expect(table.lastSwapped).toBe(!first)
    for (const other of [2, 3, 4]) expect(table.find(batch, other)).toBe(-1)
  })

  it('tells IPv6 addresses apart by each of their words', () => {
    const batch = createPacketBatch(9)
    batch.count = 9
    for (let i = 0; i < 9; i++) {
      batch.ipVersion[i] = 6
      batch.protocol[i] = 17
      if (i > 0 && i < 5) batch.sourceAddress[4 * i + (i - 1)] = 1
      if (i > 4) batch.sourceAddress[4 * i + (i - 5)] = 0x80000000
    }
    const table = new FlowTable(16, 3)
    for (let i = 0; i < 9; i++) {
      expect(table.find(batch, i)).toBe(-1)
      table.insert()
    }
    for (let i = 0; i < 9; i++) expect(table.find(batch, i)).toBe(i)
  })

  it('stays as quick after a million flows came and went (no tombstones)', () => {
    const batch = keys(2000)
    const table = new FlowTable(1000, 5)
    for (let round = 0; round < 500; round++) {
      for (let k = 0; k < 1000; k++) {
        if (table.full) table.remove(table.activity.oldest(HALF_OPEN))
        if (table.find(batch, (round * 997 + k) % 2000) < 0) table.insert()
      }
    }
    // A search for a missing key ends at an empty slot: were none left, the next line would not return.
    for (let k = 0; k < 2000; k++) table.find(batch, k)
    expect(table.count).toBeLessThanOrEqual(1000)
  })
})
