import { createRng } from '@oddflow/core'
import { type FlowRecord, flowSummaryContract } from '@oddflow/flows'
import { expect, it } from 'vitest'
import { createTrainingRows } from '../src/index.js'

const contract = flowSummaryContract()

/** So many records of three captures, each with its number in its row. */
function records(count: number): FlowRecord[] {
  const part = (k: number): Partial<FlowRecord> => ({
    ipVersion: 4,
    initiatorMac: new Uint8Array(6),
    responderMac: new Uint8Array(6),
    initiatorAddress: Uint32Array.of(0, 0, 0, 0x0a000000 + (k % 7)),
    responderAddress: Uint32Array.of(0, 0, 0, 0xc6336401),
    captureIndex: Math.floor((3 * k) / count),
    flowStartMicros: k >> 3,
    flowFirstPacketNumber: k >> 1,
    pieceIndex: k & 1,
    row: new Float64Array(contract.dimension).fill(k),
  })
  return Array.from({ length: count }, (_, k) => part(k) as FlowRecord)
}

it('has rows in the order in which flows began, in whatever order they end', () => {
  const inOrder = records(9001)
  const rng = createRng(3)
  const shuffled = inOrder.slice()
  for (let k = shuffled.length - 1; k > 0; k--) {
    const j = rng.nextBelow(k + 1)
    const held = shuffled[k] as FlowRecord
    shuffled[k] = shuffled[j] as FlowRecord
    shuffled[j] = held
  }
  const [first, second] = [inOrder, shuffled].map((list) => {
    const rows = createTrainingRows(contract)
    for (const record of list) rows.add(record)
    rows.add({ row: null, noRowReason: 'remainder' } as FlowRecord)
    return rows.finish(null)
  })
  expect(first?.rows.rows).toBe(9001)
  expect(Array.from(first?.rows.data ?? []).filter((_, k) => k % contract.dimension === 0)).toEqual(
    inOrder.map((_, k) => k),
  )
  expect(second).toEqual(first)
  expect(new Set(first?.deviceOfRow).size).toBe(21)
  expect(Array.from(first?.deviceOfRow?.subarray(0, 7) ?? [])).toEqual([0, 1, 2, 3, 4, 5, 6])
})

it('asks before it takes memory for more rows', () => {
  const asked: number[] = []
  const rows = createTrainingRows(contract, (count) => {
    asked.push(count)
    if (count > 4096) throw new Error('too many')
  })
  const [record] = records(1) as [FlowRecord]
  for (let k = 0; k < 4096; k++) rows.add(record)
  expect(() => rows.add(record)).toThrow('too many')
  expect(asked).toEqual([1, 4097])
})
