/**
 * Events have the shape that Suricata's own schema (etc/schema.json of its sources) gives an alert: these field
 * names with these types, none beside them but the one object of ours.
 */
import { describe, expect, it } from 'vitest'
import type { AlertFlow } from '../../src/alerts/alert.js'
import { makeAlert } from '../../src/alerts/alert-pipeline.js'
import { encodeEve, eveEvent, eveTime } from '../../src/alerts/eve.js'
import { NO_EXPLANATION, sampleAlert } from '../support/sample-alert.js'
import { sampleRecord } from '../support/sample-record.js'

type Shape = { readonly [field: string]: 'string' | 'integer' | RegExp | Shape }

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d+[+-]\d+$/
const SURICATA: Shape = {
  timestamp: TIME,
  flow_id: 'integer',
  in_iface: 'string',
  event_type: /^alert$/,
  src_ip: 'string',
  src_port: 'integer',
  dest_ip: 'string',
  dest_port: 'integer',
  proto: 'string',
  icmp_type: 'integer',
  icmp_code: 'integer',
  community_id: 'string',
  alert: {
    action: 'string',
    gid: 'integer',
    signature_id: 'integer',
    rev: 'integer',
    signature: 'string',
    category: 'string',
    severity: 'integer',
  },
  flow: {
    pkts_toserver: 'integer',
    pkts_toclient: 'integer',
    bytes_toserver: 'integer',
    bytes_toclient: 'integer',
    start: 'string',
  },
}

function complaints(value: Record<string, unknown>, shape: Shape, path = ''): string[] {
  return Object.entries(value).flatMap(([key, found]) => {
    const expected = shape[key]
    const name = `${path}${key}`
    if (expected === undefined) return [`${name}: not of Suricata`]
    if (expected === 'integer') return Number.isSafeInteger(found) ? [] : [`${name}: ${found}`]
    if (expected === 'string') return typeof found === 'string' ? [] : [`${name}: ${found}`]
    if (expected instanceof RegExp) return expected.test(String(found)) ? [] : [`${name}: ${found}`]
    return complaints(found as Record<string, unknown>, expected, `${name}.`)
  })
}

