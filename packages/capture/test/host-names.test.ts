import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createPacketBatch,
  decodePackets,
  formatAddress,
  hostName,
  PACKET_OK,
  readDnsMessage,
  readDomainName,
  readServerName,
} from '../src/index.js'
import { readCapture } from '../src/node/index.js'
import { captures, hasProgram, sharedMissing } from './support/shared.js'

const text = (value: string): number[] => [...new TextEncoder().encode(value)]
const word = (value: number): number[] => [value >> 8, value & 255]
const nameBytes = (name: string): number[] => [
  ...name.split('.').flatMap((label) => [label.length, ...text(label)]),
  0,
]
const A_RECORD = 1
const CNAME = 5
const AAAA = 28

/** A record whose owner is written out. */
const record = (owner: string, type: number, value: number[]): number[] => [
  ...nameBytes(owner),
  ...word(type),
  ...word(1),
  ...[0, 0, 0, 60],
  ...word(value.length),
  ...value,
]

function response(
  name: string,
  answers: number[][],
  changes: { flags?: number; additional?: number[][] } = {},
) {
  const additional = changes.additional ?? []
  return Uint8Array.from([
    ...word(0x1234),
    ...word(changes.flags ?? 0x8180),
    ...word(1),
    ...word(answers.length),
    ...word(0),
    ...word(additional.length),
    ...nameBytes(name),
    ...word(A_RECORD),
    ...word(1),
    ...answers.flat(),
    ...additional.flat(),
  ])
}

/** Of a response, as text. */
function addressesIn(bytes: Uint8Array): string[] | null {
  const found = readDnsMessage(bytes, 0, bytes.length)
  return found?.addresses.map((words) => formatAddress(words, 0, words[0] === 0 ? 4 : 6)) ?? null
}

describe('a DNS response', () => {
  it('gives the addresses of the name that was asked for, over its aliases, in any order', () => {
    const bytes = response('www.Example.com', [
      record('edge.example.net', A_RECORD, [203, 0, 113, 5]),
      record('www.example.com', CNAME, nameBytes('cdn.example.net')),
      record('CDN.example.net', CNAME, nameBytes('edge.example.net')),
      record('edge.example.net', AAAA, [0x20, 1, 0x0d, 0xb8, ...new Array(11).fill(0), 1]),
    ])
    expect(readDnsMessage(bytes, 0, bytes.length)).toMatchObject({
      id: 0x1234,
      isResponse: true,
      name: 'www.example.com',
    })
    expect(addressesIn(bytes)).toEqual(['203.0.113.5', '2001:db8::1'])
  })

  it('says nothing of other names: neither in its answers nor beside them', () => {
    const foreign = record('bank.example', A_RECORD, [203, 0, 113, 66])
    expect(addressesIn(response('evil.example', [foreign], { additional: [foreign] }))).toEqual([])
    const additional = [record('evil.example', A_RECORD, [203, 0, 113, 66])]
    expect(addressesIn(response('evil.example', [], { additional }))).toEqual([])
  })

  it('of aliases that lead in a circle, or on and on, ends', () => {
    const circle = [
      record('a.example', CNAME, nameBytes('b.example')),
      record('b.example', CNAME, nameBytes('a.example')),
      record('b.example', A_RECORD, [203, 0, 113, 5]),
    ]
    expect(addressesIn(response('a.example', circle))).toEqual(['203.0.113.5'])
    const chain = Array.from({ length: 40 }, (_, i) =>
      record(`n${i}.example`, CNAME, nameBytes(`n${i + 1}.example`)),
    )
    const end = record('n40.example', A_RECORD, [203, 0, 113, 5])
    expect(addressesIn(response('n0.example', [...chain, end]))).toEqual([])
  })

  it.each([
    ['an error', 0x8183],
    ['cut off', 0x8380],
    ['another kind of query', 0x9180],
  ])('that is %s gives nothing', (_, flags) => {
    expect(addressesIn(response('a.example', [record('a.example', A_RECORD, [1, 2, 3, 4])], { flags }))).toBe(
      null,
    )
  })
})

it('a query has an id and a name, and no addresses', () => {
  const bytes = response('a.example', [], { flags: 0x0100 })
  expect(readDnsMessage(bytes, 0, bytes.length)).toEqual({
    id: 0x1234,
    isResponse: false,
    name: 'a.example',
    addresses: [],
  })
})

