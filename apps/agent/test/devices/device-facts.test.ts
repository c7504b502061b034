/** Facts of devices that need no model: each kind, what is none of it, and floods of made-up addresses. */
import {
  createFrameBatch,
  createPacketBatch,
  createPacketDecoder,
  parseIpv4,
  parseIpv6,
  parseMac,
} from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import { parseNetwork } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES, type DeviceSettings } from '../../src/config/settings.js'
import { SETTLED_MICROS } from '../../src/devices/contacts.js'
import { decodeDevices, encodeDevices } from '../../src/devices/device.js'
import { DeviceWatch } from '../../src/devices/device-watch.js'
import { sampleRecord } from '../support/sample-record.js'

const START = 1_700_000_000_000_000
const SECOND = 1_000_000
const HOUR = 3600 * SECOND
const DAY = 24 * HOUR

interface Told {
  readonly rule: string
  readonly fact: string
  readonly isOfResponder: boolean
}

function watchOf(changes: Partial<DeviceSettings> = {}) {
  const told: Told[] = []
  const watch = new DeviceWatch({
    settings: { ...DEFAULT_DEVICES, inventoryMinutes: 0, ...changes },
    localNetworks: [parseNetwork('192.168.0.0/16'), parseNetwork('fe80::/10')],
    known: { devices: [], from: 'file' },
    onNew: () => undefined,
    onReady: () => undefined,
    onFact: (_, rule, fact, isOfResponder) => void told.push({ rule, fact, isOfResponder }),
    write: null,
  })
  return { watch, told }
}

const macOf = (n: number): Uint8Array => Uint8Array.of(0, 0x16, 0x3e, n >> 16, n >> 8, n)
const local = (n: number): Uint32Array => Uint32Array.of(0, 0, 0, 0xc0a80000 + n)
const outside = (n: number): Uint32Array => Uint32Array.of(0, 0, 0, 0x5db80000 + 256 * n)

/** A flow between local devices by number, or with an end outside (negative). */
function flow(from: number, to: number, port: number, atMicros: number, changes: Partial<FlowRecord> = {}) {
  const address = (n: number): Uint32Array => (n < 0 ? outside(-n) : local(n))
  return sampleRecord(0, {
    initiatorAddress: address(from),
    responderAddress: address(to),
    initiatorMac: macOf(Math.max(0, from) || 1),
    responderMac: macOf(Math.max(0, to) || 1),
    responderPort: port,
    startMicros: atMicros,
    flowStartMicros: atMicros,
    ...changes,
  })
}

/** A connection that is used. */
const MANY = { initiatorPackets: 40, responderPackets: 40, initiatorTcpFlags: 27, responderTcpFlags: 27 }

function approve(watch: DeviceWatch, n: number): void {
  const key = [...watch.table.all()].find(({ address }) => address === `192.168.0.${n}`)?.key ?? ''
  expect(watch.table.act('approve', key)).toBe(null)
}

