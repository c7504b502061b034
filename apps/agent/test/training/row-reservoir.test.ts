import { FormatError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeRowReservoir, RowReservoir, reservoirBytes } from '../../src/models/row-reservoir.js'

const shape = { dimension: 3, capacity: 50, seed: 7 }
const rowOf = (i: number): Float64Array => Float64Array.of(i, i / 3, -i)
const filled = (rows: number, from = new RowReservoir(shape), first = 0): RowReservoir => {
  for (let i = first; i < first + rows; i++) from.add(rowOf(i), 1000 * i, i % 5)
  return from
}

describe('a reservoir of rows', () => {
  it('has all rows in order while there is room, and a sample in order beyond', () => {
    expect(filled(20).rows()).toEqual({
      rows: 20,
      cols: 3,
      data: rowsTo(20),
    })
    const beyond = filled(1000)
    expect(beyond).toMatchObject({ count: 50, seen: 1000 })
    const firsts = Array.from({ length: 50 }, (_, i) => beyond.rows().data[3 * i])
    expect(firsts).toEqual([...firsts].sort((a, b) => a - b))
    expect(new Set(firsts).size).toBe(50)
  })

  it('draws every row alike: the mean of what it keeps is that of all', () => {
    let sum = 0
    for (let seed = 0; seed < 200; seed++) {
      const { data } = filled(500, new RowReservoir({ ...shape, seed })).rows()
      for (let i = 0; i < 50; i++) sum += data[3 * i]
    }
    // 10,000 draws from 0 … 499: a standard error of 1.4
    expect(Math.abs(sum / 10_000 - 249.5)).toBeLessThan(6)
  })

  it('removes the rows of flows between two addresses in a time, and keeps the others in order', () => {
    const reservoir = filled(20)
    expect(reservoir.removeFlows(new Set([0, 2, 7]), 2000, 15_000)).toBe(6)
    expect(reservoir.removeFlows(new Set([0, 2, 7]), 2000, 15_000)).toBe(0)
    const left = (): number[] => {
      const { rows, data } = reservoir.rows()
      return Array.from({ length: rows }, (_, i) => data[3 * i] ?? Number.NaN)
    }
    const expected = Array.from({ length: 20 }, (_, i) => i).filter((i) => ![2, 5, 7, 10, 12, 15].includes(i))
    expect(left()).toEqual(expected)
    reservoir.add(rowOf(20))
    expect(left()).toEqual([...expected, 20])
    const again = decodeRowReservoir(reservoir.encode(), shape)
    expect(again.rows()).toEqual(reservoir.rows())
    // the clock was set, and a row whose flow is not known stays
    again.clockSet(1_000_000)
    again.add(rowOf(21))
    expect(again.removeFlows(new Set([0, 1, 2, 3, 4]), 0, 999_999)).toBe(0)
    again.removeFlows(new Set([0, 1, 2, 3, 4]), 1_000_000, 2_000_000)
    expect([...again.rows().data]).toEqual([...rowOf(20), ...rowOf(21)])
  })

  it('takes no more than it says', () => {
    expect(filled(5000).bytes).toBe(reservoirBytes(shape))
    expect(filled(1).bytes).toBeLessThan(reservoirBytes(shape))
  })

  it('continues after a restart as without one', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 200 }), (before, after) => {
        const first = filled(before)
        first.addOnePacket('udp/53')
        first.notes.set('flows', before)
        const again = decodeRowReservoir(first.encode(), shape)
        expect(again.notes.get('flows')).toBe(before)
        filled(after, first, before)
        filled(after, again, before)
        expect(again.encode()).toEqual(first.encode())
      }),
      { numRuns: sampleCount(60, 0.25) },
    )
  })

  it('names the services of flows of one packet, sorted and bounded', () => {
    const reservoir = new RowReservoir(shape)
    for (let port = 2000; port > 0; port--) reservoir.addOnePacket(`udp/${port}`)
    const { flows, services } = reservoir.onePacketRule()
    expect(flows).toBe(2000)
    expect(services).toHaveLength(1024)
    expect([...services].sort()).toEqual(services)
  })

  it('refuses every file that is damaged, at any byte', () => {
    const bytes = filled(30).encode()
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const damaged = bytes.slice()
        damaged[at] ^= change
        try {
          // white space that became another white space is no damage
          expect(decodeRowReservoir(damaged, shape).encode()).toEqual(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError)
        }
      }),
      { numRuns: sampleCount(300) },
    )
    expect(() => decodeRowReservoir(bytes.subarray(0, bytes.length - 5), shape)).toThrow(FormatError)
    expect(() => decodeRowReservoir(bytes, { ...shape, dimension: 4 })).toThrow(/rows of 4 numbers, found 3/)
    expect(() => decodeRowReservoir(bytes, { ...shape, capacity: 10 })).toThrow(/at most 10 rows, found 30/)
  })
})

function rowsTo(count: number): Float64Array {
  return Float64Array.from(Array.from({ length: count }, (_, i) => [...rowOf(i)]).flat())
}
