import type { FlowRecord } from '@oddflow/flows'
import { parseNetwork } from '@oddflow/program'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Alert } from '../../src/alerts/alert.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import {
  createIncidentKeeper,
  encodeIncidentEvent,
  INCIDENTS,
  type Incident,
  type IncidentChange,
  MAXIMUM_ACTIVE,
  MAXIMUM_OVER,
} from '../../src/incidents/incident.js'
import { createIncidentRows, type KeptRows, pairOf } from '../../src/incidents/incident-rows.js'
import { IncidentBook } from '../../src/incidents/incidents.js'
import { temporaryFolder } from '../support/folder.js'
import { NO_EXPLANATION, sampleAlert } from '../support/sample-alert.js'
import { sampleRecord } from '../support/sample-record.js'

const SECOND = 1_000_000
const HOUR = 3600 * SECOND
const base = 1_700_000_000 * SECOND

type Changes = Parameters<typeof sampleAlert>[0]

interface Reported {
  readonly change: IncidentChange
  readonly incident: Incident
}

function gathering(
  known: readonly Incident[] = [],
  nearestBytes: { initiator: number; responder: number } | null = null,
  kept: KeptRows | null = null,
) {
  const reported: Reported[] = []
  const rows = createIncidentRows(new Map(kept === null ? [] : known.map(({ id }) => [id, kept] as const)))
  const muted = { kind: '' }
  const unlearned: unknown[] = []
  const book = new IncidentBook({
    known,
    rows,
    onAttackFlow: (pair, startMicros) => unlearned.push([pair, startMicros]),
    localNetworks: [parseNetwork('192.0.2.0/24')],
    mutedBy: ({ kind }) => (kind === muted.kind ? 'snooze' : null),
    explain: () => ({
      ...NO_EXPLANATION,
      reasons: ['sent 1.2 MB (usually under 4 kB)'],
      nearestBytes,
    }),
    onChange: (incident, change) => reported.push({ change, incident: structuredClone(incident) }),
  })
  const note = (seconds: number, changes: Changes = {}): string | null => {
    const atMicros = base + seconds * SECOND
    return book.note(sampleAlert({ atMicros, id: `alert ${seconds}`, ...changes }), atMicros)
  }
  const changes = (): string[] => reported.map(({ change }) => change)
  return { book, note, reported, changes, rows, muted, unlearned }
}

const fact = (rule: Alert['rule'], text: string, more: Changes = {}): Changes => ({
  rule,
  fact: text,
  score: null,
  rarity: null,
  ...more,
})

