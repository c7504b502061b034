/** What floods do to the first contacts of a watched device: they are bounded, take nothing from it, and are told once. */
import type { FlowRecord } from '@oddflow/flows'
import { parseNetwork } from '@oddflow/program'
import fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES } from '../../src/config/settings.js'
import {
  type Contacts,
  ContactsSchema,
  noContacts,
  noteContact,
  SETTLED_MICROS,
} from '../../src/devices/contacts.js'
import { decodeDevices, encodeDevices } from '../../src/devices/device.js'
import { usualContactTexts } from '../../src/devices/device-table.js'
import { DeviceWatch } from '../../src/devices/device-watch.js'
import { sampleRecord } from '../support/sample-record.js'

const START = 1_700_000_000_000_000
const SECOND = 1_000_000
const HOUR = 3600 * SECOND
const DAY = 24 * HOUR
const LOCAL = [parseNetwork('192.168.0.0/16')]
const OWN = { address: Uint32Array.of(0, 0, 0, 0xc0a80017), mac: Uint8Array.of(0, 0x16, 0x3e, 0, 0, 23) }

const USED = { initiatorPackets: 8, responderPackets: 8, initiatorTcpFlags: 27, responderTcpFlags: 27 }
const REFUSED = { initiatorPackets: 1, responderPackets: 1, initiatorTcpFlags: 2, responderTcpFlags: 20 }
/** SYN, SYN-ACK, and the reset of a host that never asked. */
const HALF_OPEN = { initiatorPackets: 2, responderPackets: 1, initiatorTcpFlags: 6, responderTcpFlags: 18 }
const CONNECT_SCAN = {
  initiatorPackets: 3,
  responderPackets: 1,
  initiatorTcpFlags: 22,
  responderTcpFlags: 18,
}
const UDP = {
  protocol: 17,
  initiatorPackets: 1,
  responderPackets: 1,
  initiatorTcpFlags: 0,
  responderTcpFlags: 0,
}

/** A peer outside (a network of its own each), or a device. */
function peerOf(n: number, isLocal: boolean): { address: Uint32Array; mac: Uint8Array } {
  return isLocal
    ? {
        address: Uint32Array.of(0, 0, 0, 0xc0a80000 + 256 + (n % 60_000)),
        mac: Uint8Array.of(2, 1, n >> 24, n >> 16, n >> 8, n),
      }
    : { address: Uint32Array.of(0, 0, 0, 0x20000000 + 256 * n), mac: Uint8Array.of(0, 0x16, 0x3e, 0, 0, 1) }
}

interface Flow {
  readonly n: number
  readonly isFromDevice: boolean
  readonly port: number
  readonly atMicros: number
  readonly isLocal?: boolean
}
function flowOf({ n, isFromDevice, port, atMicros, isLocal = false }: Flow, changes: Partial<FlowRecord>) {
  const peer = peerOf(n, isLocal)
  const [initiator, responder] = isFromDevice ? [OWN, peer] : [peer, OWN]
  return sampleRecord(0, {
    initiatorAddress: initiator.address,
    responderAddress: responder.address,
    initiatorMac: initiator.mac,
    responderMac: responder.mac,
    responderPort: port,
    startMicros: atMicros,
    flowStartMicros: atMicros,
    durationMicros: 0,
    ...changes,
  })
}

/** A watched device that has had the same two servers and one client of its own for days. */
function settled() {
  const told: { rule: string; fact: string }[] = []
  const watch = new DeviceWatch({
    settings: { ...DEFAULT_DEVICES, inventoryMinutes: 0, maximum: 128 },
    localNetworks: LOCAL,
    known: { devices: [], from: 'file' },
    onNew: () => undefined,
    onReady: () => undefined,
    onFact: (_, rule, fact) => void told.push({ rule, fact }),
    write: null,
  })
  const show = (flow: Flow, changes: Partial<FlowRecord>): void =>
    void watch.verdict(flowOf(flow, changes), false)
  for (let hour = 0; hour < 60; hour++) {
    const atMicros = START + hour * HOUR
    show({ n: 1, isFromDevice: true, port: 443, atMicros }, USED)
    show({ n: 2, isFromDevice: true, port: 8883, atMicros }, USED)
    show({ n: 3, isFromDevice: false, port: 554, atMicros, isLocal: true }, USED)
  }
  const [device] = watch.table.all()
  if (device === undefined) throw new Error('no device')
  expect(watch.table.act('approve', device.key)).toBe(null)
  const facts = (rule: string): string[] => told.filter((each) => each.rule === rule).map(({ fact }) => fact)
  return { watch, device, show, facts, now: START + 60 * HOUR }
}

