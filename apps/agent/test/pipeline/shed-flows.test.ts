import { describe, expect, it } from 'vitest'
import { ShedFlows } from '../../src/pipeline/overload.js'

describe('flows that were left out', () => {
  it('are held until they have been silent for a minute', () => {
    const flows = new ShedFlows()
    expect(flows.any(0)).toBe(false)
    flows.add(-7, 100)
    expect(flows.holds(7, 100)).toBe(false)
    for (const now of [101, 160, 220, 280]) expect(flows.holds(-7, now)).toBe(true)
    expect(flows.any(340)).toBe(true)
    expect(flows.any(341)).toBe(false)
    expect(flows.holds(-7, 341)).toBe(false)
  })

  it('are let in after ten minutes, though they never fall silent', () => {
    const flows = new ShedFlows()
    for (let now = 0; now <= 600; now += 10) {
      flows.add(5, now)
      expect(flows.holds(5, now)).toBe(true)
    }
    expect(flows.holds(5, 601)).toBe(false)
  })

  it('that go on outlast a flood of others', () => {
    const flows = new ShedFlows()
    let flood = 0
    const mine = Array.from({ length: 200 }, (_, k) => Math.imul(k + 1, 0x85ebca6b))
    // 200 flows, each with ten packets a second, beside 97,000 others a second
    for (let second = 0; second < 10; second++) {
      for (let tenth = 0; tenth < 10; tenth++) {
        for (let i = 0; i < 9700; i++) flows.add(Math.imul(++flood, 0x9e3779b1) ^ 0x5bd1e995, second)
        for (const hash of mine) flows.add(hash, second)
      }
    }
    expect(mine.filter((hash) => flows.holds(hash, 12)).length).toBeGreaterThan(195)
  })
})