it('facts of every kind of a device with a long name are kept so that they can be read', () => {
  const { book, note } = gathering()
  const [address, peer] = ['2001:db8:1234:5678:9abc:def0:1234:5678', '2001:db8:8765:4321:fedc:ba98:7654:3210']
  const device = { mac: '02:00:00:00:00:0a', address, name: '\u{1f4f7}'.repeat(63) }
  const rules = ['address-taken', 'password-guessing', 'dns-tunnel', 'request-flood', 'port-scan'] as const
  for (const [i, rule] of rules.entries())
    note(20 * i, { rule, device, fact: `${address} had to do with ${`${peer} `.repeat(3)}` })
  const [incident] = book.all()
  expect(incident.facts).toHaveLength(rules.length)
  expect(incident.summary).toMatch(/^\u{1f4f7}+ \(2001:.*\.$/u)
  expect(incident.summary.split('had to do')).toHaveLength(4)
  expect(INCIDENTS.decode(INCIDENTS.encode({ incidents: book.all() }))).toEqual(book.all())
})

describe('evidence', () => {
  it('of unusual flows adds up until it is an incident, which has an id from the first of them', () => {
    const { book, note, reported } = gathering()
    const ids = Array.from({ length: 17 }, (_, i) => note(i))
    expect(new Set(ids).size).toBe(1)
    expect(reported).toEqual([])
    book.advance(base + 21 * SECOND)
    expect(reported).toHaveLength(1)
    expect(reported[0]).toMatchObject({
      change: 'opened',
      incident: { id: ids[0], kind: 'unusual-flows', level: 'low', flows: 17, beginMicros: base - 250_001 },
    })
  })

  it('fades in quiet hours: flows that come one an hour never are an incident', () => {
    const { note, changes } = gathering()
    for (let i = 0; i < 100; i++) note(3600 * i)
    expect(changes()).toEqual([])
  })

  it('is less if few flows were compared, or for flows to groups', () => {
    const few = gathering()
    for (let i = 0; i < 16; i++) few.note(i, { rarity: { atMost: 0.1, flows: 9 } })
    expect(few.changes()).toEqual([])
    const announced = gathering()
    for (let i = 0; i < 40; i++) announced.note(i, { destinationWords: Uint32Array.of(0, 0, 0, 0xe00000fb) })
    expect(announced.changes()).toEqual([])
  })

  it('of flows with one peer and service, or of peers with one service, hardly grows: the incident stays low', () => {
    const sender = (i: number) => ({
      source: `198.51.${i >> 8}.${i & 255}`,
      destination: '192.0.2.10',
      destinationPort: 1883,
    })
    const scenes: ((i: number) => Changes)[] = [
      // a client that is refused for minutes, connects again and again, or logs by UDP
      () => ({ responderBytes: 60, responderPackets: 1 }),
      () => ({}),
      () => ({ flow: { protocol: 'udp', destinationPort: 514 }, responderBytes: 0, responderPackets: 0 }),
      // a server that is silent
      (i) => ({
        flow: sender(i % 240),
        peer: sender(i % 240).source,
        device: { mac: null, address: '192.0.2.10' },
      }),
    ]
    for (const scene of scenes) {
      const { book, note, reported } = gathering()
      for (let i = 0; i < 900; i++) note(i / 100, scene(i))
      book.advance(base + 60 * SECOND)
      expect(reported.map(({ change, incident }) => [change, incident.kind, incident.level])).toEqual([
        ['opened', 'unusual-flows', 'low'],
      ])
      expect(book.all()[0]).toMatchObject({ flows: 900, level: 'low' })
    }
    // of many peers, and of an attack, each flow counts
    for (const [rule, level] of [
      [null, 'high'],
      ['port-scan', 'high'],
    ] as const) {
      const { book, note } = gathering()
      if (rule !== null) note(0, fact(rule, '192.0.2.10 was contacted on 16 ports'))
      for (let i = 0; i < 300; i++)
        note(i / 100, rule === null ? { flow: { destination: `198.51.100.${i % 250}` } } : {})
      expect(book.all()[0]).toMatchObject({ level })
    }
  })

  it('of a fact opens an incident by itself; a first contact is half of one', () => {
    const scanned = gathering()
    scanned.note(0, fact('port-scan', '192.0.2.1 was contacted on 16 ports in 1 s by 192.0.2.9'))
    expect(scanned.reported[0]).toMatchObject({
      change: 'opened',
      incident: { kind: 'scan', level: 'medium' },
    })
    const first = gathering()
    first.note(0, fact('first-contact', '192.0.2.1 contacted 198.51.100.1 for the first time'))
    expect(first.changes()).toEqual([])
    for (let i = 1; i <= 9; i++) first.note(i)
    expect(first.changes()).toEqual(['opened'])
  })

  it('of much data against the usual flow opens one, in either direction', () => {
    const nearest = { initiator: 4000, responder: 4000 }
    const sent = gathering([], nearest)
    sent.note(0, { initiatorBytes: 2_000_000 })
    expect(sent.reported[0]?.incident).toMatchObject({ kind: 'upload' })
    expect(sent.reported[0]?.incident.summary).toMatch(
      /^02:00:00:00:00:0a \(.*\) sent 2 MB in .* s, in one unusual flow to .*; the most similar usual flow sent 4 kB\./,
    )
    const received = gathering([], nearest)
    received.note(0, { responderBytes: 2_000_000 })
    expect(received.reported[0]?.incident.kind).toBe('download')
    const flood = gathering([], nearest)
    for (let i = 0; i < 3000; i++)
      flood.note(i / 1000, { initiatorBytes: 60, initiatorPackets: 1, responderBytes: 0 })
    expect(flood.reported.map(({ incident }) => incident.kind)).not.toContain('upload')
    const usual = gathering([], { initiator: 4000, responder: 1_000_000 })
    usual.note(0, { responderBytes: 2_000_000 })
    expect(usual.changes()).toEqual([])
  })

  it('of the agent’s own work is none', () => {
    const { book, note } = gathering()
    for (const rule of ['device-ready', 'contacts-full'] as const) expect(note(0, fact(rule, ''))).toBeNull()
    expect(book.all()).toEqual([])
  })
})

describe('an incident', () => {
  it('is reported when it opens, when it is much worse, and when it is over, and no other time', () => {
    const { book, note, reported } = gathering()
    for (let i = 0; i < 100; i++) note(i, { flow: { destination: `198.51.100.${i}` } })
    expect(reported.map(({ change, incident }) => [change, incident.flows])).toEqual([
      // five seconds after the 17th
      ['opened', 22],
      ['worse', 64],
    ])
    book.advance(base + 99 * SECOND + HOUR - 1)
    expect(reported).toHaveLength(2)
    book.advance(base + 99 * SECOND + HOUR)
    expect(reported[2]).toMatchObject({ change: 'over', incident: { state: 'over', flows: 100 } })
    book.advance(base + 9 * HOUR)
    expect(reported).toHaveLength(3)
  })

  it('is worse when a graver fact comes, and the next after an hour of silence is another one', () => {
    const { note, reported, book } = gathering()
    const first = note(0, fact('new-device', ''))
    book.advance(base + 5 * SECOND)
    note(6, fact('address-taken', '192.0.2.1 was the address of another'))
    const second = note(7 + 3600, fact('new-device', ''))
    book.advance(base + (13 + 3600) * SECOND)
    expect(reported.map(({ change, incident }) => [change, incident.kind, incident.level])).toEqual([
      ['opened', 'new-device', 'low'],
      ['worse', 'address-taken', 'high'],
      ['over', 'address-taken', 'high'],
      ['opened', 'new-device', 'low'],
    ])
    expect(second).not.toBe(first)
  })

  it('of a new device waits five seconds for what it does, and is never lost', () => {
    const scans = gathering()
    scans.note(0, fact('new-device', ''))
    scans.book.advance(base + 2 * SECOND)
    expect(scans.changes()).toEqual([])
    scans.note(3, fact('port-scan', '192.0.2.1 was contacted on 16 ports in 1 s by 192.0.2.9'))
    expect(scans.reported.map(({ change, incident }) => [change, incident.kind])).toEqual([
      ['opened', 'scan'],
    ])
    scans.book.flush()
    expect(scans.changes()).toEqual(['opened'])
    const ends = gathering()
    ends.note(0, fact('new-device', ''))
    ends.book.flush()
    expect(ends.changes()).toEqual(['opened'])
    // it makes room for others
    const full = gathering()
    for (let i = 0; i <= MAXIMUM_ACTIVE; i++)
      full.note(0, fact('new-device', '', { device: { mac: null, address: `192.0.${i >> 8}.${i & 255}` } }))
    expect(full.changes()).toEqual(['opened', 'over'])
  })

  it('of unusual flows that turn out to be something graver within five seconds has one report', () => {
    const { note, reported } = gathering()
    for (let i = 0; i < 20; i++) note(i / 10)
    note(3, fact('request-flood', '192.0.2.1 was sent 512 requests'))
    expect(reported.map(({ change, incident }) => [change, incident.kind])).toEqual([['opened', 'flood']])
  })

  it('that an open one of a weaker kind hides is reported once more, with its sentence and level', () => {
    const { note, reported } = gathering([], { initiator: 99, responder: 99 })
    const last = () => {
      const { change, incident } = reported.at(-1) as Reported
      return [change, incident.kind, incident.level, incident.summary.split('. ')[0]]
    }
    const upload = {
      initiatorBytes: 100_000,
      initiatorPackets: 90,
      device: { mac: null, address: '192.0.2.10' },
    }
    for (let i = 0; i < 3; i++) note(i, upload)
    expect(last()).toEqual(['opened', 'upload', 'medium', expect.stringContaining(' sent ')])
    const later = [
      ['port-scan', 'scan', 'medium'],
      ['request-flood', 'flood', 'medium'],
      ['dns-tunnel', 'dns-tunnel', 'high'],
    ] as const
    for (const [i, [rule, kind, level]] of later.entries()) {
      note(10 + i, fact(rule, `what is told of ${rule}`, { device: upload.device }))
      expect(last()).toEqual(['worse', kind, level, `what is told of ${rule}`])
      note(10.5 + i, fact(rule, 'once more', { device: upload.device }))
      expect(reported).toHaveLength(2 + i)
    }
  })

  it('that has facts about many devices is reported once more for one of another kind, though it is no graver', () => {
    const { book, note, reported } = gathering([], { initiator: 99, responder: 99 })
    const device = { mac: null, address: '192.0.2.10' }
    const of = (address: string) => ({ device: { mac: null, address }, flow: { destination: address } })
    note(0, fact('host-scan', 'hosts were contacted', { device }))
    for (let i = 0; i < 30; i++)
      note(i, { ...fact('port-scan', `ports ${i}`), ...of(`192.0.2.${20 + i}`), peerKey: device.address })
    for (const seconds of [40, 50]) note(seconds, { device, initiatorBytes: 100_000, initiatorPackets: 90 })
    expect(book.all()).toHaveLength(1)
    expect(reported.map(({ change, incident }) => [change, incident.kind])).toEqual([
      ['opened', 'scan'],
      ['worse', 'scan'],
    ])
    expect(reported[1]?.incident.summary).toMatch(/14 more devices\. 192\.0\.2\.10 sent 100 kB in /)
  })

  it('with many peers names what they have in common, and none of them', () => {
    const said = (changes: (i: number) => Partial<Alert>): string | undefined => {
      const { book, note, reported } = gathering()
      for (let i = 0; i < 20; i++) note(i, changes(i))
      book.flush()
      return reported[0]?.incident.summary
    }
    expect(said((i) => ({ peer: `198.51.100.${i}` }))).toContain('most with 20 peers (tcp port 443)')
    const { flow } = sampleAlert()
    const anyPort = (i: number) => ({ peer: `198.51.100.${i}`, flow: { ...flow, destinationPort: 1000 + i } })
    expect(said(anyPort)).toContain(', with 20 peers.')
    expect(said((i) => ({ peer: i < 12 ? '198.51.100.9' : `198.51.100.${i}` }))).toContain(
      'most with 198.51.100.9 (',
    )
  })

  it('that becomes much worse again at once is reported once in ten seconds, a graver kind at once', () => {
    const { book, note, reported } = gathering()
    for (let i = 0; i < 6000; i++) note(i / 1000, { flow: { destination: `198.51.${i >> 8}.${i & 255}` } })
    note(6, fact('request-flood', '192.0.2.1 was sent 512 requests'))
    const kinds = (): unknown[] =>
      reported.map(({ change, incident }) => [change, incident.kind, incident.level])
    const first = [
      ['opened', 'unusual-flows', 'high'],
      ['worse', 'flood', 'high'],
    ]
    expect(kinds()).toEqual(first)
    for (let i = 0; i < 20_000; i++) note(6 + i / 10_000)
    expect(kinds()).toEqual(first)
    // flows that are judged late are of before
    note(-60, { flow: { durationMicros: 1 } })
    expect(kinds()).toEqual(first)
    book.advance(base + 17 * SECOND)
    expect(kinds()).toEqual([...first, ['worse', 'flood', 'high']])
  })

  it('that an answer mutes is not reported, is listed as it is, and is reported when it becomes another kind', () => {
    const { book, note, reported, muted, rows } = gathering()
    muted.kind = 'unusual-flows'
    let id: string | null = null
    for (let i = 0; i < 30; i++) id = note(i, { row: Float64Array.of(i) })
    expect(reported).toEqual([])
    expect(book.mutedBy(id ?? '')).toBe('snooze')
    expect(book.all()[0]).toMatchObject({
      state: 'open',
      flows: 30,
      summary: expect.stringContaining('30 unusual'),
    })
    expect(rows.of(id ?? '').rows).toHaveLength(30)
    note(31, fact('port-scan', '192.0.2.1 was contacted on 16 ports'))
    expect(book.mutedBy(id ?? '')).toBeNull()
    expect(reported.map(({ change, incident }) => [change, incident.kind])).toEqual([['opened', 'scan']])
    muted.kind = 'scan'
    book.advance(base + 2 * HOUR)
    expect(book.all()[0]?.state).toBe('over')
    expect(reported).toHaveLength(1)
  })

  it('of a new device takes in what it does to others', () => {
    const { book, note, reported } = gathering()
    const stranger = { mac: '02:00:00:00:00:66', address: '192.0.2.66' }
    const id = note(0, fact('new-device', '', { device: stranger }))
    const { flow } = sampleAlert()
    for (const [i, mac] of ['02:00:00:00:00:0a', '02:00:00:00:00:0b'].entries()) {
      const scanned = { mac, address: flow.destination, name: 'Camera' }
      const text = `${flow.destination} was contacted on 16 ports`
      const joined = note(1, fact('port-scan', text, { device: scanned, peerKey: stranger.mac }))
      expect(joined, String(i)).toBe(id)
    }
    expect(book.all()).toHaveLength(1)
    expect(book.all()[0]?.facts).toHaveLength(3)
    expect(book.all()[0]?.contacts.map(({ peer }) => peer)).toEqual([flow.destination])
    expect(reported.at(-1)?.incident.summary).toBe(`Camera (${flow.destination}) was contacted on 16 ports.`)
  })

  it('of a device with several addresses does not list it as its own contact', () => {
    const { book, note } = gathering()
    const mac = '02:00:00:00:00:66'
    const flow = { source: '192.0.2.66', destination: '192.0.2.10' }
    note(0, fact('new-device', '', { device: { mac, address: flow.source }, peer: flow.destination, flow }))
    // behind it, or of an address that it took
    const scanned = { device: { mac, address: flow.destination }, peer: flow.source, peerKey: mac, flow }
    note(1, fact('port-scan', '192.0.2.10 was contacted on 16 ports', scanned))
    expect(book.all()[0]?.contacts.map(({ peer }) => peer)).toEqual([flow.destination])
  })

  it('of an attacked device goes on if that of its attacker is over', () => {
    const { book, note, changes } = gathering()
    const attacker = { mac: '02:00:00:00:00:66', address: '192.0.2.66' }
    const attacked = { mac: '02:00:00:00:00:0a', address: '192.0.2.10' }
    const flow = { source: attacker.address, destination: attacked.address }
    note(0, fact('new-device', '', { device: attacker, flow: { source: attacker.address } }))
    const flood = fact('request-flood', '192.0.2.10 was sent requests', { device: attacked })
    const id = note(3000, flood)
    expect(note(3590, flood)).toBe(id)
    const scan = { device: attacked, peer: attacker.address, peerKey: attacker.mac, flow }
    expect(note(3610, fact('port-scan', '192.0.2.10 was contacted on 16 ports', scan))).toBe(id)
    expect(book.all().map(({ key, state }) => [key, state])).toEqual([
      [attacker.mac, 'over'],
      [attacked.mac, 'open'],
    ])
    expect(changes()).toEqual(['opened', 'opened', 'over', 'worse'])
  })

  it('of an attacked device takes in the unusual flows of that attack, which are judged after the fact', () => {
    const attacker = { mac: '02:00:00:00:00:66', address: '192.0.2.66' }
    const attacked = { mac: '02:00:00:00:00:0a', address: '192.0.2.10', name: 'Camera' }
    const flow = { source: attacker.address, destination: attacked.address, destinationPort: 80 }
    for (const rule of ['request-flood', 'password-guessing'] as const) {
      const { book, note, reported } = gathering([], { initiator: 99, responder: 99 })
      const told = fact(rule, `${attacked.address} was attacked`, {
        device: attacked,
        peer: attacker.address,
      })
      const id = note(0, { ...told, peerKey: attacker.mac, flow })
      const unusual = { device: attacker, peer: attacked.address, peerKey: attacked.mac, flow }
      const bytes = { initiatorBytes: 100_000, initiatorPackets: 90 }
      for (let i = 0; i < 20; i++) expect(note(600 + i, { ...unusual, ...bytes })).toBe(id)
      expect(note(620, { ...unusual, rule: 'one-packet', score: null })).toBe(id)
      expect(book.all()).toHaveLength(1)
      expect(reported.filter(({ change }) => change === 'opened')).toHaveLength(1)
      expect(book.all()[0]?.facts.map((each) => [each.rule, each.key])).toEqual([
        [rule, attacked.mac],
        ['upload', attacker.mac],
      ])
      expect(book.all()[0]?.facts[1]?.fact).toMatch(
        /^02:00:00:00:00:66 \(192\.0\.2\.66\) sent .* to 192\.0\.2\.10 /,
      )
      const service = 'tcp port 80'
      expect(book.all()[0]?.contacts).toEqual([{ peer: attacker.address, service, alerts: 22 }])
      // what is no part of the attack
      const other = { ...unusual, flow: { ...flow, destinationPort: 443 } }
      expect(note(621, other)).not.toBe(id)
      expect(note(622, { ...unusual, device: { mac: '02:00:00:00:00:67', address: '192.0.2.67' } })).not.toBe(
        id,
      )
      expect(note(600 + 2 * 3600, unusual)).not.toBe(id)
    }
  })

  it('keeps flows of devices that learn, with the peer that a fact is about: those before it too', () => {
    const { book, note, rows } = gathering()
    const stranger = Uint8Array.of(2, 0, 0, 0, 0, 0x66)
    /** Of 192.0.2.LAST to a port of 192.0.2.10, both of the network: the stranger's model would judge it. */
    const flow = (port: number, last = 66): FlowRecord => ({
      ...sampleRecord(66),
      initiatorAddress: Uint32Array.of(0, 0, 0, 0xc0000200 + last),
      responderAddress: Uint32Array.of(0, 0, 0, 0xc000020a),
      initiatorMac: last === 66 ? stranger : Uint8Array.of(2, 0, 0, 0, 0, last),
      responderMac: Uint8Array.of(2, 0, 0, 0, 0, 1),
      initiatorPort: 40_000,
      responderPort: port,
      row: Float64Array.of(port),
    })
    // its first look-ups are new to it too
    const usual = [53, 53].map((port) => book.noteHeld(flow(port), true))
    const held = [...usual, ...[1, 2, 3].map((port) => book.noteHeld(flow(port), true))]
    expect(book.noteHeld(flow(9, 99), true)).toBe(false)
    const device = { mac: '02:00:00:00:00:01', address: '192.0.2.10' }
    const id = note(0, fact('port-scan', 'was contacted', { device, peer: '192.0.2.66' })) ?? ''
    expect(held).toEqual(Array(5).fill(false))
    expect([book.noteHeld(flow(4), true), book.noteHeld(flow(9, 99), true)]).toEqual([true, false])
    const { contacts, rows: kept } = rows.of(id)
    expect(kept.map(({ row }) => row[0])).toEqual([1, 2, 3, 4])
    expect(contacts[kept[0]?.contact ?? 0]).toEqual({
      device: '02:00:00:00:00:66',
      peer: '192.0.2.10',
      service: 'tcp port 1',
      address: '192.0.2.66',
    })
    // what the scanner has used before is no part of the scan
    expect(book.noteHeld(flow(53), false)).toBe(false)
    // it is over
    book.advance(base + 3 * HOUR)
    expect(book.noteHeld(flow(5), true)).toBe(false)
  })

  it('of a device that scans hosts keeps its new flows, which its model unlearns', () => {
    const { book, note, rows, unlearned } = gathering()
    const to = (host: number): FlowRecord => ({
      ...sampleRecord(1),
      initiatorAddress: Uint32Array.of(0, 0, 0, 0xc000020a),
      responderAddress: Uint32Array.of(0, 0, 0, 0xc0000200 + host),
      row: Float64Array.of(host),
    })
    for (const host of [20, 21, 22, 22]) book.noteHeld(to(host), true)
    book.clockSet(SECOND)
    const device = { mac: '02:00:00:00:00:01', address: '192.0.2.10' }
    const id = note(0, fact('host-scan', '16 hosts were contacted', { device, peer: '192.0.2.29' })) ?? ''
    expect([book.noteHeld(to(30), true), book.noteHeld(to(22), false)]).toEqual([true, false])
    expect(rows.of(id).rows.map(({ row }) => row[0])).toEqual([20, 21, 30])
    expect(unlearned).toEqual([20, 21].map((host) => [pairOf(to(host)), to(host).startMicros + SECOND]))
    // over a restart
    const again = gathering(structuredClone([...book.all()]), null, rows.of(id))
    expect([again.book.noteHeld(to(31), true), again.book.noteHeld(to(22), false)]).toEqual([true, false])
  })

  it('of a new device keeps none of its flows, which are what its model learns', () => {
    const { book, note, rows } = gathering()
    const device = { mac: '02:00:00:00:00:66', address: '192.0.2.66' }
    const id = note(0, fact('new-device', 'is new', { device, peer: '192.0.2.10' })) ?? ''
    const record = {
      ...sampleRecord(66),
      initiatorAddress: Uint32Array.of(0, 0, 0, 0xc0000242),
      responderAddress: Uint32Array.of(0, 0, 0, 0xc000020a),
      initiatorMac: Uint8Array.of(2, 0, 0, 0, 0, 0x66),
      row: Float64Array.of(1),
    }
    expect(book.noteHeld(record, true)).toBe(false)
    expect(rows.of(id).rows).toEqual([])
  })

  it('lasts as long where the clock is set', () => {
    const { book, note, changes } = gathering()
    note(0, fact('new-device', ''))
    book.clockSet(-24 * HOUR)
    book.advance(base - 24 * HOUR + HOUR / 2)
    expect(changes()).toEqual(['opened'])
    book.advance(base - 23 * HOUR)
    expect(changes()).toEqual(['opened', 'over'])
  })

  it('never is too many: the weakest makes room, and what was reported is also reported over', () => {
    const { book, note, changes } = gathering()
    const of = (i: number) => ({ device: { mac: null, address: `192.0.${i >> 8}.${i & 255}` } })
    note(0, fact('port-scan', '', of(0)))
    for (let i = 1; i < 2000; i++) note(1, of(i))
    expect(book.all().length).toBe(MAXIMUM_ACTIVE)
    expect(changes()).toEqual(['opened'])
    for (let i = 2000; i < 2000 + 2 * MAXIMUM_ACTIVE + MAXIMUM_OVER; i++)
      note(2, fact('port-scan', '', of(i)))
    expect(book.all().length).toBe(MAXIMUM_ACTIVE + MAXIMUM_OVER)
    const count = (change: string): number => changes().filter((each) => each === change).length
    expect(count('opened') - count('over')).toBe(MAXIMUM_ACTIVE)
  })

  it('has bounded lists, and survives being kept as it is, whatever comes', () => {
    const rules = ['score', 'port-scan', 'first-contact', 'new-device', 'address-taken'] as const
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            seconds: fc.nat(100_000),
            rule: fc.constantFrom(...rules),
            device: fc.nat(20),
            peer: fc.nat(400),
          }),
          { maxLength: 300 },
        ),
        (alerts) => {
          const { book, note } = gathering()
          for (const { seconds, rule, device, peer } of alerts) {
            note(seconds, {
              ...(rule === 'score' ? {} : fact(rule, 'a fact')),
              device: { mac: null, address: `192.0.2.${device}` },
              peer: `198.51.100.${peer}`,
            })
          }
          const kept = JSON.parse(JSON.stringify(INCIDENTS.encode({ incidents: book.all() })))
          expect(INCIDENTS.decode(kept)).toEqual(book.all())
        },
      ),
      { numRuns: sampleCount(300) },
    )
  })
})