describe('the contacts that people read', () => {
  it('are the most frequent of the time while a device learns, whatever comes once, and are kept', () => {
    const { watch, device, show, now } = settled()
    const texts = () => usualContactTexts(device, watch.table)
    const usual = ['32.0.1.0/24 (tcp port 443)', '32.0.2.0/24 (tcp port 8883)']
    const client = 'from 192.168.1.3 (tcp port 554)'
    expect(texts()).toEqual([...usual, client])
    watch.table.act('name', '02:01:00:00:00:03', 'Recorder')
    expect(texts()[2]).toBe('from Recorder (tcp port 554)')
    expect(decodeDevices(JSON.parse(JSON.stringify(encodeDevices([device]))))).toEqual([device])
    expect(
      decodeDevices({ ...encodeDevices([device]), devices: [{ ...device, usual: [{ peer: '\u001b' }] }] }),
    ).toMatchObject([{ usual: [] }])
    // none of the time while it is watched
    show({ n: 9, isFromDevice: true, port: 443, atMicros: now }, USED)
    expect(texts()).toHaveLength(3)
    watch.table.act('relearn', device.key)
    expect(texts()).toEqual([])
    for (let i = 0; i < 400; i++) {
      const atMicros = now + i * SECOND
      show({ n: 1, isFromDevice: true, port: 443, atMicros }, USED)
      show({ n: 2, isFromDevice: true, port: 8883, atMicros }, USED)
      // tries that came to nothing, and a peer that came once
      show({ n: 4, isFromDevice: true, port: 443, atMicros }, REFUSED)
      show({ n: 1000 + i, isFromDevice: true, port: 443, atMicros }, USED)
    }
    expect(texts()).toHaveLength(12)
    expect(texts().slice(0, 2)).toEqual(usual)
    expect(texts().join()).not.toContain('32.0.4.0')
  })
})

describe('a flood of 100,000 made-up peers against a watched device', () => {
  const floods: readonly (readonly [string, Partial<FlowRecord>, boolean])[] = [
    ['that it refuses', REFUSED, false],
    ['that it answers half-open', HALF_OPEN, false],
    ['of connections without data', CONNECT_SCAN, false],
    ['of pings', { ...UDP, protocol: 1, initiatorPort: 8, responderPort: 0 }, false],
    ['of questions over UDP that it answers', UDP, true],
    ['of connections that carry data', USED, true],
  ]
  it.each(floods)(
    '%s hides no first contact of the device, and stays within bounds',
    (_, changes, isTaken) => {
      for (const isLocal of [false, true]) {
        const { watch, device, show, facts, now } = settled()
        // each local peer is a device, and addresses are more work than contacts
        const peers = isLocal ? 10_000 : 100_000
        for (let i = 0; i < peers; i++) {
          const flow = {
            n: 100 + i,
            isFromDevice: false,
            port: 554 + (i % 500),
            atMicros: now + i * 1000,
            isLocal,
          }
          show(flow, changes)
        }
        const before = facts('first-contact').length
        expect(before).toBeLessThanOrEqual(2)
        const atMicros = now + 200 * SECOND
        // peers that it has always had are no news
        show({ n: 1, isFromDevice: true, port: 443, atMicros }, USED)
        show({ n: 3, isFromDevice: false, port: 554, atMicros, isLocal: true }, USED)
        expect(facts('first-contact')).toHaveLength(before)
        // a server that it never had, and one of the flood that it now connects to itself
        show({ n: 50, isFromDevice: true, port: 443, atMicros }, USED)
        expect(facts('first-contact')).toHaveLength(before + 1)
        show({ n: 99 + peers, isFromDevice: true, port: 8883, atMicros, isLocal }, USED)
        expect(facts('first-contact')).toHaveLength(before + 2)
        // an intruder among peers whose tries come to nothing
        if (!isTaken) {
          show({ n: 60, isFromDevice: false, port: 22, atMicros, isLocal: true }, USED)
          expect(facts('first-contact'), facts('first-contact').join('\n')).toHaveLength(before + 3)
        }
        // said once where the facility is full, and never where it is not
        expect(facts('contacts-full')).toHaveLength(isTaken ? 1 : 0)
        expect(watch.warnings()).toHaveLength(isTaken ? 1 : 0)
        const json = JSON.stringify(encodeDevices([device]))
        expect(json.length).toBeLessThan(12_000)
      }
    },
  )

  it('is reported as such once a day and device, and no more after a day without', () => {
    const { watch, show, facts, now } = settled()
    const flood = (atMicros: number, first: number): void => {
      for (let i = 0; i < 200; i++)
        show({ n: first + i, isFromDevice: false, port: 80, atMicros: atMicros + i }, USED)
    }
    for (let hour = 0; hour < 48; hour++) flood(now + hour * HOUR, 1000 * (hour + 1))
    expect(facts('contacts-full')).toEqual([
      expect.stringMatching(/^More peers contacted 192\.168\.0\.23 than the agent can store: /),
    ])
    expect(watch.warnings()).toEqual([
      expect.stringMatching(/^first contacts are incomplete: more contacts of one watched device /),
    ])
    watch.advance(now + 73 * HOUR)
    expect(watch.warnings()).toEqual([])
    flood(now + 80 * HOUR, 90_000)
    expect(facts('contacts-full')).toHaveLength(2)
  })

  it('that the device answers by ICMP errors or neighbor discovery makes no contact', () => {
    const contacts = noContacts(START)
    for (const [protocol, type] of [
      [1, 3],
      [1, 11],
      [58, 1],
      [58, 136],
    ] as const) {
      const record = flowOf(
        { n: 9, isFromDevice: true, port: 0, atMicros: START + 3 * DAY },
        { ...UDP, protocol, initiatorPort: type },
      )
      expect(noteContact(contacts, record, false, LOCAL, true, () => undefined)).toBe(null)
    }
    expect(contacts).toEqual(noContacts(START))
  })
})

