import { createFrameBatch, createPacketBatch, decodePackets, type FrameBatch } from '@oddflow/capture'
import { FormatError } from '@oddflow/core'
import { parseNetwork } from '@oddflow/program'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  forgetPeerNames,
  MAXIMUM_NAMES,
  PEER_NAMES,
  PeerNames,
  withNames,
} from '../../src/devices/peer-names.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'

const HOUR = 3_600_000_000
const DAY = 24 * HOUR
const now = 1_700_000_000_000_000
const camera = '02:00:00:00:00:01'
const resolver = '192.168.0.1'
const own = '192.168.0.23'

const bytesOf = (text: string): number[] => [...new TextEncoder().encode(text)]
const word = (value: number): number[] => [(value >> 8) & 255, value & 255]
const octets = (address: string): number[] => address.split('.').map(Number)
const macOf = (text: string): number[] => text.split(':').map((each) => Number.parseInt(each, 16))
const nameBytes = (name: string): number[] => [
  ...name.split('.').flatMap((label) => [label.length, ...bytesOf(label)]),
  0,
]

interface Packet {
  readonly from: string
  readonly to: string
  readonly fromMac?: string
  readonly toMac?: string
  readonly ports: readonly [number, number]
  readonly payload: readonly number[]
  /** Of TCP; UDP where there is none. */
  readonly sequence?: number
  readonly atMicros?: number
}

function frameOf({
  from,
  to,
  fromMac = camera,
  toMac = '02:00:00:00:00:fe',
  ports,
  payload,
  sequence,
}: Packet) {
  const head =
    sequence === undefined
      ? [...word(8 + payload.length), 0, 0]
      : [...word(sequence >>> 16), ...word(sequence), 0, 0, 0, 1, 0x50, 0x18, 4, 0, 0, 0, 0, 0]
  const transport = [...ports.flatMap(word), ...head, ...payload]
  const ip = [0x45, 0, ...word(20 + transport.length), 0, 1, 0, 0, 64, sequence === undefined ? 17 : 6, 0, 0]
  return [...macOf(toMac), ...macOf(fromMac), 8, 0, ...ip, ...octets(from), ...octets(to), ...transport]
}

function framesOf(packets: readonly Packet[]): FrameBatch {
  const frames = createFrameBatch(packets.length)
  const all = packets.map(frameOf)
  frames.count = packets.length
  frames.data = Uint8Array.from(all.flat())
  let at = 0
  for (const [i, frame] of all.entries()) {
    frames.offset[i] = at
    frames.capturedBytes[i] = frame.length
    frames.wireBytes[i] = frame.length
    frames.timestampMicros[i] = packets[i]?.atMicros ?? now
    frames.linkType[i] = 1
    at += frame.length
  }
  return frames
}

interface Lookup {
  readonly client?: string
  readonly mac?: string
  readonly id?: number
  readonly atMicros?: number
}

const query = (
  name: string,
  { client = own, mac = camera, id = 7, atMicros = now }: Lookup = {},
): Packet => ({
  from: client,
  to: resolver,
  fromMac: mac,
  ports: [40_000, 53],
  payload: [...word(id), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...nameBytes(name), 0, 1, 0, 1],
  atMicros,
})
const answer = (
  name: string,
  address: string,
  { client = own, mac = camera, id = 7, atMicros = now }: Lookup = {},
): Packet => ({
  from: resolver,
  to: client,
  fromMac: '02:00:00:00:00:fe',
  toMac: mac,
  ports: [53, 40_000],
  payload: [
    ...[...word(id), 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0, ...nameBytes(name), 0, 1, 0, 1],
    ...[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...octets(address)],
  ],
  atMicros,
})
const lookup = (name: string, address: string, of: Lookup = {}): Packet[] => [
  query(name, of),
  answer(name, address, of),
]

function helloBytes(name: string, paddingBytes = 0): number[] {
  const extensions = [
    ...[0, 21, ...word(paddingBytes), ...new Array<number>(paddingBytes).fill(0)],
    ...[0, 0, ...word(name.length + 5), ...word(name.length + 3), 0, ...word(name.length), ...bytesOf(name)],
  ]
  const body = [
    3,
    3,
    ...new Array<number>(32).fill(1),
    0,
    0,
    2,
    0x13,
    1,
    1,
    0,
    ...word(extensions.length),
    ...extensions,
  ]
  return [0x16, 3, 1, ...word(body.length + 4), 1, 0, ...word(body.length), ...body]
}
const segment = (payload: readonly number[], sequence = 1000, to = '203.0.113.5'): Packet => ({
  from: own,
  to,
  ports: [50_000, 443],
  payload,
  sequence,
})

