import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createAggregator } from '../../src/alerts/aggregate.js'
import type { Alert } from '../../src/alerts/alert.js'
import { sampleAlert } from '../support/sample-alert.js'

const SECOND = 1_000_000
const base = 1_700_000_000 * SECOND

function folding(changes: { kindsPerDevice?: number; maximumKinds?: number } = {}) {
  const given: Alert[] = []
  const aggregator = createAggregator({
    windowMicros: 60 * SECOND,
    kindsPerDevice: 4,
    maximumKinds: 100,
    emit: (alert) => given.push(alert),
    ...changes,
  })
  return { aggregator, given }
}

const at = (seconds: number, changes: Parameters<typeof sampleAlert>[0] = {}): Alert =>
  sampleAlert({ atMicros: base + seconds * SECOND, ...changes })

describe('alike alerts', () => {
  it('come once, then once a window as a count with the furthest out of them, until a window has none', () => {
    const { aggregator, given } = folding()
    const first = at(0, { score: -9 })
    aggregator.add(first)
    expect(given).toEqual([first])
    aggregator.add(at(10, { score: -20 }))
    aggregator.add(at(20, { score: -30 }))
    aggregator.add(at(59, { score: -10 }))
    expect(given).toHaveLength(1)
    aggregator.add(at(61, { score: -11 }))
    expect(given).toHaveLength(2)
    expect(given[1]).toMatchObject({
      score: -30,
      folded: {
        count: 3,
        firstMicros: base + 10 * SECOND,
        lastMicros: base + 59 * SECOND,
        peers: 1,
        services: 1,
        firstId: first.id,
      },
    })
    expect(given[1]!.id).not.toBe(first.id)
    aggregator.advance(base + 122 * SECOND)
    expect(given[2]).toMatchObject({ score: -11, folded: { count: 1 } })
    expect(aggregator.openKinds).toBe(1)
    aggregator.advance(base + 183 * SECOND)
    expect(given).toHaveLength(3)
    expect(aggregator.openKinds).toBe(0)
    aggregator.add(at(184))
    expect(given[3]!.folded).toBeNull()
  })

  it('wait as long as they would have where the clock is set, by years and back too', () => {
    for (const step of [20, 3600, 20 * 365 * 86_400, -3600, -20 * 365 * 86_400]) {
      const { aggregator, given } = folding()
      aggregator.add(at(0))
      aggregator.add(at(10))
      aggregator.clockSet(step * SECOND)
      // of a flow that began before: its own time is of the clock as it was
      aggregator.add(at(20), base + (step + 20) * SECOND)
      aggregator.advance(base + (step + 59) * SECOND)
      expect(given).toHaveLength(1)
      aggregator.advance(base + (step + 61) * SECOND)
      expect(given).toHaveLength(2)
      expect(given[1]?.folded).toMatchObject({ count: 2 })
    }
  })

  it('are of one device, one rule, one peer and one service', () => {
    const { aggregator, given } = folding({ kindsPerDevice: 100 })
    const alerts = [
      at(0),
      at(1, { device: { mac: '02:00:00:00:00:0b', address: '192.0.2.11' } }),
      at(2, { rule: 'one-packet', score: null }),
      at(3, { peer: '198.51.100.2' }),
      at(4, { flow: { destinationPort: 80 } }),
      at(5, { flow: { protocol: 'udp' } }),
    ]
    for (const alert of alerts) aggregator.add(alert)
    expect(given).toEqual(alerts)
    // another source port is the same service
    aggregator.add(at(6, { flow: { sourcePort: 50_001 } }))
    expect(aggregator.folded).toBe(1)
  })

  it('of a scan become one kind, that counts peers and services', () => {
    const { aggregator, given } = folding()
    for (let port = 1; port <= 1000; port++)
      aggregator.add(at(port / 100, { flow: { destinationPort: port } }))
    expect(given).toHaveLength(5)
    aggregator.flush()
    expect(given).toHaveLength(6)
    expect(given[5]!.folded).toMatchObject({ count: 995, peers: 1, services: 256 })
    expect(aggregator.openKinds).toBe(0)
  })

  it('of a scan or a flood aggregator away no alert of another rule', () => {
    const { aggregator, given } = folding()
    for (let port = 1; port <= 1000; port++)
      aggregator.add(at(port / 100, { flow: { destinationPort: port } }))
    aggregator.add(at(11, { rule: 'request-flood' }))
    expect(given.map(({ rule }) => rule)).toContain('request-flood')
  })

  it('take no more room than they may, whatever the devices', () => {
    const { aggregator, given } = folding({ maximumKinds: 10 })
    for (let i = 0; i < 5000; i++) {
      aggregator.add(at(i / 1000, { device: { mac: null, address: `device ${i}` } }))
      expect(aggregator.openKinds).toBeLessThanOrEqual(11)
    }
    aggregator.flush()
    expect(given.length + aggregator.folded - aggregator.summaries).toBe(5000)
  })
})

it('every alert is given out or in a count, whatever comes', () => {
  const step = fc.record({
    pause: fc.integer({ min: 0, max: 90 }),
    device: fc.integer({ min: 0, max: 2 }),
    port: fc.integer({ min: 1, max: 12 }),
    score: fc.double({ min: -100, max: -9, noNaN: true }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 12 }), (steps, maximumKinds) => {
      const { aggregator, given } = folding({ maximumKinds })
      let seconds = 0
      for (const { pause, device, port, score } of steps) {
        seconds += pause
        const name = `02:00:00:00:00:0${device}`
        aggregator.add(
          at(seconds, { device: { mac: name, address: name }, score, flow: { destinationPort: port } }),
        )
      }
      aggregator.flush()
      const single = given.filter(({ folded }) => folded === null).length
      const counted = given.reduce((sum, { folded }) => sum + (folded?.count ?? 0), 0)
      expect(single + counted).toBe(steps.length)
      expect(counted).toBe(aggregator.folded)
      expect(given.length - single).toBe(aggregator.summaries)
      expect(new Set(given.map(({ id }) => id)).size).toBe(given.length)
    }),
  )
})