describe('contacts', () => {
  it('that a peer began are known when the device begins them only once they are usual', () => {
    const { show, facts, now } = settled()
    show({ n: 7, isFromDevice: false, port: 443, atMicros: now }, USED)
    const before = facts('first-contact').length
    show({ n: 7, isFromDevice: true, port: 443, atMicros: now + SECOND }, USED)
    expect(facts('first-contact')).toHaveLength(before + 1)
    // usual: it came in two clock hours
    const later = now + SETTLED_MICROS + HOUR
    show({ n: 8, isFromDevice: false, port: 443, atMicros: later }, USED)
    show({ n: 8, isFromDevice: false, port: 443, atMicros: later + HOUR }, USED)
    const usual = facts('first-contact').length
    show({ n: 8, isFromDevice: true, port: 443, atMicros: later + 2 * HOUR }, USED)
    expect(facts('first-contact')).toHaveLength(usual)
  })

  it('that the device began are known from the other end, and a try of a known contact is none', () => {
    const { show, facts, now } = settled()
    show({ n: 1, isFromDevice: false, port: 443, atMicros: now }, USED)
    show({ n: 1, isFromDevice: false, port: 443, atMicros: now }, REFUSED)
    show({ n: 2, isFromDevice: true, port: 8883, atMicros: now }, { ...REFUSED, responderPackets: 0 })
    expect(facts('first-contact')).toEqual([])
  })

  it('of more usual peers than are remembered are reported as that', () => {
    const { show, facts, now } = settled()
    for (let n = 100; n < 300; n++) {
      for (const hour of [0, 1])
        show({ n, isFromDevice: true, port: 443, atMicros: now + (2 * n + hour) * HOUR }, USED)
    }
    expect(facts('contacts-full')).toEqual([
      expect.stringMatching(/^192\.168\.0\.23 regularly contacts more peers than the agent can store: /),
    ])
  })

  it('stay within their bounds whatever flows come, and are the same again after they were kept', () => {
    const anyFlow = fc.record({
      n: fc.integer({ min: 0, max: 300 }),
      isFromDevice: fc.boolean(),
      port: fc.integer({ min: 0, max: 65_535 }),
      hours: fc.integer({ min: 0, max: 400 }),
      isLocal: fc.boolean(),
      changes: fc.constantFrom(USED, REFUSED, HALF_OPEN, UDP),
      isKept: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(anyFlow, { minLength: 200, maxLength: 800 }), (flows) => {
        const contacts: Contacts = noContacts(START)
        for (const { hours, changes, isKept, ...flow } of flows) {
          const record = flowOf({ ...flow, atMicros: START + hours * HOUR }, changes)
          noteContact(contacts, record, !flow.isFromDevice, LOCAL, isKept, () => undefined)
          // at once again it is known
          expect(noteContact(contacts, record, !flow.isFromDevice, LOCAL, isKept, () => undefined)).toBe(null)
        }
        expect(v.parse(ContactsSchema, JSON.parse(JSON.stringify(contacts)))).toEqual(contacts)
      }),
      { numRuns: 50 },
    )
  })

  it('that are damaged are none', () => {
    const whole = noContacts(START)
    for (const value of [
      null,
      {},
      { ...whole, outgoing: null },
      { ...whole, incoming: { ...whole.incoming, usual: ['1'] } },
      { ...whole, incoming: { ...whole.incoming, ofHour: 1 } },
    ])
      expect(v.is(ContactsSchema, value)).toBe(false)
  })
})
