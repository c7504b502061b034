import { ArgumentError, ContractMismatchError, DataError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createFlowCollector, extractMatrix, extractRecords, learnIatSizeContract } from '../src/index.js'
import { linearQuantile } from '../src/numbers.js'
import { batchesOf, collect, contractOf, type Packet } from './support/packets.js'

/** Flow k begins at k · 1,000 s and has packets at these seconds after. */
function flows(times: readonly (readonly number[])[]): Packet[] {
  return times.flatMap((seconds, k) =>
    seconds.map((t): Packet => ({ t: 1000 * k + t, from: [1, 1000 + k], to: [2, 443] })),
  )
}

describe('linearQuantile', () => {
  it('is numpy.quantile to the bit (numpy 2.4)', () => {
    const values = [0.1, 7, 3, 3.3, 2.2, 1e6]
    expect(linearQuantile(values, 0.9)).toBe(500003.5)
    expect(linearQuantile(values, 0.5)).toBe(3.15)
    expect(linearQuantile(values, 0.13)).toBe(1.4650000000000003)
    expect(linearQuantile(values, 0)).toBe(0.1)
    expect(linearQuantile(values, 1)).toBe(1e6)
    expect(linearQuantile([5], 0.9)).toBe(5)
  })
  it('lies between the smallest and the largest value and grows with q', () => {
    const values = fc.array(fc.integer({ min: 0, max: 1e12 }), { minLength: 1, maxLength: 50 })
    const q = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(values, q, q, (numbers, q1, q2) => {
        const [low, high] = [Math.min(q1, q2), Math.max(q1, q2)].map((x) => linearQuantile(numbers, x))
        expect(low).toBeGreaterThanOrEqual(Math.min(...numbers))
        expect(high).toBeLessThanOrEqual(Math.max(...numbers))
        expect(low).toBeLessThanOrEqual(high + 1e-3)
      }),
    )
  })
})

describe('learnIatSizeContract', () => {
  it('cuts at the 0.9-quantile of durations, then counts the packets of the pieces', () => {
    // Durations 1 … 11 s; the flow of one packet says nothing. 0.9 · 10 = 9: the tenth, 10 s.
    const packets = flows([...Array.from({ length: 11 }, (_, k) => [0, (k + 1) / 2, k + 1]), [0]])
    const contract = learnIatSizeContract(collect(batchesOf(packets)))
    expect(contract.truncation).toEqual({ mode: 'split', durationMicros: 10_000_000 })
    expect(contract.packetsPerFlow).toBe(3)
    expect(contract.dimension).toBe(5)
    expect(contract).toMatchObject({
      iatUnit: 'seconds',
      sizeMeasure: 'frame',
      idleTimeoutMicros: 600_000_000,
    })
  })
  it('rounds the duration down to whole microseconds, but not below one', () => {
    const learn = (times: number[][]) => learnIatSizeContract(collect(batchesOf(flows(times)))).truncation
    // 0.9 of the way from 3 to 8 µs: 7.5.
    expect(
      learn([
        [0, 0.000003],
        [0, 0.000008],
      ]).durationMicros,
    ).toBe(7)
    expect(
      learn([
        [0, 0],
        [0, 0],
      ]).durationMicros,
    ).toBe(1)
    // 0.9 of the way from 0 to 10 µs is 9, whatever the interpolation leaves.
    expect(
      learn([
        [0, 0],
        [0, 0.00001],
      ]).durationMicros,
    ).toBe(9)
  })
  it('says what it lacks', () => {
    expect(() => learnIatSizeContract(collect(batchesOf(flows([[0], [0]]))))).toThrow(DataError)
    expect(() => learnIatSizeContract(collect([]))).toThrow(DataError)
    const some = collect(batchesOf(flows([[0, 1]])))
    expect(() => learnIatSizeContract(some, { quantile: 1.1 })).toThrow(ArgumentError)
    expect(() => learnIatSizeContract(some, { minimumPackets: 1 })).toThrow(ArgumentError)
    expect(() => learnIatSizeContract(some, { activeTimeoutMicros: 0 })).toThrow(ArgumentError)
    expect(() => createFlowCollector({ idleTimeoutMicros: 0 })).toThrow(ArgumentError)
  })
})

describe('collected flows', () => {
  it('make a matrix of the rows', () => {
    const some = collect(batchesOf(flows([[0, 1, 2], [0], [0, 3]])))
    const matrix = extractMatrix(some, contractOf())
    expect([matrix.rows, matrix.cols]).toEqual([2, 7])
    expect(Array.from(matrix.data)).toEqual([1, 60, 1, 60, 60, 0, 0, 3, 60, 60, 0, 0, 0, 0])
  })
  it('refuse a contract that they were not collected for', () => {
    const some = collect(batchesOf(flows([[0, 1]])))
    for (const changes of [{ idleTimeoutMicros: 5 }, { sizeMeasure: 'ip' as const }]) {
      expect(() => extractRecords(some, contractOf(changes), () => {})).toThrow(ContractMismatchError)
    }
  })
  it('stop with an error when memory is full, rather than leave flows out', () => {
    const collector = createFlowCollector({ memoryBytes: 1024 * 1024 })
    const [batch] = batchesOf(flows([Array.from({ length: 60 }, (_, i) => i)]))
    expect(() => {
      for (let i = 0; i < 10_000; i++) collector.add(batch)
    }).toThrow(DataError)
  })
})