describe('a scan', () => {
  it('of ports is reported while all devices learn, at once and then with its whole extent', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    for (let i = 0; i < 326; i++) {
      const at = START + 2 * DAY + Math.round((i * 12 * SECOND) / 325)
      watch.verdict(flow(66, 23, 1 + i, at, { responderTcpFlags: 20 }), true)
    }
    expect(told.map(({ rule }) => rule)).toEqual(['port-scan'])
    watch.advance(START + 2 * DAY + 100 * SECOND)
    expect(told).toEqual([
      {
        rule: 'port-scan',
        fact: '192.168.0.23 was contacted on 16 ports in 1 s by 192.168.0.66, a device first seen 1 s ago',
        isOfResponder: true,
      },
      {
        rule: 'port-scan',
        fact: '192.168.0.23 was contacted on 326 ports in 12 s by 192.168.0.66, a device first seen 12 s ago',
        isOfResponder: true,
      },
    ])
  })

  it('of the ports of an unknown gateway is reported, beside other targets and by an unknown host', () => {
    for (const from of [66, -1]) {
      const { watch, told } = watchOf()
      for (let i = 0; i < 90; i++) {
        watch.verdict(flow(from, 1, 1 + i, START + i * SECOND, { responderMac: macOf(1) }), false)
        watch.verdict(flow(66, 200 + (i % 100), 80, START + i * SECOND), false)
        watch.verdict(flow(66, 2, 1000 + i, START + i * SECOND), false)
      }
      const targets = told.filter(({ rule }) => rule === 'port-scan').map(({ fact }) => fact.split(' ')[0])
      expect(targets.sort()).toEqual(['192.168.0.1', '192.168.0.2'])
    }
  })

  it('of a silent device is reported too', () => {
    const { watch, told } = watchOf()
    for (let i = 0; i < 40; i++) watch.verdict(flow(66, 23, 1 + i, START + i * SECOND), false)
    watch.advance(START + 1000 * SECOND)
    expect(told.map(({ fact }) => fact)).toEqual([
      expect.stringMatching(/^192\.168\.0\.23 was contacted on 16 ports in 15 s by 192\.168\.0\.66/),
      expect.stringMatching(/^192\.168\.0\.23 was contacted on 40 ports in 39 s/),
    ])
  })

  it('of hosts inside and outside is reported, and counts new hosts only', () => {
    const inside = watchOf()
    for (let i = 0; i < 30; i++) inside.watch.verdict(flow(66, 100 + i, 22, START + i * SECOND), false)
    inside.watch.advance(START + 1000 * SECOND)
    expect(inside.told.map(({ fact }) => fact)).toEqual([
      expect.stringMatching(
        /^16 hosts or services were contacted for the first time in 15 s, .* by 192\.168\.0\.66/,
      ),
    ])
    // the same hosts again a day later are known
    for (let i = 0; i < 30; i++)
      inside.watch.verdict(flow(66, 100 + i, 22, START + 2 * DAY + i * SECOND), false)
    expect(inside.told).toHaveLength(1)
    const unanswered = watchOf()
    for (let i = 1; i <= 30; i++) {
      unanswered.watch.verdict(flow(66, -i, 23, START + i * SECOND, { responderPackets: 0 }), false)
    }
    expect(unanswered.told.map(({ rule }) => rule)).toEqual(['host-scan'])
  })

  it('is reported again within a day only when it is four times as large', () => {
    const { watch, told } = watchOf()
    const scan = (ports: number, at: number): void => {
      for (let i = 0; i < ports; i++) watch.verdict(flow(66, 23, 1 + i, at + 1000 * i), true)
      watch.advance(at + 1000 * SECOND)
    }
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    scan(20, START)
    expect(told).toHaveLength(1)
    scan(20, START + HOUR)
    expect(told).toHaveLength(1)
    scan(300, START + 2 * HOUR)
    expect(told).toHaveLength(2)
    scan(20, START + 40 * HOUR)
    expect(told).toHaveLength(3)
  })

  it('goes on when the clock is set in the middle of it', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    for (let i = 0; i < 40; i++) {
      if (i === 20) watch.clockSet(-9 * HOUR)
      const at = START + i * SECOND - (i < 20 ? 0 : 9 * HOUR)
      watch.verdict(flow(66, 23, 1 + i, at), true)
    }
    watch.advance(START - 9 * HOUR + 200 * SECOND)
    expect(told.map(({ fact }) => fact)).toEqual([
      expect.stringMatching(/on 16 ports in 15 s by 192\.168\.0\.66, a device first seen 15 s ago/),
      expect.stringMatching(/on 40 ports in 39 s by 192\.168\.0\.66, a device first seen 39 s ago/),
    ])
    // nor has its address been given up
    watch.clockSet(100 * HOUR)
    const at = START + 91 * HOUR + 300 * SECOND
    watch.verdict(flow(23, -1, 443, at, { ...MANY, initiatorMac: macOf(99) }), false)
    expect(told.map(({ rule }) => rule)).toContain('address-taken')
  })

  it('is not reported of a browser, a busy server, a capture of one direction, or a router', () => {
    const { watch, told } = watchOf()
    for (let i = 1; i <= 60; i++) {
      const at = START + i * SECOND
      // a browser's connections, answered
      watch.verdict(flow(5, -i, 443, at), false)
      // a file server, by many ports, in connections that are used
      watch.verdict(flow(6, 7, 20_000 + i, at, MANY), false)
      // answers without their requests
      watch.verdict(flow(-200, 8, 20_000 + i, at, { initiatorPort: 53 }), false)
      // an ephemeral port for each search
      watch.verdict(flow(9, 10, 40_000 + i, at, { initiatorPort: 50_000 }), false)
      // one after another in a day
      watch.verdict(flow(11, 12, i, START + i * HOUR), false)
    }
    watch.advance(START + DAY)
    expect(told).toEqual([])
  })

  it('is found in a flood of made-up addresses, within a bounded table', () => {
    const { watch, told } = watchOf({ maximum: 256 })
    for (const at of [0, 2]) watch.verdict(flow(23, -1, 443, START + at * HOUR, MANY), false)
    let flood = 1000
    for (let i = 0; i < 40; i++) {
      const at = START + 3 * HOUR + i * SECOND
      for (let j = 0; j < 500; j++) watch.verdict(flow(flood++, -1, 443, at, MANY), false)
      watch.verdict(flow(66, 23, 1 + i, at), true)
    }
    expect(told.map(({ rule }) => rule)).toContain('port-scan')
    expect(watch.report().evicted).toBeGreaterThan(19_000)
    expect(watch.table.get('00:16:3e:00:00:17')?.flows).toBeGreaterThan(1)
  })
})

describe('a new device that contacts a watched one', () => {
  it('is reported once, also in a flood of private addresses if it is answered', () => {
    const { watch, told } = watchOf({ floodPerMinute: 4 })
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    approve(watch, 23)
    const at = START + 2 * DAY
    for (let n = 1000; n < 1200; n++) watch.verdict(flow(n, 23, 80, at, { responderPackets: 0 }), false)
    watch.verdict(flow(66, 23, 22, at + SECOND, MANY), false)
    watch.verdict(flow(66, 23, 80, at + 2 * SECOND, MANY), false)
    const contacts = told.filter(({ rule }) => rule === 'new-device-contact')
    expect(contacts).toHaveLength(6)
    expect(contacts[4]?.fact).toMatch(
      /^many new devices contact watched ones within a minute, the last of them /,
    )
    expect(contacts[5]).toEqual({
      rule: 'new-device-contact',
      fact: '192.168.0.23 was contacted (tcp port 22) by 192.168.0.66, a device first seen 1 s ago',
      isOfResponder: true,
    })
    expect(watch.report().facts.untold).toBe(196)
  })

  it('is nothing where the device is an old one, or none is watched', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(66, -1, 443, START, MANY), false)
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    watch.verdict(flow(65, 23, 22, START + SECOND, MANY), false)
    approve(watch, 23)
    watch.verdict(flow(66, 23, 22, START + 2 * DAY, MANY), false)
    expect(told.filter(({ rule }) => rule === 'new-device-contact')).toEqual([])
  })
})