it.each([
  ['Example.COM', 'example.com'],
  ['_dns.resolver.arpa', '_dns.resolver.arpa'],
  ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['localhost', 'localhost'],
  ['8.8.8.8', null],
  ['2130706433', null],
  ['a..b', null],
  ['', null],
  ['a b', null],
  ['red\u001b[31m.example', null],
  ['\u202eelpmaxe', null],
  [`${'x'.repeat(64)}.example`, null],
  [`${'x.'.repeat(127)}example`, null],
])('of %j the host name is %j', (given, expected) => {
  expect(hostName(given)).toBe(expected)
})

/** A ClientHello with these extensions. */
function hello(extensions: number[]): Uint8Array {
  const body = [
    ...[3, 3, ...new Array(32).fill(7)],
    ...[32, ...new Array(32).fill(9)],
    ...[...word(4), 0x13, 1, 0x13, 2],
    ...[1, 0],
    ...word(extensions.length),
    ...extensions,
  ]
  return Uint8Array.from([0x16, 3, 1, ...word(body.length + 4), 1, 0, ...word(body.length), ...body])
}
const extension = (type: number, value: number[]): number[] => [
  ...word(type),
  ...word(value.length),
  ...value,
]
const serverName = (name: string): number[] =>
  extension(0, [...word(name.length + 3), 0, ...word(name.length), ...text(name)])

describe('a ClientHello', () => {
  const whole = hello([...extension(0x33, new Array(1200).fill(1)), ...serverName('Example.com')])

  it('gives its server name, of a cut-off one that there is more to come, at every byte', () => {
    for (let end = 6; end < whole.length; end++) expect(readServerName(whole, 0, end), `${end}`).toBe('cut')
    expect(readServerName(whole, 0, whole.length)).toEqual({ name: 'example.com' })
    // what comes behind the name is not waited for
    const first = hello([...serverName('example.com'), ...extension(0x33, new Array(1200).fill(1))])
    expect(readServerName(first, 0, 200)).toEqual({ name: 'example.com' })
  })

  it.each([
    ['without a name', hello(extension(0x2b, [2, 3, 4]))],
    ['with an address for a name', hello(serverName('203.0.113.5'))],
    ['with a control character', hello(serverName('a\u0007.example'))],
    ['with an empty list', hello(extension(0, [0, 0]))],
    ['that is a ServerHello', Uint8Array.from(whole, (byte, i) => (i === 5 ? 2 : byte))],
    ['that is data', Uint8Array.from(whole, (byte, i) => (i === 0 ? 0x17 : byte))],
  ])('%s has none', (_, bytes) => {
    expect(readServerName(bytes, 0, bytes.length)).toBe(null)
  })
})

describe('any bytes', () => {
  const noise = fc.array(fc.oneof(fc.nat(255), fc.constantFrom(0xc0, 0, 1, 2, 63, 12, 3, 0x16)), {
    maxLength: 700,
  })
  const isHostName = (name: string): void => {
    expect(name).toMatch(/^[a-z0-9._-]{1,253}$/)
    expect(hostName(name)).toBe(name)
  }

  it('give host names alone, within the bytes that there are', () => {
    fc.assert(
      fc.property(noise, fc.nat(20), fc.constantFrom('noise', 'response', 'hello'), (bytes, at, kind) => {
        const head =
          kind === 'response'
            ? [0, 1, 0x81, 0x80, 0, 1, 0, 64, 0, 0, 0, 0]
            : kind === 'hello'
              ? [...hello([]).subarray(0, 85), ...word(bytes.length)]
              : []
        const message = Uint8Array.from([...head, ...bytes])
        const start = kind === 'noise' ? Math.min(at, message.length) : 0
        const before = message.slice()
        const dns = readDnsMessage(message, start, message.length)
        if (dns !== null) isHostName(dns.name)
        expect(dns?.addresses.length ?? 0).toBeLessThanOrEqual(64)
        const server = readServerName(message, start, message.length)
        if (server !== null && server !== 'cut') isHostName(server.name)
        expect(message).toEqual(before)
      }),
      { numRuns: sampleCount(5000) },
    )
  })

  it('of which each is changed leave a message readable or not, and nothing in between', () => {
    const bytes = response('www.example.com', [
      record('www.example.com', CNAME, nameBytes('edge.example.net')),
      record('edge.example.net', A_RECORD, [203, 0, 113, 5]),
    ])
    for (let i = 0; i < bytes.length; i++) {
      for (const value of [0, 0x3f, 0x40, 0xc0, 0xff]) {
        const changed = Uint8Array.from(bytes, (byte, j) => (i === j ? value : byte))
        expect(addressesIn(changed)?.length ?? 0).toBeLessThanOrEqual(1)
      }
    }
  })

  it('keep a domain name within its message, and end', () => {
    fc.assert(
      fc.property(noise, fc.nat(400), (bytes, at) => {
        const message = Uint8Array.from(bytes)
        const found = readDomainName(message, Math.min(at, message.length), 0, message.length)
        if (found === null) return
        expect(found.labels.reduce((sum, each) => sum + each.length + 1, 0)).toBeLessThanOrEqual(255)
        expect(found.end).toBeLessThanOrEqual(message.length)
      }),
      { numRuns: sampleCount(2000) },
    )
  })
})