function open(options: Partial<ConstructorParameters<typeof PeerNames>[0]> = {}) {
  const written: object[] = []
  const names = new PeerNames({
    known: [],
    localNetworks: [parseNetwork('192.168.0.0/16')],
    isWatched: () => true,
    isKept: () => true,
    write: async (value) => void written.push(value),
    log: keepingLog(),
    ...options,
  })
  const see = (...packets: readonly Packet[]): void => {
    const frames = framesOf(packets)
    const decoded = createPacketBatch(packets.length)
    decodePackets(frames, decoded)
    names.packets(frames, decoded)
  }
  const nameOf = (address: string, device = camera): string | undefined =>
    names.of(device, [address])[0]?.name
  return { names, see, nameOf, written }
}

describe('names of peers', () => {
  it('come from DNS answers and from ClientHellos, of which an answer counts more', () => {
    const { names, see, nameOf } = open()
    see(segment(helloBytes('front.example')))
    expect(names.of(camera, ['203.0.113.5', '203.0.113.6'])).toEqual([
      { address: '203.0.113.5', name: 'front.example', source: 'tls' },
    ])
    see(...lookup('api.example', '203.0.113.5'))
    see(segment(helloBytes('front.example')))
    expect(nameOf('203.0.113.5')).toBe('api.example')
    expect(nameOf('203.0.113.5', '02:00:00:00:00:02')).toBeUndefined()
  })

  it('come from a ClientHello in two segments, and from no other bytes that follow', () => {
    const { see, nameOf } = open()
    const hello = helloBytes('two.example', 1500)
    const [first, second] = [hello.slice(0, 1400), hello.slice(1400)]
    see(segment(first), segment(second, 2399))
    expect(nameOf('203.0.113.5')).toBeUndefined()
    see(segment(first), segment(second, 2400, '203.0.113.9'), segment(second, 2400))
    expect(nameOf('203.0.113.9')).toBeUndefined()
    expect(nameOf('203.0.113.5')).toBe('two.example')
  })

  it.each([
    ['that was not asked for', [answer('bank.example', '203.0.113.66')]],
    ['to another query', [query('a.example'), answer('bank.example', '203.0.113.66')]],
    ['with another id', [query('bank.example'), answer('bank.example', '203.0.113.66', { id: 8 })]],
    [
      'to another device',
      [query('bank.example'), answer('bank.example', '203.0.113.66', { mac: '02:00:00:00:00:02' })],
    ],
    ['about an address of the network', lookup('bank.example', '192.168.0.66')],
  ])('do not come from an answer %s', (_, packets) => {
    const { names, see } = open()
    see(...packets)
    expect(names.size).toBe(0)
  })

  it('come from one answer to a query: the second is not asked for', () => {
    const { see, nameOf } = open()
    see(...lookup('a.example', '203.0.113.5'), answer('a.example', '203.0.113.66'))
    expect(nameOf('203.0.113.5')).toBe('a.example')
    expect(nameOf('203.0.113.66')).toBeUndefined()
  })

  it('are looked for on watched devices alone, and forgotten with the device at once', async () => {
    const watched = new Set([camera])
    const { names, see, written } = open({
      isWatched: (device) => watched.has(device),
      isKept: (device) => watched.has(device),
    })
    see(
      ...lookup('a.example', '203.0.113.5'),
      ...lookup('b.example', '203.0.113.6', { mac: '02:00:00:00:00:02' }),
    )
    expect(names.size).toBe(1)
    watched.clear()
    names.tick()
    await names.save()
    expect(names.size).toBe(0)
    expect(written).toEqual([[]])
  })

  it('are kept for seven days after they were last seen, whichever way the clock is set', () => {
    const { names, see, nameOf } = open()
    see(...lookup('a.example', '203.0.113.5'), ...lookup('b.example', '203.0.113.6'))
    names.advance(now + 6 * DAY)
    see(...lookup('a.example', '203.0.113.5', { atMicros: now + 6 * DAY }))
    names.advance(now + 7 * DAY)
    expect([nameOf('203.0.113.5'), nameOf('203.0.113.6')]).toEqual(['a.example', undefined])
    names.clockSet(-300 * DAY)
    names.advance(now - 293 * DAY)
    expect(nameOf('203.0.113.5')).toBe('a.example')
    // set back while the agent did not run
    names.advance(now - 400 * DAY)
    names.advance(now - 393 * DAY)
    expect(names.size).toBe(0)
  })

  it('of a device that has too many put out its own alone', () => {
    const { names, see, nameOf } = open()
    const quiet = '02:00:00:00:00:02'
    see(...lookup('quiet.example', '203.0.113.5', { mac: quiet }))
    for (let device = 3; device < 24; device++) {
      const mac = `02:00:00:00:00:${device.toString(16).padStart(2, '0')}`
      for (let i = 0; i < 300; i++) see(...lookup(`n${i}.example`, `198.51.${i >> 8}.${i & 255}`, { mac }))
    }
    expect(names.size).toBe(MAXIMUM_NAMES)
    expect(nameOf('203.0.113.5', quiet)).toBe('quiet.example')
    expect(nameOf('198.51.1.43', '02:00:00:00:00:03')).toBe('n299.example')
    expect(nameOf('198.51.0.1', '02:00:00:00:00:03')).toBeUndefined()
  })

  it('come from any packets without an error, and are host names', () => {
    const noise = fc.array(fc.oneof(fc.nat(255), fc.constantFrom(0x16, 3, 1, 0, 0xc0)), { maxLength: 200 })
    fc.assert(
      fc.property(fc.array(fc.tuple(noise, fc.constantFrom(53, 443), fc.nat(3)), { maxLength: 8 }), (all) => {
        const { names, see } = open()
        see(
          ...all.map(
            ([payload, port, kind]): Packet => ({
              from: own,
              to: '203.0.113.5',
              ports: [50_000, port],
              payload:
                kind === 0 ? payload : [...helloBytes('a.example', 300).slice(0, 60 * kind), ...payload],
              ...(port === 53 ? {} : { sequence: 1000 + 60 * kind }),
            }),
          ),
        )
        expect(names.size).toBeLessThanOrEqual(1)
        for (const { name } of names.of(camera, ['203.0.113.5'])) expect(name).toMatch(/^[a-z0-9._-]{1,253}$/)
      }),
      { numRuns: sampleCount(1000) },
    )
  })
})

