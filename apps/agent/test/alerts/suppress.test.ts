import { describe, expect, it } from 'vitest'
import { createSuppression, type SuppressionRule } from '../../src/alerts/suppress.js'
import { sampleAlert } from '../support/sample-alert.js'

const takes = (
  rule: Omit<SuppressionRule, 'name'>,
  changes: Parameters<typeof sampleAlert>[0] = {},
): boolean => createSuppression([{ name: 'rule', ...rule }]).take(sampleAlert(changes)) === 'rule'

describe('conditions', () => {
  it('of the device: its MAC in any spelling, its address, its network', () => {
    expect(takes({ device: '02-00-00-00-00-0A' })).toBe(true)
    expect(takes({ device: '02:00:00:00:00:0b' })).toBe(false)
    expect(takes({ device: '192.0.2.10' })).toBe(true)
    expect(takes({ device: '192.0.2.0/28' })).toBe(true)
    expect(takes({ device: '192.0.2.16/28' })).toBe(false)
    expect(takes({ device: '2001:db8::/32' })).toBe(false)
    expect(takes({ device: '2001:db8::/32' }, { device: { mac: null, address: '2001:db8::7' } })).toBe(true)
  })

  it('of the peer, the protocol, the service and the rule', () => {
    expect(takes({ peer: '198.51.100.0/24' })).toBe(true)
    expect(takes({ peer: '198.51.101.0/24' })).toBe(false)
    expect(takes({ protocol: 'tcp' })).toBe(true)
    expect(takes({ protocol: 'udp' })).toBe(false)
    expect(takes({ port: 443 })).toBe(true)
    expect(takes({ port: 50_000 })).toBe(false)
    expect(takes({ rule: 'score' })).toBe(true)
    expect(takes({ rule: 'one-packet' })).toBe(false)
  })

  it('must all hold', () => {
    expect(takes({ peer: '198.51.100.1', port: 443 })).toBe(true)
    expect(takes({ peer: '198.51.100.1', port: 80 })).toBe(false)
  })

  it('of the time: in the hours, over midnight too, on the day on which they begin', () => {
    const on = (day: number, hour: number, minute = 0) => ({
      atMicros: new Date(2024, 2, day, hour, minute).getTime() * 1000,
    })
    // 1 March 2024 was a Friday
    expect(takes({ from: '02:00', until: '04:30' }, on(1, 2))).toBe(true)
    expect(takes({ from: '02:00', until: '04:30' }, on(1, 4, 29))).toBe(true)
    expect(takes({ from: '02:00', until: '04:30' }, on(1, 4, 30))).toBe(false)
    expect(takes({ from: '23:00', until: '01:00' }, on(1, 23, 30))).toBe(true)
    expect(takes({ from: '23:00', until: '01:00' }, on(1, 0, 59))).toBe(true)
    expect(takes({ from: '23:00', until: '01:00' }, on(1, 12))).toBe(false)
    expect(takes({ days: ['fri'] }, on(1, 12))).toBe(true)
    expect(takes({ days: ['sat', 'sun'] }, on(1, 12))).toBe(false)
    expect(takes({ days: ['fri'], from: '23:00', until: '01:00' }, on(2, 0, 30))).toBe(true)
    expect(takes({ days: ['sat'], from: '23:00', until: '01:00' }, on(2, 0, 30))).toBe(false)
    expect(takes({ from: '20:00', until: '24:00' }, on(1, 23, 59))).toBe(true)
  })
})

it('the first rule that holds takes the alert, and is counted', () => {
  const suppression = createSuppression([
    { name: 'web', port: 443 },
    { name: 'everything of it', device: '02:00:00:00:00:0a' },
  ])
  expect(suppression.take(sampleAlert())).toBe('web')
  expect(suppression.take(sampleAlert({ flow: { destinationPort: 22 } }))).toBe('everything of it')
  expect(
    suppression.take(
      sampleAlert({ device: { mac: null, address: '192.0.2.9' }, flow: { destinationPort: 22 } }),
    ),
  ).toBeNull()
  expect(suppression.counts).toEqual({ web: 1, 'everything of it': 1 })
})

describe('refusals name the place and what was expected', () => {
  it.each([
    [{}, '[0]', /at least one condition/],
    [{ device: 'fridge' }, '[0].device', /an address or a network/],
    [{ peer: '192.0.2.0/33' }, '[0].peer', /an address or a network/],
    [{ peer: '192.0.2.0/24/1' }, '[0].peer', /an address or a network/],
    [{ from: '02:00' }, '[0]', /both from and until/],
  ])('%j', (rule: object, field, says) => {
    let thrown: unknown
    try {
      createSuppression([{ name: 'rule', ...rule }])
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ field, message: expect.stringMatching(says) })
  })
})