// ---- what tshark shows

const DNS = ['tcpdump_edns-opts.pcap', 'ndpi_dns_ambiguous_names.pcap', 'ndpi_badpackets.pcap']
const TLS = ['ndpi_sonos.pcapng', 'ndpi_tls_esni_sni_both.pcap', 'ndpi_ookla.pcap']
const noTshark = !hasProgram('tshark', 'host names are not compared with it')

/** Of a frame's number what tshark shows, and what is read. */
async function shown(file: string, filter: string, fields: readonly string[]) {
  const said = execFileSync(
    'tshark',
    [
      '-n',
      '-r',
      file,
      '-Y',
      filter,
      '-T',
      'fields',
      '-E',
      'separator=|',
      ...['frame.number', ...fields].flatMap((field) => ['-e', field]),
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  )
  const expected = new Map(
    said
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split('|'))
      .map(([frame, ...values]) => [Number(frame), values]),
  )
  const read = new Map<
    number,
    { dns: ReturnType<typeof readDnsMessage>; server: ReturnType<typeof readServerName> }
  >()
  const packets = createPacketBatch(2048)
  let frame = 0
  await readCapture(file, (frames) => {
    decodePackets(frames, packets)
    for (let i = 0; i < packets.count; i++) {
      frame++
      if (packets.status[i] !== PACKET_OK) continue
      const transport = packets.transportOffset[i]!
      const end = frames.offset[i]! + frames.capturedBytes[i]!
      const isTcp = packets.protocol[i] === 6
      const payload = transport + (isTcp ? 4 * (frames.data[transport + 12]! >> 4) : 8)
      read.set(frame, {
        dns: isTcp ? null : readDnsMessage(frames.data, payload, end),
        server: isTcp ? readServerName(frames.data, payload, end) : null,
      })
    }
  })
  return { expected, read }
}

describe.skipIf(noTshark || sharedMissing)('host names equal those of tshark', () => {
  it.each(DNS)('of DNS responses in %s', async (name) => {
    const { expected, read } = await shown(
      join(captures, name),
      'udp.port == 53 && dns.flags.response == 1 && dns.count.queries == 1 && dns.flags.rcode == 0 && dns.count.auth_rr == 0',
      ['dns.qry.name', 'dns.a', 'dns.aaaa'],
    )
    let compared = 0
    for (const [frame, [asked, a, aaaa]] of expected) {
      const addresses = [a, aaaa].flatMap((each) =>
        each === undefined || each === '' ? [] : each.split(','),
      )
      const found = read.get(frame)?.dns
      if (hostName(asked!) === null) continue
      compared++
      expect(found?.name, `${frame}`).toBe(asked!.toLowerCase())
      expect(
        new Set(found?.addresses.map((words) => formatAddress(words, 0, words[0] === 0 ? 4 : 6))),
        `${frame}`,
      ).toEqual(new Set(addresses))
    }
    expect(compared).toBeGreaterThan(5)
  })

  it.each(TLS)('of ClientHellos in %s', async (name) => {
    const { expected, read } = await shown(join(captures, name), 'tls.handshake.type == 1 && tcp', [
      'tls.handshake.extensions_server_name',
    ])
    expect(expected.size).toBeGreaterThan(0)
    for (const [frame, [asked]] of expected) {
      const name = hostName(asked ?? '')
      expect(read.get(frame)?.server, `${frame}`).toEqual(name === null ? null : { name })
    }
  })
})