describe('incidents in the state folder', () => {
  const warnings: string[] = []
  const log = { info: () => undefined, warn: (text: string) => warnings.push(text) }
  const readIncidents = async (folder: string) =>
    (await INCIDENTS.readTwice(nodeFileSystem, folder, 'earlier incidents are lost', log)) ?? []

  it('go on after a restart with their ids, and are not reported as new', async () => {
    const folder = temporaryFolder()
    const before = gathering()
    const id = before.note(0, fact('port-scan', ''))
    const other = before.note(1, { device: { mac: null, address: '192.0.2.200' } })
    const keeper = createIncidentKeeper(before.book, before.rows, nodeFileSystem, folder, log)
    await keeper.save()
    const after = gathering(await readIncidents(folder))
    expect(after.note(2)).toBe(id)
    expect(after.note(3, { device: { mac: null, address: '192.0.2.200' } })).toBe(other)
    expect(after.changes()).toEqual([])
    after.book.advance(base + 2 * HOUR)
    expect(after.changes()).toEqual(['over'])
  })

  it('are read from their copy where the file is damaged, which is reported', async () => {
    const folder = temporaryFolder()
    const { book, note } = gathering()
    note(0, fact('new-device', ''))
    await createIncidentKeeper(book, createIncidentRows(), nodeFileSystem, folder, log).save()
    const { writeFileSync } = await import('node:fs')
    writeFileSync(INCIDENTS.pathIn(folder), '{"kind":"oddflow-incidents","version":1,"incidents":[{}]}')
    warnings.length = 0
    expect(await readIncidents(folder)).toEqual(book.all())
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('its copy is used')
  })

  it('are refused with the field if a value is out of range or a key occurs twice', () => {
    const { book, note } = gathering()
    note(0, fact('new-device', ''))
    const [whole] = book.all() as [Incident]
    const decode = (...incidents: object[]) =>
      INCIDENTS.decode({ kind: 'oddflow-incidents', version: 1, incidents })
    const more = (count: number, changes: (i: number) => object) =>
      Array.from({ length: count }, (_, i) => ({
        ...whole,
        id: i.toString(16).padStart(32, '0'),
        key: `192.0.2.${i}`,
        ...changes(i),
      }))
    expect(decode(whole)).toEqual([whole])
    expect(decode(...more(MAXIMUM_ACTIVE, () => ({})))).toHaveLength(MAXIMUM_ACTIVE)
    const refused: readonly (readonly [object[], RegExp])[] = [
      [[{ ...whole, endMicros: Number.MAX_SAFE_INTEGER }], /incidents\.0\.endMicros: /],
      [[{ ...whole, beginMicros: -Number.MAX_SAFE_INTEGER }], /incidents\.0\.beginMicros: /],
      [[{ ...whole, beginMicros: whole.endMicros + 1 }], /begin before the end/],
      [[{ ...whole, evidence: 1e308, totalEvidence: 1e308 }], /incidents\.0\.evidence: /],
      [[{ ...whole, evidence: whole.totalEvidence + 1 }], /not more evidence/],
      [[{ ...whole, reports: Number.MAX_SAFE_INTEGER }], /incidents\.0\.reports: /],
      [[whole, { ...whole, key: '192.0.2.77' }], /each id once/],
      [more(2, () => ({ key: whole.key })), /one that is not over for each device/],
      [more(MAXIMUM_ACTIVE + 1, () => ({})), /at most 256 that are not over/],
      [more(MAXIMUM_ACTIVE + MAXIMUM_OVER + 1, () => ({ state: 'over' })), /length/],
    ]
    for (const [incidents, message] of refused) expect(() => decode(...incidents)).toThrow(message)
  })
})