const decoder = createPacketDecoder({ decapsulate: 'outer', joinFragments: false, hashSeed: 1 })

/** One frame of Ethernet, as it was recorded. */
function receive(watch: DeviceWatch, bytes: readonly number[], at: number): void {
  const frames = createFrameBatch(1)
  const packets = createPacketBatch(1)
  frames.data = Uint8Array.from(bytes)
  frames.count = 1
  frames.capturedBytes[0] = bytes.length
  frames.wireBytes[0] = bytes.length
  frames.linkType[0] = 1
  frames.timestampMicros[0] = at
  decoder.decode(frames, packets)
  watch.packets(frames, packets)
}

const BROADCAST = [255, 255, 255, 255, 255, 255]
const bytesOf = (address: string): number[] => {
  const words = parseIpv6(address) ?? [parseIpv4(address) ?? 0]
  return [...words].flatMap((word) => [24, 16, 8, 0].map((shift) => (word >>> shift) & 255))
}

/** An ARP packet of Ethernet: who asks (1) or answers (2) for the target. */
function arp(
  watch: DeviceWatch,
  mac: number,
  address: string,
  at: number,
  { tag = [] as number[], target = address, operation = 2 } = {},
): void {
  const sender = [...macOf(mac)]
  const body = [...sender, ...bytesOf(address), 0, 0, 0, 0, 0, 0, ...bytesOf(target)]
  const bytes = [...BROADCAST, ...sender, ...tag, 8, 6, 0, 1, 8, 0, 6, 4, 0, operation, ...body]
  receive(watch, bytes, at)
}

/** A message of neighbor discovery with one option, in the shape that its type has. */
function neighbor(
  watch: DeviceWatch,
  type: number,
  source: string,
  target: string,
  option: readonly number[],
  at: number,
  { hopLimit = 255, extension = [] as number[] } = {},
): void {
  const rest = { 133: 4, 134: 12 }[type] ?? 4
  const targets = type < 135 ? [] : [...bytesOf(target), ...(type === 137 ? bytesOf(source) : [])]
  const message = [type, 0, 0, 0, ...new Array(rest).fill(0), ...targets, ...option]
  const length = extension.length + message.length
  const header = [0x60, 0, 0, 0, length >> 8, length & 255, extension.length > 0 ? 0 : 58, hopLimit]
  const addresses = [...bytesOf(source), ...bytesOf('ff02::1')]
  receive(
    watch,
    [...BROADCAST, ...macOf(9), 0x86, 0xdd, ...header, ...addresses, ...extension, ...message],
    at,
  )
}

/** The option of a sender (1) or of a target (2). */
const linkAddress = (kind: 1 | 2, mac: number): number[] => [kind, 1, ...macOf(mac)]