describe('the file of names', () => {
  it('is written with what is new, and read back as it was', async () => {
    const folder = temporaryFolder()
    const { names, see } = open({
      write: (known) => PEER_NAMES.write(nodeFileSystem, folder, { names: known }),
    })
    see(...lookup('a.example', '203.0.113.5'))
    await names.save()
    const log = keepingLog()
    const known = await PEER_NAMES.read(nodeFileSystem, folder, log)
    expect(known).toEqual([
      { device: camera, address: '203.0.113.5', name: 'a.example', source: 'dns', lastMicros: now },
    ])
    expect(open({ known: known ?? [] }).nameOf('203.0.113.5')).toBe('a.example')
    await forgetPeerNames(nodeFileSystem, folder, ['02:00:00:00:00:02'], log)
    expect(await nodeFileSystem.read(PEER_NAMES.pathIn(folder))).not.toBeNull()
    await forgetPeerNames(nodeFileSystem, folder, [camera], log)
    expect(await PEER_NAMES.read(nodeFileSystem, folder, log)).toEqual([])
    await nodeFileSystem.remove(PEER_NAMES.pathIn(folder))
    await names.save()
    // nothing has changed since
    expect(await nodeFileSystem.read(PEER_NAMES.pathIn(folder))).toBeNull()
  })

  it('that holds anything else is refused with FormatError', () => {
    const whole = { kind: 'oddflow-peer-names', version: 1, names: [] as object[] }
    const one = { device: camera, address: '203.0.113.5', name: 'a.example', source: 'dns', lastMicros: now }
    expect(PEER_NAMES.decode({ ...whole, names: [one] })).toEqual([one])
    for (const value of [
      null,
      {},
      { ...whole, version: 2 },
      { ...whole, names: new Array(MAXIMUM_NAMES + 1).fill(one) },
    ])
      expect(() => PEER_NAMES.decode(value)).toThrow(FormatError)
    for (const changed of [
      { name: 'a\u001b[31m.example' },
      { name: '8.8.8.8' },
      { source: 'mdns' },
      { lastMicros: 0.5 },
    ])
      expect(() => PEER_NAMES.decode({ ...whole, names: [{ ...one, ...changed }] })).toThrow(FormatError)
  })
})

it.each([
  ['contacted 203.0.113.5 (tcp port 443) for', 'contacted a.example (203.0.113.5, tcp port 443) for'],
  ['from 203.0.113.5.', 'from a.example (203.0.113.5).'],
  ['203.0.113.5, port 53', 'a.example (203.0.113.5), port 53'],
  ['1203.0.113.5 203.0.113.53 203.0.113.5.1', '1203.0.113.5 203.0.113.53 203.0.113.5.1'],
  ['to 2001:db8::1 and 2001:db8::12', 'to b.example (2001:db8::1) and 2001:db8::12'],
])('in %j names stand beside addresses', (given, expected) => {
  const names = [
    { address: '203.0.113.5', name: 'a.example', source: 'dns' as const },
    { address: '2001:db8::1', name: 'b.example', source: 'tls' as const },
  ]
  expect(withNames(given, names)).toBe(expected)
})