describe('the EVE event of an incident', () => {
  it('has the documented fields, and an id for each report', () => {
    const { note, reported } = gathering()
    note(0, fact('port-scan', ''))
    note(1, fact('address-taken', '192.0.2.1 was the address of another'))
    const [opened, worse] = reported.map(({ incident, change }) =>
      JSON.parse(new TextDecoder().decode(encodeIncidentEvent(incident, change, 'br0'))),
    )
    expect(Object.keys(worse)).toEqual(['timestamp', 'in_iface', 'event_type', 'alert', 'oddflow'])
    expect(worse.event_type).toBe('incident')
    expect(worse.alert).toMatchObject({ action: 'allowed', severity: 1, signature: expect.any(String) })
    expect(Object.keys(worse.oddflow)).toEqual(['id', 'rule', 'summary', 'incident'])
    expect(Object.keys(worse.oddflow.incident)).toEqual([
      'id',
      'change',
      'kind',
      'level',
      'device',
      'begin',
      'end',
      'seconds',
      'evidence',
      'flows',
      'sentBytes',
      'receivedBytes',
      'facts',
      'contacts',
      'reasons',
    ])
    expect(worse.oddflow.incident.id).toBe(opened.oddflow.incident.id)
    expect(worse.oddflow.id).not.toBe(opened.oddflow.id)
  })
})