describe('an address', () => {
  it('that a new device takes from another is reported once', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    const taking = (at: number) => flow(23, -1, 443, at, { ...MANY, initiatorMac: macOf(99) })
    watch.verdict(taking(START + HOUR), false)
    watch.verdict(taking(START + HOUR + SECOND), false)
    expect(told).toEqual([
      {
        rule: 'address-taken',
        fact: '192.168.0.23 belonged to 00:16:3e:00:00:17 until 60 min ago and is now used by 00:16:3e:00:00:63, a device first seen 1 s ago',
        isOfResponder: false,
      },
    ])
    // whoever left it days ago has no claim to it
    watch.verdict(flow(23, -1, 443, START + 5 * DAY, { ...MANY, initiatorMac: macOf(98) }), false)
    expect(told).toHaveLength(1)
  })

  it('that two devices claim by ARP is reported once', () => {
    for (const tag of [[], [0x81, 0, 0, 5]]) {
      const { watch, told } = watchOf()
      arp(watch, 1, '192.168.0.1', START, { tag })
      arp(watch, 1, '192.168.0.1', START + SECOND, { tag })
      expect(told).toEqual([])
      for (let i = 0; i < 5; i++) {
        arp(watch, 66, '192.168.0.1', START + (5 + 2 * i) * SECOND, { tag })
        arp(watch, 1, '192.168.0.1', START + (6 + 2 * i) * SECOND, { tag })
      }
      expect(told).toEqual([
        {
          rule: 'arp-conflict',
          fact: '192.168.0.1 is claimed by 00:16:3e:00:00:42 and by 00:16:3e:00:00:01 within 4 s (ARP)',
          isOfResponder: false,
        },
      ])
    }
  })

  it('that is asked for before it is taken, or passed on after a while, is no conflict', () => {
    const { watch, told } = watchOf()
    arp(watch, 1, '0.0.0.0', START)
    arp(watch, 2, '0.0.0.0', START + SECOND)
    for (const n of [3, 4]) watch.verdict(flow(n, -1, 443, START, MANY), false)
    arp(watch, 3, '192.168.0.9', START)
    arp(watch, 4, '192.168.0.9', START + 26 * HOUR)
    arp(watch, 4, '192.168.0.9', START + 26 * HOUR + SECOND)
    expect(told).toEqual([])
  })

  it('that was held for long is not forgotten for a flood of made-up claims', () => {
    const { watch, told } = watchOf()
    arp(watch, 1, '192.168.0.1', START)
    arp(watch, 1, '192.168.0.1', START + HOUR)
    for (let i = 0; i < 5000; i++) arp(watch, 1000 + i, `10.${i >> 8}.${i & 255}.1`, START + HOUR + i)
    arp(watch, 66, '192.168.0.1', START + HOUR + SECOND)
    expect(told.map(({ rule }) => rule)).toEqual(['address-flood', 'arp-conflict'])
    expect(parseMac('00:16:3e:00:00:42')).toEqual(macOf(66))
  })

  it('that was claimed once is remembered in a flood of claims by one sender and by many, and the flood is reported', () => {
    for (const senders of [1, 5000]) {
      const { watch, told } = watchOf()
      arp(watch, 1, '192.168.0.1', START)
      arp(watch, 2, '192.168.0.2', START + SECOND)
      for (let i = 0; i < 5000; i++)
        arp(watch, 1000 + (i % senders), `10.0.${i >> 8}.${i & 255}`, START + 2 * SECOND + 1000 * i)
      arp(watch, 1000, '192.168.0.2', START + 100 * SECOND)
      watch.advance(START + 200 * SECOND)
      const found = told.filter(({ rule }) => rule === 'arp-conflict').map(({ fact }) => fact)
      expect(found).toEqual([expect.stringMatching(/^192\.168\.0\.2 is claimed by .* within 99 s/)])
      const floods = told.filter(({ rule }) => rule === 'address-flood').map(({ fact }) => fact)
      const [by, beyond] =
        senders === 1
          ? ['00:16:3e:00:03:e8, which had 16 before', 5001 - 16]
          : ['many senders, one of them .*, more than the agent can store', 5000 - 1024 + 2]
      expect(floods).toEqual([
        expect.stringMatching(`^16 addresses were claimed .* by ${by}$`),
        expect.stringMatching(`^${beyond} addresses were claimed .* by ${by}$`),
      ])
    }
  })

  it('of a known device is remembered through an hour of claims by made-up senders', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(2, -1, 443, START, MANY), false)
    approve(watch, 2)
    arp(watch, 2, '192.168.0.2', START + SECOND)
    for (let i = 0; i < 20_000; i++) {
      const n = i % 4000
      arp(watch, 1000 + n, `10.0.${n >> 8}.${n & 255}`, START + Math.round((i * HOUR) / 20_000))
    }
    // within the ten minutes of a conflict, and after the hour by a flow
    watch.verdict(flow(3, -1, 443, START + HOUR, { ...MANY, initiatorAddress: local(2) }), false)
    expect(told.map(({ rule }) => rule).filter((rule) => rule !== 'address-flood')).toEqual(['address-taken'])
  })

  it("of a watched device is reported in a flood of devices that take each other's addresses", () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(2, -1, 443, START, MANY), false)
    approve(watch, 2)
    for (let i = 0; i < 200; i++) arp(watch, 1000 + i, '192.168.9.9', START + i * 100_000)
    arp(watch, 66, '192.168.0.2', START + 30 * SECOND)
    const found = told.filter(({ rule }) => rule === 'arp-conflict').map(({ fact }) => fact)
    expect(found).toHaveLength(DEFAULT_DEVICES.floodPerMinute + 2)
    expect(found.at(-1)).toMatch(/^192\.168\.0\.2 is claimed by 00:16:3e:00:00:42 and by 00:16:3e:00:00:02/)
  })

  it('has few owners in a home, and a router or a host with many addresses is no flood', () => {
    const { watch, told } = watchOf()
    // networks behind a router: its MAC address is that of all their flows
    for (let i = 0; i < 200; i++) {
      const hosts = { initiatorAddress: local(0x300 + i), initiatorMac: macOf(1) }
      watch.verdict(flow(1, -1, 443, START + i * SECOND, { ...MANY, ...hosts }), false)
      arp(watch, 1, '192.168.0.1', START + i * SECOND)
    }
    for (let i = 0; i < 16; i++) arp(watch, 5, `192.168.5.${i}`, START + i * SECOND)
    for (let i = 0; i < 900; i++)
      arp(watch, 1000 + i, `192.168.${8 + (i >> 8)}.${i & 255}`, START + i * SECOND)
    expect(told.filter(({ rule }) => rule === 'address-flood')).toEqual([])
  })

  it('of IPv6 that two claim by neighbor discovery is reported once, while devices learn too', () => {
    const kinds: [type: number, option: 1 | 2][] = [
      [133, 1],
      [134, 1],
      [135, 1],
      [136, 2],
      [137, 2],
    ]
    // a hop-by-hop header in front of the message hides it from simple guards
    for (const extension of [[], [58, 0, 1, 4, 0, 0, 0, 0]]) {
      for (const [type, option] of kinds) {
        const { watch, told } = watchOf()
        const claim = (mac: number, at: number) =>
          neighbor(watch, type, 'fe80::1', 'fe80::1', linkAddress(option, mac), at, { extension })
        claim(1, START)
        claim(1, START + SECOND)
        expect(told).toEqual([])
        for (let i = 0; i < 5; i++) {
          claim(66, START + (5 + 2 * i) * SECOND)
          claim(1, START + (6 + 2 * i) * SECOND)
        }
        expect(told).toEqual([
          {
            rule: 'nd-conflict',
            fact: 'fe80::1 is claimed by 00:16:3e:00:00:42 and by 00:16:3e:00:00:01 within 4 s (neighbor discovery)',
            isOfResponder: false,
          },
        ])
      }
    }
  })

  it('of IPv6 that a flow has used is claimed too, and a new device that uses it is reported', () => {
    const { watch, told } = watchOf()
    const words = Uint32Array.of(0xfe800000, 0, 0, 0x23)
    const other = {
      ...MANY,
      ipVersion: 6,
      initiatorAddress: words,
      responderAddress: Uint32Array.of(0, 0, 0, 1),
    }
    watch.verdict(flow(23, -1, 443, START, { ...other }), false)
    neighbor(watch, 136, 'fe80::99', 'fe80::23', linkAddress(2, 66), START + SECOND)
    expect(told.map(({ rule }) => rule)).toEqual(['nd-conflict'])
    watch.verdict(flow(23, -1, 443, START + HOUR, { ...other, initiatorMac: macOf(99) }), false)
    expect(told.map(({ rule }) => rule)).toEqual(['nd-conflict', 'address-taken'])
  })

  it('is not claimed by messages that no host of the link accepts or that give no address', () => {
    const { watch, told } = watchOf()
    neighbor(watch, 136, 'fe80::1', 'fe80::1', linkAddress(2, 1), START)
    // from elsewhere
    neighbor(watch, 136, 'fe80::1', 'fe80::1', linkAddress(2, 66), START, { hopLimit: 254 })
    // asks whether an address is in use
    neighbor(watch, 135, '::', 'fe80::1', linkAddress(1, 66), START)
    // of a group
    neighbor(watch, 136, 'fe80::1', 'ff02::5', linkAddress(2, 66), START)
    neighbor(watch, 136, 'fe80::1', 'ff02::5', linkAddress(2, 67), START)
    // cut off, of no length, of another kind
    for (const option of [[], [2], [2, 1, 0, 1], [2, 0, ...macOf(66)], [14, 1, 1, 2, 3, 4, 5, 6]])
      neighbor(watch, 136, 'fe80::1', 'fe80::1', option, START)
    expect(told).toEqual([])
  })
})

