import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Alert } from '../../src/alerts/alert.js'
import { createFold } from '../../src/alerts/fold.js'
import { sampleAlert } from '../support/sample-alert.js'

const SECOND = 1_000_000
const base = 1_700_000_000 * SECOND

function folding(changes: { kindsPerDevice?: number; maximumKinds?: number } = {}) {
  const given: Alert[] = []
  const fold = createFold({
    windowMicros: 60 * SECOND,
    kindsPerDevice: 4,
    maximumKinds: 100,
    emit: (alert) => given.push(alert),
    ...changes,
  })
  return { fold, given }
}

const at = (seconds: number, changes: Parameters<typeof sampleAlert>[0] = {}): Alert =>
  sampleAlert({ atMicros: base + seconds * SECOND, ...changes })

describe('alike alerts', () => {
  it('come once, then once a window as a count with the furthest out of them, until a window has none', () => {
    const { fold, given } = folding()
    const first = at(0, { score: -9 })
    fold.add(first)
    expect(given).toEqual([first])
    fold.add(at(10, { score: -20 }))
    fold.add(at(20, { score: -30 }))
    fold.add(at(59, { score: -10 }))
    expect(given).toHaveLength(1)
    fold.add(at(61, { score: -11 }))
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
    fold.advance(base + 122 * SECOND)
    expect(given[2]).toMatchObject({ score: -11, folded: { count: 1 } })
    expect(fold.openKinds).toBe(1)
    fold.advance(base + 183 * SECOND)
    expect(given).toHaveLength(3)
    expect(fold.openKinds).toBe(0)
    fold.add(at(184))
    expect(given[3]!.folded).toBeNull()
  })

  it('wait as long as they would have where the clock is set, by years and back too', () => {
    for (const step of [20, 3600, 20 * 365 * 86_400, -3600, -20 * 365 * 86_400]) {
      const { fold, given } = folding()
      fold.add(at(0))
      fold.add(at(10))
      fold.clockSet(step * SECOND)
      // of a flow that began before: its own time is of the clock as it was
      fold.add(at(20), base + (step + 20) * SECOND)
      fold.advance(base + (step + 59) * SECOND)
      expect(given).toHaveLength(1)
      fold.advance(base + (step + 61) * SECOND)
      expect(given).toHaveLength(2)
      expect(given[1]?.folded).toMatchObject({ count: 2 })
    }
  })

  it('are of one device, one rule, one peer and one service', () => {
    const { fold, given } = folding({ kindsPerDevice: 100 })
    const alerts = [
      at(0),
      at(1, { device: { mac: '02:00:00:00:00:0b', address: '192.0.2.11' } }),
      at(2, { rule: 'one-packet', score: null }),
      at(3, { peer: '198.51.100.2' }),
      at(4, { flow: { destinationPort: 80 } }),
      at(5, { flow: { protocol: 'udp' } }),
    ]
    for (const alert of alerts) fold.add(alert)
    expect(given).toEqual(alerts)
    // another source port is the same service
    fold.add(at(6, { flow: { sourcePort: 50_001 } }))
    expect(fold.folded).toBe(1)
  })

  it('of a scan become one kind, that counts peers and services', () => {
    const { fold, given } = folding()
    for (let port = 1; port <= 1000; port++) fold.add(at(port / 100, { flow: { destinationPort: port } }))
    expect(given).toHaveLength(5)
    fold.flush()
    expect(given).toHaveLength(6)
    expect(given[5]!.folded).toMatchObject({ count: 995, peers: 1, services: 256 })
    expect(fold.openKinds).toBe(0)
  })

  it('of a scan or a flood fold away no alert of another rule', () => {
    const { fold, given } = folding()
    for (let port = 1; port <= 1000; port++) fold.add(at(port / 100, { flow: { destinationPort: port } }))
    fold.add(at(11, { rule: 'request-flood' }))
    expect(given.map(({ rule }) => rule)).toContain('request-flood')
  })

  it('take no more room than they may, whatever the devices', () => {
    const { fold, given } = folding({ maximumKinds: 10 })
    for (let i = 0; i < 5000; i++) {
      fold.add(at(i / 1000, { device: { mac: null, address: `device ${i}` } }))
      expect(fold.openKinds).toBeLessThanOrEqual(11)
    }
    fold.flush()
    expect(given.length + fold.folded - fold.summaries).toBe(5000)
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
      const { fold, given } = folding({ maximumKinds })
      let seconds = 0
      for (const { pause, device, port, score } of steps) {
        seconds += pause
        const name = `02:00:00:00:00:0${device}`
        fold.add(
          at(seconds, { device: { mac: name, address: name }, score, flow: { destinationPort: port } }),
        )
      }
      fold.flush()
      const single = given.filter(({ folded }) => folded === null).length
      const counted = given.reduce((sum, { folded }) => sum + (folded?.count ?? 0), 0)
      expect(single + counted).toBe(steps.length)
      expect(counted).toBe(fold.folded)
      expect(given.length - single).toBe(fold.summaries)
      expect(new Set(given.map(({ id }) => id)).size).toBe(given.length)
    }),
  )
})
