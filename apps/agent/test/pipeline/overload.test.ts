import { describe, expect, it } from 'vitest'
import { endHash } from '../../src/pipeline/end-hash.js'
import { createOverload } from '../../src/pipeline/overload.js'

const LIMIT = 1000

function made() {
  const said: string[] = []
  const now = { millis: 0, residentBytes: 0 }
  const overload = createOverload({
    memoryLimitBytes: LIMIT,
    seed: 12_345,
    monotonicMillis: () => now.millis,
    residentBytes: () => now.residentBytes,
    info: (message) => said.push(message),
    warn: (message) => said.push(message),
  })
  /** A second of traffic in ten batches; what is left out follows from the rule. */
  const second = (packets: number, lagSeconds: number | null): number => {
    let shed = 0
    for (let i = 0; i < 10; i++) {
      let shedHere = 0
      for (let p = 0; p < packets / 10; p++) {
        const address = Uint32Array.of(0, 0, 0, 1000 * i + p)
        if (overload.sheds(endHash(address, 0, 1024 + p, 7), endHash(Uint32Array.of(0, 0, 0, 9), 0, 80, 7)))
          shedHere++
      }
      now.millis += 100
      overload.note(packets / 10, shedHere, lagSeconds)
      shed += shedHere
    }
    return shed
  }
  return { overload, said, now, second }
}

describe('overload', () => {
  it('is entered once and left once in a flood that goes on, and sheds about what the steps say', () => {
    const { overload, said, second } = made()
    for (let i = 0; i < 5; i++) second(1000, 0.01)
    expect(overload.isOverloaded).toBe(false)
    second(4000, 0.8)
    expect(overload.isOverloaded).toBe(true)
    const half = second(4000, 0.7)
    expect(half / 4000).toBeGreaterThan(0.44)
    expect(half / 4000).toBeLessThan(0.56)
    // three in four are left out now, which is enough: nothing waits, and the flood goes on for a minute
    for (let i = 0; i < 60; i++) expect(second(4000, 0.01) / 4000).toBeCloseTo(0.75, 1)
    for (let i = 0; i < 12; i++) second(500, 0.01)
    expect(overload.isOverloaded).toBe(false)
    expect(second(1000, 0.01)).toBe(0)
    expect(said).toHaveLength(2)
    expect(said[0]).toMatch(/^overload entered: packets wait for 0\.8 s; /)
    expect(said[1]).toMatch(/^overload left after \d+ s: \d{5,} packets were left out$/)
    expect(overload.times).toBe(1)
  })

  it('is no matter of one late batch, of silence, or of an input that waits', () => {
    const { overload, now, second } = made()
    second(1000, 0.01)
    overload.note(1000, 0, 5)
    overload.note(1000, 0, 0.2)
    now.millis += 1000
    overload.tick()
    for (let i = 0; i < 20; i++) {
      now.millis += 1000
      overload.tick()
    }
    for (let i = 0; i < 5; i++) second(100_000, null)
    expect(overload.times).toBe(0)
  })

  it('is entered where memory nears its ceiling, keeps a quarter of the flows, and ends with silence', () => {
    const { overload, said, now, second } = made()
    now.residentBytes = 0.98 * LIMIT
    for (let i = 0; i < 10; i++) second(1000, null)
    expect(said).toHaveLength(1)
    expect(said[0]).toContain('resident memory is 98 % of its ceiling')
    expect(second(1000, null) / 1000).toBeCloseTo(0.75, 1)
    now.residentBytes = 0.96 * LIMIT
    for (let i = 0; i < 10; i++) second(100, null)
    expect(overload.isOverloaded).toBe(true)
    now.residentBytes = 0.9 * LIMIT
    for (let i = 0; i < 8; i++) {
      now.millis += 1000
      overload.tick()
    }
    expect(overload.isOverloaded).toBe(false)
    expect(said).toHaveLength(2)
  })

  it('leaves out both directions of a flow or neither', () => {
    const { overload, second } = made()
    for (let i = 0; i < 3; i++) second(1000, 1)
    let shed = 0
    for (let i = 0; i < 2000; i++) {
      const one = endHash(Uint32Array.of(0, 0, 0, 0x0a000000 + i), 0, 1024 + i, 7)
      const other = endHash(Uint32Array.of(0x20010db8, 0, 0, i), 0, 443, 7)
      const isShed = overload.sheds(one, other)
      expect(overload.sheds(other, one)).toBe(isShed)
      if (isShed) shed++
    }
    expect(shed / 2000).toBeCloseTo(7 / 8, 1)
  })
})