describe('a sweep by ARP', () => {
  const sweep = (watch: DeviceWatch, from: number, count: number, at: number, sender = '192.168.0.66') => {
    for (let i = 0; i < count; i++)
      arp(watch, 66, sender, at + i * 10_000, { target: `192.168.0.${from + i}`, operation: 1 })
  }

  it('is reported while devices learn, by a sender that no flow has shown, with its whole extent', () => {
    for (const sender of ['192.168.0.66', '0.0.0.0']) {
      const { watch, told } = watchOf()
      for (let n = 1; n <= 5; n++) arp(watch, n, `192.168.0.${n}`, START)
      sweep(watch, 1, 254, START + SECOND, sender)
      watch.advance(START + 100 * SECOND)
      const by = sender === '0.0.0.0' ? '00:16:3e:00:00:42' : sender
      // 5 of them have a device, and one is its own
      const all = sender === '0.0.0.0' ? 249 : 248
      expect(told).toEqual(
        [
          `16 addresses that no device uses were asked for (ARP) in 1 s by ${by}`,
          `${all} addresses that no device uses were asked for (ARP) in 2 s by ${by}`,
        ].map((fact) => ({ rule: 'host-scan', fact, isOfResponder: false })),
      )
      sweep(watch, 1, 254, START + HOUR, sender)
      watch.advance(START + 2 * HOUR)
      expect(told).toHaveLength(2)
    }
  })

  it('is not reported of a router that asks for devices that answer, or for one that left', () => {
    const { watch, told } = watchOf()
    for (let i = 0; i < 200; i++) {
      const at = START + i * SECOND
      arp(watch, 1, '192.168.0.1', at, { target: `192.168.0.${10 + i}`, operation: 1 })
      arp(watch, 1, '192.168.0.1', at, { target: '192.168.0.9', operation: 1 })
      arp(watch, 10 + i, `192.168.0.${10 + i}`, at + 1000)
    }
    // a device that tries whether its address is in use, and says that it has it now
    for (let i = 0; i < 3; i++) arp(watch, 5, '0.0.0.0', START, { target: '192.168.0.5', operation: 1 })
    arp(watch, 5, '192.168.0.5', START, { operation: 1 })
    watch.advance(START + HOUR)
    expect(told).toEqual([])
  })

  it('is found among requests of made-up senders, whose own sweeps become one alert', () => {
    const { watch, told } = watchOf({ floodPerMinute: 4 })
    for (let i = 0; i < 40; i++) {
      for (let j = 0; j < 300; j++) {
        const from = 1000 + 300 * i + j
        arp(watch, from, '192.168.9.9', START + i * SECOND, { target: '192.168.7.7', operation: 1 })
      }
      arp(watch, 66, '192.168.0.66', START + i * SECOND, { target: `192.168.1.${i}`, operation: 1 })
    }
    const [sweep] = told.filter(({ rule }) => rule === 'host-scan')
    expect(sweep?.fact).toMatch(/^16 addresses .* by many senders, one of them 192\.168\./)
    // ten minutes without, and each sender is counted by itself again
    for (let i = 0; i < 16; i++)
      arp(watch, 66, '192.168.0.66', START + HOUR + i, { target: `192.168.1.${i}`, operation: 1 })
    expect(told.at(-1)?.fact).toMatch(/^16 addresses .* by 192\.168\.0\.66/)
    const flood = watchOf({ floodPerMinute: 4 })
    for (let from = 1; from <= 100; from++) {
      for (let i = 0; i < 16; i++)
        arp(flood.watch, from, '10.0.0.1', START + from, { target: `192.168.1.${i}`, operation: 1 })
    }
    const sweeps = flood.told.filter(({ rule }) => rule === 'host-scan')
    expect(sweeps).toHaveLength(5)
    expect(sweeps[4]?.fact).toMatch(/; more such alerts follow within this minute$/)
  })
})