describe('an event', () => {
  it.each([
    ['by score', sampleAlert()],
    ['of one packet', sampleAlert({ rule: 'one-packet', score: null })],
    ['of ICMP', sampleAlert({ protocol: 1, flow: { protocol: 'icmp', sourcePort: 8, destinationPort: 0 } })],
    ['of IPv6', sampleAlert({ ipVersion: 6, flow: { source: '2001:db8::1', destination: '2001:db8::2' } })],
    [
      'folded',
      sampleAlert({
        folded: { count: 3, firstMicros: 1, lastMicros: 2, peers: 1, services: 1, firstId: 'x' },
      }),
    ],
  ])('%s has the shape of Suricata, and one object beside', (_, alert) => {
    for (const iface of [null, 'eth0']) {
      const { oddflow, ...event } = JSON.parse(
        new TextDecoder().decode(encodeEve(alert, iface, NO_EXPLANATION)),
      )
      expect(complaints(event, SURICATA)).toEqual([])
      for (const field of ['timestamp', 'event_type', 'src_ip', 'dest_ip', 'proto', 'alert']) {
        expect(event).toHaveProperty(field)
      }
      expect(oddflow).toMatchObject({ id: alert.id, rule: alert.rule, score: alert.score, flow: alert.flow })
      expect(event.in_iface).toBe(iface ?? undefined)
    }
  })

  it('says how far out the score is, and nothing where there is none', () => {
    expect(eveEvent(sampleAlert(), null, NO_EXPLANATION)).toMatchObject({
      oddflow: {
        score: -12.5,
        threshold: -8,
        decision: -4.5,
        rarity: { atMost: 0.001, flows: 2000 },
        summary: 'unlike normal flows',
        lostInWindow: 0,
      },
    })
    expect(eveEvent(sampleAlert({ score: null }), null, NO_EXPLANATION)).toMatchObject({
      oddflow: { score: null, decision: null },
    })
  })

  it('names its evidence file and the packets in it', () => {
    const packets = { kept: 3, of: 12, later: 2 }
    expect(eveEvent(sampleAlert(), null, NO_EXPLANATION, { file: 'a.pcap', packets }).oddflow).toMatchObject({
      evidence: 'a.pcap',
      evidencePackets: packets,
    })
    const { oddflow } = eveEvent(sampleAlert(), null, NO_EXPLANATION)
    expect(oddflow).not.toHaveProperty('evidence')
    expect(oddflow).not.toHaveProperty('evidencePackets')
  })

  it('names the VLAN as Suricata does, a list of its tags, where the flow had one', () => {
    const tagged = makeAlert(
      sampleRecord(1, { vlan: 10 }),
      { score: -1, rule: 'score', novel: true, threshold: 0, model: 'a', early: false },
      { lostPackets: 0, lostInWindow: 0 },
      null,
      { localNetworks: [] },
    )
    expect(eveEvent(tagged, null, NO_EXPLANATION).vlan).toEqual([10])
    expect(eveEvent(sampleAlert(), null, NO_EXPLANATION)).not.toHaveProperty('vlan')
  })

  it('has ports, or the type of ICMP', () => {
    expect(eveEvent(sampleAlert(), null, NO_EXPLANATION)).toMatchObject({
      proto: 'TCP',
      src_port: 50_000,
      dest_port: 443,
    })
    const icmp = eveEvent(sampleAlert({ protocol: 58, flow: { sourcePort: 128 } }), null, NO_EXPLANATION)
    expect(icmp).toMatchObject({ proto: 'IPv6-ICMP', icmp_type: 128, icmp_code: 0 })
    // A question stands beside its answer's type, all else beside its code.
    const codeOf = (protocol: number, sourcePort: number, destinationPort: number) =>
      eveEvent(sampleAlert({ protocol, flow: { sourcePort, destinationPort } }), null, NO_EXPLANATION)
        .icmp_code
    expect([
      codeOf(1, 8, 0),
      codeOf(1, 3, 3),
      codeOf(1, 11, 1),
      codeOf(58, 128, 129),
      codeOf(58, 1, 4),
    ]).toEqual([0, 3, 1, 0, 4])
    expect(icmp).not.toHaveProperty('src_port')
  })

  it('is one line without control characters', () => {
    const line = new TextDecoder().decode(encodeEve(sampleAlert(), 'eth\n\u001b[2J\u202e', NO_EXPLANATION))
    expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u)
    expect(JSON.parse(line).in_iface).toBe('eth\n\u001b[2J\u202e')
  })
})

describe('times', () => {
  it.each([
    [1_709_288_430_123_456, '2024-03-01T10:20:30.123456+0000'],
    [0, '1970-01-01T00:00:00.000000+0000'],
    [-1, '1969-12-31T23:59:59.999999+0000'],
    [2 ** 53 - 1, '2255-06-05T23:47:34.740991+0000'],
    [-(2 ** 53 - 1), '1684-07-28T00:12:25.259009+0000'],
  ])('%d µs', (micros, text) => {
    expect(eveTime(micros)).toBe(text)
  })
})

it('events of one flow share its id and its start, and say which piece each is of', () => {
  const startMicros = 1_700_000_000_000_000
  const events = [0, 1, 2].map((pieceIndex) => {
    const record = sampleRecord(1, { pieceIndex, startMicros: startMicros + pieceIndex * 60_000_000 })
    const verdict = { score: -1, novel: true, rule: 'score', early: true, threshold: 0, model: 'm' } as const
    const losses = { lostPackets: 0, lostInWindow: 0 }
    return eveEvent(makeAlert(record, verdict, losses, null, { localNetworks: [] }), null, NO_EXPLANATION)
  })
  expect(new Set(events.map(({ flow_id }) => flow_id)).size).toBe(1)
  expect(events.map(({ flow }) => (flow as { start: string }).start)).toEqual(
    Array(3).fill('2023-11-14T22:13:20.000000+0000'),
  )
  const flows = events.map(({ oddflow }) => oddflow.flow as unknown as AlertFlow)
  expect(flows.map(({ piece, startMicros: start }) => [piece, start])).toEqual([
    [0, startMicros],
    [1, startMicros + 60_000_000],
    [2, startMicros + 120_000_000],
  ])
})
