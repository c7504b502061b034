import type { ArgumentError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { createSuppression, PROTOCOLS, RULES, type SuppressionRule } from '../../src/alerts/suppress.js'
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

describe('rules that take every alert together', () => {
  const refusal = (...rules: Omit<SuppressionRule, 'name'>[]): string => {
    try {
      createSuppression(rules.map((rule, i) => ({ name: `rule ${i}`, ...rule })))
      return ''
    } catch (error) {
      const { field, message } = error as ArgumentError
      return `${field}: ${message}`
    }
  }
  const halves = [{ peer: '0.0.0.0/1' }, { peer: '128.0.0.0/1' }]

  it.each([
    ['both halves of IPv4', halves, '[1].peer'],
    [
      'the unicast addresses',
      [{ peer: '192.0.0.0/3' }, { peer: '128.0.0.0/2' }, { peer: '0.0.0.0/1' }],
      '[2].peer',
    ],
    [
      'pieces of a device',
      ['0.0.0.0/2', '64.0.0.0/2', '128.0.0.0/1'].map((device) => ({ device })),
      '[2].device',
    ],
    ['halves of IPv6', [{ peer: '::/1' }, { peer: '8000::/1' }], '[1].peer'],
    ['all protocols', PROTOCOLS.map((protocol) => ({ protocol })), '[4].protocol'],
    ['all rules', RULES.map((rule) => ({ rule })), `[${RULES.length - 1}].rule`],
    ['all days', [{ days: ['mon', 'tue', 'wed', 'thu', 'fri'] }, { days: ['sat', 'sun'] }], '[1].days'],
    ['another rule between', [halves[0], { port: 443 }, halves[1]], '[2].peer'],
  ] as const)('are refused: %s', (_, rules, field) => {
    expect(refusal(...(rules as readonly Omit<SuppressionRule, 'name'>[]))).toBe(
      `${field}: suppresses every alert together with the rules before it`,
    )
  })

  it.each([
    ['a hole', [{ peer: '0.0.0.0/1' }, { peer: '128.0.0.0/2' }, { peer: '192.0.0.0/4' }]],
    ['halves of different ends', [{ peer: '0.0.0.0/1' }, { device: '128.0.0.0/1' }]],
    ['a further condition', [halves[0], { peer: '128.0.0.0/1', port: 443 }]],
    ['a device by MAC', [{ device: '02:00:00:00:00:0a' }, { device: '0.0.0.0/1' }]],
  ] as const)('are allowed with %s', (_, rules) => {
    expect(refusal(...rules)).toBe('')
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
    [{ from: '25:00', until: '02:00' }, '[0].from', /time of day/],
    [{ port: 1, colour: 'red' }, '[0].colour', /no such condition/],
    [{ rule: 'scores' }, '[0].rule', /one of score, one-packet, .* found "scores"/],
    [{ protocol: 'tpc' }, '[0].protocol', /one of tcp, udp, .* found "tpc"/],
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