describe('a first contact of a watched device', () => {
  /** A device that has had the same two servers for days, and is watched. */
  const settled = () => {
    const opened = watchOf()
    for (let hour = 0; hour < 60; hour++) {
      opened.watch.verdict(flow(23, -1, 443, START + hour * HOUR, MANY), false)
      opened.watch.verdict(flow(23, -2, 8883, START + hour * HOUR, MANY), false)
    }
    approve(opened.watch, 23)
    return { ...opened, now: START + 60 * HOUR }
  }

  it('is reported if contacts have settled, by a known service and by a new one', () => {
    const known = settled()
    known.watch.verdict(flow(23, -7, 443, known.now, MANY), false)
    expect(known.told).toEqual([
      {
        rule: 'first-contact',
        fact: '192.168.0.23 contacted 93.184.7.0 (tcp port 443) for the first time; no new contact of this kind for 2 days',
        isOfResponder: false,
      },
    ])
    const other = settled()
    other.watch.verdict(flow(-7, 23, 22, other.now, MANY), false)
    expect(other.told.map(({ fact }) => fact)).toEqual([
      '192.168.0.23 was contacted by 93.184.7.0 (tcp port 22) for the first time; no new contact of this kind for 2 days',
    ])
    expect(other.watch.report().facts).toMatchObject({ firstContacts: 1, firstContactAlerts: 1 })
  })

  it('is counted and not told while the service has new peers, for a known peer outside, a group, or a flow that is an alert', () => {
    const { watch, told, now } = settled()
    watch.verdict(flow(23, -7, 443, now, MANY), true)
    watch.verdict(flow(23, -8, 443, now + HOUR, MANY), false)
    watch.verdict(flow(23, -9, 443, now + 20 * HOUR, MANY), false)
    watch.verdict(flow(23, -1, 8080, now + 60 * HOUR, MANY), false)
    const group = { ...MANY, responderAddress: Uint32Array.of(0, 0, 0, 0xe00000fb) }
    watch.verdict(flow(23, -1, 5353, now + 60 * HOUR, group), false)
    expect(told).toEqual([])
    expect(watch.report().facts).toMatchObject({ firstContacts: 4, firstContactAlerts: 0 })
    watch.verdict(flow(23, -10, 443, now + 20 * HOUR + SETTLED_MICROS, MANY), false)
    expect(told.map(({ rule }) => rule)).toEqual(['first-contact'])
  })

  it('is reported after a restart only of new contacts', () => {
    const { watch } = settled()
    const [device] = decodeDevices(JSON.parse(JSON.stringify(encodeDevices(watch.table.all())))).filter(
      ({ address }) => address === '192.168.0.23',
    )
    expect(device?.contacts).toEqual([...watch.table.all()][0]?.contacts)
    expect(device?.contacts.outgoing.services).toHaveLength(2)
  })

  it('is not reported of a device that had more contacts than the limit of new devices', () => {
    const { watch, told } = watchOf()
    const guest = { ...MANY, initiatorMac: Uint8Array.of(0xda, 0, 0, 0, 0, 5) }
    for (let i = 1; i <= 200; i++) watch.verdict(flow(5, -i, 443, START + i * HOUR, guest), false)
    approve(watch, 5)
    for (let i = 201; i <= 220; i++) watch.verdict(flow(5, -i, 443, START + i * HOUR, guest), false)
    expect(told).toEqual([])
  })

  it('of a device that contacts every host is reported at most once per day and service', () => {
    const { watch, told, now } = settled()
    for (let i = 10; i < 2000; i++) watch.verdict(flow(23, -i, 443, now + i * HOUR, MANY), false)
    expect(told.filter(({ rule }) => rule === 'first-contact')).toHaveLength(1)
  })
})

describe('connections of a peer that is new to a service', () => {
  const GUESS = { initiatorPackets: 12, responderPackets: 12, initiatorTcpFlags: 27, responderTcpFlags: 27 }

  it('are reported as when passwords are guessed, at five and at each four times as many', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    for (let i = 0; i < 30; i++) watch.verdict(flow(66, 23, 22, START + i * SECOND, GUESS), false)
    expect(told.filter(({ rule }) => rule === 'password-guessing')).toEqual([
      {
        rule: 'password-guessing',
        fact: '192.168.0.23 had 5 connections (tcp port 22) in 4 s from 192.168.0.66, which had never used this service: possible password guessing',
        isOfResponder: true,
      },
      expect.objectContaining({ fact: expect.stringContaining('had 20 connections') }),
    ])
  })

  it('are none of a peer that has used it for long, of few a time, and of as many without a login', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    watch.verdict(flow(66, 23, 22, START, GUESS), false)
    for (let i = 0; i < 30; i++) watch.verdict(flow(66, 23, 22, START + DAY + i * SECOND, GUESS), false)
    for (let i = 0; i < 30; i++) watch.verdict(flow(67, 23, 22, START + i * HOUR, GUESS), false)
    expect(told.map(({ rule }) => rule)).not.toContain('password-guessing')
  })

  const guessed = ({ told }: ReturnType<typeof watchOf>): string[] =>
    told.flatMap(({ rule, fact }) => (rule === 'password-guessing' ? [fact] : []))
  /** A device that learns, and connections to its SSH server: by whom, and when. */
  const learning = (
    connections: readonly (readonly [peer: number, atMicros: number, changes?: Partial<FlowRecord>])[],
    settings?: Partial<DeviceSettings>,
  ): string[] => {
    const opened = watchOf(settings)
    opened.watch.verdict(flow(23, -1, 443, START, MANY), false)
    for (const [peer, atMicros, changes] of connections)
      opened.watch.verdict(flow(peer, 23, 22, START + atMicros, { ...GUESS, ...changes }), false)
    return guessed(opened)
  }
  const times = <T>(count: number, make: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => make(i))

  it('are reported of a peer that looked at the service before, and only looked', () => {
    // what a server says first, without an answer, or one wrong password
    for (const look of [{ initiatorTcpFlags: 19 }, {}])
      for (const peer of [66, -66])
        expect(
          learning([[peer, 0, look], ...times(200, (i) => [peer, (1000 + i) * SECOND] as const)]),
        ).toEqual([
          expect.stringMatching(
            /^192\.168\.0\.23 had 5 .* which first used this service 17 min ago: possible/,
          ),
          expect.stringMatching(/had 20 /),
          expect.stringMatching(/had 80 /),
        ])
  })

  it('are reported of many peers together, of which none is reported alone', () => {
    const many = (fact: string) => [
      expect.stringMatching(`^192.168.0.23 had 24 connections \\(tcp port 22\\) in ${fact}`),
    ]
    const tenTimesFour = times(40, (i) => [-1 - (i % 10), i * SECOND] as const)
    expect(learning(tenTimesFour)).toEqual(
      many(
        '23 s from several peers, the last of them 93.184.4.0, which had never used this service: possible password guessing$',
      ),
    )
    const sources = times(
      600,
      (i) =>
        [
          -1 - (i % 250),
          i * SECOND,
          i < 250 ? {} : { initiatorAddress: Uint32Array.of(0, 0, 0, 0x50000000 + 256 * i) },
        ] as const,
    )
    expect(learning(sources)).toEqual([
      ...many('23 s from several peers'),
      expect.stringMatching('had 96 '),
      expect.stringMatching('had 384 '),
    ])
    // a small session that began long before, and ends among them
    const [before, after] = [tenTimesFour.slice(0, 23), tenTimesFour.slice(23)]
    expect(learning([...before, [66, -30 * 60 * SECOND], ...after])).toEqual(many('\\d+ (s|min)'))
    expect(learning(tenTimesFour, { inventoryMinutes: 60 })).toEqual([])
    expect(learning(sources, { inventoryMinutes: 60 })).toEqual([
      expect.stringMatching('had 96 '),
      expect.stringMatching('had 384 '),
    ])
    // a thousand others a minute later make room in the tables
    expect(learning(times(10_000, (i) => [-1 - i, i * 1000] as const)).length).toBeLessThan(8)
  })

  it('are reported of a network outside by its addresses together', () => {
    const ofNetwork = times(
      60,
      (i) => [-1, i * SECOND, { initiatorAddress: Uint32Array.of(0, 0, 0, 0x5db80100 + i) }] as const,
    )
    expect(learning(ofNetwork)).toEqual([
      '192.168.0.23 had 5 connections (tcp port 22) in 4 s from 93.184.1.0/24, which had never used this service: possible password guessing',
      expect.stringMatching(/^192\.168\.0\.23 had 20 /),
    ])
  })

  it('are none where they are used, of a probe that says nothing, of a new peer now and then', () => {
    const used = { initiatorIpBytes: 900_000 }
    // a test of the connection, and the backup that begins later
    expect(learning([[66, 0], ...times(60, (i) => [66, (1200 + 10 * i) * SECOND, used] as const)])).toEqual(
      [],
    )
    // many commands over SSH after a session
    expect(learning([[66, 0, used], ...times(60, (i) => [66, (1 + i) * SECOND] as const)])).toEqual([])
    // banners that are read each minute, and logins each five minutes
    expect(learning(times(600, (i) => [66, 60 * i * SECOND, { initiatorTcpFlags: 19 }] as const))).toEqual([])
    expect(learning(times(600, (i) => [66, 300 * i * SECOND] as const))).toEqual([])
    // two an hour of the scanners of the internet
    expect(learning(times(600, (i) => [-1 - i, 1800 * i * SECOND] as const))).toEqual([])
  })

  it('to a web service are reported once, after five minutes with 60 each', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    for (let i = 0; i < 700; i++) watch.verdict(flow(66, 23, 443, START + i * SECOND, GUESS), false)
    expect(told.filter(({ rule }) => rule === 'password-guessing')).toEqual([
      expect.objectContaining({
        fact: '192.168.0.23 had 300 connections (tcp port 443) in 5 min from 192.168.0.66, which had never used this service: possible password guessing',
      }),
    ])
  })

  it('to a web service are none of a browser, of a long page view or of an app that polls', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    const web = (peer: number, atMicros: number) =>
      watch.verdict(flow(peer, 23, 80, START + atMicros, GUESS), false)
    // the parallel connections of a first visit; a page with thousands of pictures
    for (let i = 0; i < 30; i++) web(66, i * 50_000)
    for (let i = 0; i < 3000; i++) web(67, i * 80_000)
    // an app that polls every 2.5 s, with 46 connections in its first minute
    for (let i = 0; i < 22; i++) web(68, i * 50_000)
    for (let i = 0; i < 230; i++) web(68, i * 2.5 * SECOND)
    expect(told.map(({ rule }) => rule)).not.toContain('password-guessing')
  })

  it('of a gateway that is no known device are reported for a login service, and none for its pages', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(66, -1, 443, START, MANY), false)
    for (let i = 0; i < 400; i++) watch.verdict(flow(66, 1, 80, START + i * SECOND, GUESS), false)
    expect(told.map(({ rule }) => rule)).not.toContain('password-guessing')
    for (let i = 0; i < 8; i++) watch.verdict(flow(66, 1, 22, START + i * SECOND, GUESS), false)
    expect(told.filter(({ rule }) => rule === 'password-guessing')).toEqual([
      expect.objectContaining({
        fact: expect.stringMatching(/^192\.168\.0\.1 had 5 connections \(tcp port 22\)/),
      }),
    ])
  })

  it('are none of a peer that used the service before its server was a known device', () => {
    const { watch, told } = watchOf()
    watch.verdict(flow(66, -1, 443, START, MANY), false)
    for (let i = 0; i < 30; i++) watch.verdict(flow(66, 23, 80, START + i * 30 * SECOND, GUESS), false)
    // its first own connection
    watch.verdict(flow(23, -1, 443, START + HOUR, MANY), false)
    for (let i = 0; i < 400; i++) watch.verdict(flow(66, 23, 80, START + HOUR + i * SECOND, GUESS), false)
    expect(told.map(({ rule }) => rule)).not.toContain('password-guessing')
    for (let i = 0; i < 400; i++) watch.verdict(flow(67, 23, 80, START + HOUR + i * SECOND, GUESS), false)
    expect(told.map(({ rule }) => rule)).toContain('password-guessing')
  })
})

describe('an agent that takes stock', () => {
  const GUESS = { initiatorPackets: 12, responderPackets: 12, initiatorTcpFlags: 27, responderTcpFlags: 27 }
  const told = (connections: number, port: number, everyMicros = 10_000) => {
    const { watch, told } = watchOf({ inventoryMinutes: 60 })
    watch.verdict(flow(23, -1, 443, START, MANY), false)
    for (let i = 0; i < connections; i++)
      watch.verdict(flow(66, 23, port, START + everyMicros * i, GUESS), false)
    return told.map(({ rule }) => rule)
  }

  it('reports guessed passwords of a login service from 24 connections on, but no polling of a web service', () => {
    expect(told(23, 22)).toEqual([])
    expect(told(24, 22)).toEqual(['password-guessing'])
    expect(told(300, 80, SECOND)).toEqual([])
  })
})
it('what the first new device of a run does is news from its first flow on', () => {
  const { watch, told } = watchOf()
  watch.verdict(flow(23, -1, 443, START, MANY), false)
  const known = decodeDevices(encodeDevices(watch.table.all()))
  const again = new DeviceWatch({
    settings: DEFAULT_DEVICES,
    localNetworks: [parseNetwork('192.168.0.0/16')],
    known: { devices: known, from: 'file' },
    onNew: () => undefined,
    onReady: () => undefined,
    onFact: (_, rule, fact, isOfResponder) => void told.push({ rule, fact, isOfResponder }),
    write: null,
  })
  again.verdict(flow(23, -1, 443, START + HOUR, MANY), false)
  again.verdict(flow(23, -1, 443, START + HOUR + SECOND, { ...MANY, initiatorMac: macOf(99) }), false)
  expect(told.map(({ rule }) => rule)).toEqual(['address-taken'])
})

describe('new devices while an agent takes stock', () => {
  const newDevices = (count: number) => {
    const found: string[] = []
    const watch = new DeviceWatch({
      settings: DEFAULT_DEVICES,
      localNetworks: [parseNetwork('192.168.0.0/16')],
      known: { devices: [], from: 'file' },
      onNew: (_, rule) => void found.push(rule),
      onReady: () => undefined,
      onFact: () => undefined,
      write: null,
    })
    for (let i = 1; i <= count; i++) watch.verdict(flow(i, -1, 443, START + 1000 * i, MANY), false)
    return { found, untold: watch.report().untold }
  }

  it('are the existing network, except for a flood, which is reported once', () => {
    expect(newDevices(256)).toEqual({ found: [], untold: 0 })
    expect(newDevices(20_000)).toEqual({ found: ['device-flood'], untold: 20_000 - 256 })
  })
})
