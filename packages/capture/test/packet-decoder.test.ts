import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  createFrameBatch,
  createPacketBatch,
  createPacketDecoder,
  type FrameBatch,
  formatAddress,
  PACKET_STATUS_NAMES,
  type PacketBatch,
  type PacketDecoder,
  packetStatusCode,
} from '../src/index.js'
import { MAXIMUM_TUNNELS } from '../src/packet-decoder.js'
import { ethernet, ipv4, ipv6, MACS, UDP, udp } from './support/wire.js'

const LINKTYPE_RAW = 101
const TOO_SHORT = packetStatusCode('link-header-truncated')

function frames(list: readonly (readonly number[])[], linkType = LINKTYPE_RAW, micros = [0]): FrameBatch {
  const batch = createFrameBatch(list.length)
  batch.data = Uint8Array.from(list.flat())
  batch.count = list.length
  let at = 0
  list.forEach((bytes, i) => {
    batch.offset[i] = at
    batch.capturedBytes[i] = bytes.length
    batch.wireBytes[i] = bytes.length
    batch.linkType[i] = linkType
    batch.timestampMicros[i] = micros[i] ?? micros.at(-1)!
    at += bytes.length
  })
  return batch
}

/** "source>destination protocol", or the status. */
function keys(decoder: PacketDecoder, batch: FrameBatch): string[] {
  const packets = createPacketBatch(batch.count)
  decoder.decode(batch, packets)
  return Array.from({ length: batch.count }, (_, i) => keyOf(packets, i))
}

function keyOf(packets: PacketBatch, i: number): string {
  if (packets.status[i] !== 0) return PACKET_STATUS_NAMES[packets.status[i]!]!
  const version = packets.ipVersion[i]!
  const from = `${formatAddress(packets.sourceAddress, 4 * i, version)} ${packets.sourcePort[i]}`
  const to = `${formatAddress(packets.destinationAddress, 4 * i, version)} ${packets.destinationPort[i]}`
  return `${from} > ${to}, ${packets.protocol[i]}`
}

const INNER_4 = '192.0.2.1 53 > 192.0.2.2 5353, 17'
const INNER_6 = '2001:db8::1 53 > 2001:db8::2 5353, 17'
const IN_4 = ipv4(17, UDP)
const IN_6 = ipv6(17, UDP)
const TEB = ethernet(0x0800, IN_4)
const ERSPAN_3 = [0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]

describe('the inner view', () => {
  it.each<[string, number[], string]>([
    ['IP in IP', ipv4(4, IN_4), INNER_4],
    ['6in4', ipv4(41, IN_6), INNER_6],
    ['4in6', ipv6(4, IN_4), INNER_4],
    ['6in6', ipv6(41, IN_6), INNER_6],
    ['6in4 in IP in IP', ipv4(4, ipv4(41, IN_6)), INNER_6],
    ['GRE', ipv4(47, [0, 0, 8, 0, ...IN_4]), INNER_4],
    ['GRE with checksum, key, sequence', ipv4(47, [0xb0, 0, 0x86, 0xdd, ...zeros(12), ...IN_6]), INNER_6],
    ['GRE with Ethernet', ipv4(47, [0x20, 0, 0x65, 0x58, 0, 0, 0, 1, ...TEB]), INNER_4],
    ['GRE with MPLS', ipv4(47, [0, 0, 0x88, 0x47, 0, 0, 1, 64, ...IN_4]), INNER_4],
    ['GRE of PPTP', ipv4(47, [0x30, 0x81, 0x88, 0x0b, ...zeros(12), 0xff, 3, 0, 0x21, ...IN_4]), INNER_4],
    ['ERSPAN I', ipv4(47, [0, 0, 0x88, 0xbe, ...TEB]), INNER_4],
    ['ERSPAN II', ipv4(47, [0x10, 0, 0x88, 0xbe, ...zeros(4), 0x10, ...zeros(7), ...TEB]), INNER_4],
    ['ERSPAN III', ipv4(47, [0x10, 0, 0x22, 0xeb, ...zeros(4), ...ERSPAN_3, 0, ...TEB]), INNER_4],
    [
      'ERSPAN III, platform',
      ipv4(47, [0x10, 0, 0x22, 0xeb, ...zeros(4), ...ERSPAN_3, 1, ...zeros(8), ...TEB]),
      INNER_4,
    ],
    ['AH', ipv4(51, [17, 4, 0, 0, ...zeros(20), ...UDP]), INNER_4],
    ['AH before IP in IP', ipv4(51, [4, 4, 0, 0, ...zeros(20), ...IN_4]), INNER_4],
    ['VXLAN', ipv4(17, udp(4789, [8, 0, 0, 0, 0, 0, 1, 0, ...TEB])), INNER_4],
    ['VXLAN of old Linux', ipv6(17, udp(8472, [8, 0, 0, 0, 0, 0, 1, 0, ...TEB])), INNER_4],
    [
      'Geneve with options',
      ipv4(17, udp(6081, [1, 0, 0x65, 0x58, 0, 0, 1, 0, ...zeros(4), ...TEB])),
      INNER_4,
    ],
    ['Geneve with IPv6', ipv4(17, udp(6081, [0, 0, 0x86, 0xdd, 0, 0, 1, 0, ...IN_6])), INNER_6],
    ['GTP-U', ipv4(17, udp(2152, [0x30, 255, 0, 28, 0, 0, 0, 1, ...IN_4])), INNER_4],
    [
      'GTP-U with an extension header',
      ipv4(17, udp(2152, [0x34, 255, 0, 36, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0, ...IN_6])),
      INNER_6,
    ],
    ['Teredo', ipv4(17, udp(3544, IN_6)), INNER_6],
    [
      'Teredo with both indications, from the server',
      ipv4(17, udp(50_000, [0, 1, 0, 0, ...zeros(9), 0, 0, ...zeros(6), ...IN_6], 3544)),
      INNER_6,
    ],
  ])('opens %s, which the outer one does not', (_, bytes, expected) => {
    const inner = createPacketDecoder({ decapsulate: 'inner' })
    expect(keys(inner, frames([bytes]))).toEqual([expected])
    expect(inner.counters).toMatchObject({ decapsulatedPackets: 1, nestingExceededPackets: 0 })
    const outer = createPacketDecoder()
    expect(keys(outer, frames([bytes]))).not.toEqual([expected])
    expect(outer.counters.decapsulatedPackets).toBe(0)
    // with padding behind, and with the transport cut off: the tunnel's own key
    expect(keys(inner, frames([[...bytes, 1, 2, 3]]))).toEqual([expected])
    const cut = bytes.slice(0, -6)
    expect(keys(inner, frames([cut]))).toEqual(keys(outer, frames([cut])))
  })

  it.each<[string, number[]]>([
    ['ICMP in 6in4', ipv4(41, ipv6(58, [128, 0, 0, 0]))],
    [
      'a later fragment in VXLAN',
      ipv4(17, udp(4789, [8, 0, 0, 0, 0, 0, 1, 0, ...ethernet(0x0800, ipv4(17, UDP, 28, 5))])),
    ],
    ['VXLAN without its flag', ipv4(17, udp(4789, [0, 0, 0, 0, 0, 0, 1, 0, ...TEB]))],
    ['what comes from VXLAN’s port', ipv4(17, udp(50_000, [8, 0, 0, 0, 0, 0, 1, 0, ...TEB], 4789))],
    ['a GTP-U echo', ipv4(17, udp(2152, [0x30, 1, 0, 28, 0, 0, 0, 1, ...IN_4]))],
    [
      'GTP-U, an extension header without length',
      ipv4(17, udp(2152, [0x34, 255, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, ...zeros(40)])),
    ],
    ['GRE with source routes', ipv4(47, [0x40, 0, 8, 0, ...zeros(4), ...IN_4])],
    ['GRE of a later version', ipv4(47, [0, 2, 8, 0, ...IN_4])],
    ['AH that is too short', ipv4(51, [17, 0, 0, 0, ...zeros(20), ...UDP])],
    ['AH beyond the packet', ipv4(51, [17, 40, 0, 0, ...zeros(20), ...UDP])],
    ['the wrong version in IP in IP', ipv4(4, IN_6)],
  ])('leaves %s with the tunnel', (_, bytes) => {
    const inner = createPacketDecoder({ decapsulate: 'inner' })
    expect(keys(inner, frames([bytes]))).toEqual(keys(createPacketDecoder(), frames([bytes])))
    expect(inner.counters.decapsulatedPackets).toBe(0)
  })

  it('stops at its depth, counted', () => {
    const nested = (depth: number): number[] => (depth === 0 ? IN_4 : ipv4(4, nested(depth - 1)))
    const decoder = createPacketDecoder({ decapsulate: 'inner' })
    expect(keys(decoder, frames([nested(MAXIMUM_TUNNELS)]))).toEqual([INNER_4])
    expect(decoder.counters.nestingExceededPackets).toBe(0)
    expect(keys(decoder, frames([nested(MAXIMUM_TUNNELS + 1)]))).toEqual(['192.0.2.1 0 > 192.0.2.2 0, 4'])
    expect(decoder.counters).toMatchObject({ decapsulatedPackets: 1, nestingExceededPackets: 1 })
  })

  it('keeps frame length, time and MAC addresses, and gives the inner lengths', () => {
    const decoder = createPacketDecoder({ decapsulate: 'inner' })
    const vxlan = ipv4(
      17,
      udp(4789, [8, 0, 0, 0, 0, 0, 1, 0, ...ethernet(0x86dd, IN_6).map((b, k) => (k < 12 ? 9 : b))]),
    )
    const batch = frames([ethernet(0x0800, vxlan)], 1, [77])
    const packets = createPacketBatch(1)
    decoder.decode(batch, packets)
    expect(packets.frameBytes[0]).toBe(batch.wireBytes[0])
    expect(packets.timestampMicros[0]).toBe(77)
    expect([...packets.destinationMac, ...packets.sourceMac]).toEqual(MACS)
    expect([packets.ipBytes[0], packets.hopLimit[0], packets.ipVersion[0]]).toEqual([48, 61, 6])
    const length = batch.capturedBytes[0]!
    expect([packets.ipOffset[0], packets.transportOffset[0]]).toEqual([length - 48, length - 8])
  })
})

/** First, middle and last fragment of one datagram. */
function fragments4(id: number, protocol = 17): number[][] {
  return [
    ipv4(protocol, UDP, 28, 0x2000, id),
    ipv4(protocol, fill(8, 7), 28, 0x2001, id),
    ipv4(protocol, fill(8, 7), 28, 2, id),
  ]
}
function fragments6(id: number): number[][] {
  const header = (offset: number, more: number): number[] => [
    17,
    0,
    offset >> 5,
    ((offset << 3) & 255) | more,
    0,
    0,
    0,
    id,
  ]
  return [
    ipv6(44, [...header(0, 1), ...UDP]),
    ipv6(44, [...header(1, 1), ...fill(8, 7)]),
    ipv6(44, [...header(2, 0), ...fill(8, 7)]),
  ]
}

describe('joinFragments', () => {
  const LATER = 'ip-later-fragment'

  it('gives later fragments the flow of the first', () => {
    const decoder = createPacketDecoder({ joinFragments: true })
    const all = frames([...fragments4(1), ...fragments6(1)])
    expect(keys(decoder, all)).toEqual([INNER_4, INNER_4, INNER_4, INNER_6, INNER_6, INNER_6])
    expect(decoder.counters).toMatchObject({ joinedFragments: 4, unjoinedFragments: 0, evictedDatagrams: 0 })
    expect(keys(createPacketDecoder(), all)).toEqual([INNER_4, LATER, LATER, INNER_6, LATER, LATER])
  })

  it('counts fragments before the first one, of another datagram, or of another protocol', () => {
    const decoder = createPacketDecoder({ joinFragments: true })
    const [first, middle, last] = fragments4(1) as [number[], number[], number[]]
    const others = [fragments4(2)[1]!, fragments4(1, 6)[1]!, fragments6(1)[2]!]
    expect(keys(decoder, frames([middle, first, ...others, last]))).toEqual([
      LATER,
      INNER_4,
      LATER,
      LATER,
      LATER,
      INNER_4,
    ])
    expect(decoder.counters).toMatchObject({ joinedFragments: 1, unjoinedFragments: 4 })
  })

  it('carries the key over batches, for sixty seconds', () => {
    const [first, middle, last] = fragments4(1) as [number[], number[], number[]]
    const decoder = createPacketDecoder({ joinFragments: true })
    keys(decoder, frames([first], LINKTYPE_RAW, [1e15]))
    expect(keys(decoder, frames([middle], LINKTYPE_RAW, [1e15 + 60e6]))).toEqual([INNER_4])
    expect(keys(decoder, frames([last], LINKTYPE_RAW, [1e15 + 60e6 + 1]))).toEqual([LATER])
  })

  it('follows a fragmented tunnel to its inner key', () => {
    const [, middle, last] = fragments4(9, 41) as [number[], number[], number[]]
    const first = ipv4(41, IN_6, 20 + IN_6.length, 0x2000, 9)
    const decoder = createPacketDecoder({ joinFragments: true, decapsulate: 'inner' })
    expect(keys(decoder, frames([first, middle, last]))).toEqual([INNER_6, INNER_6, INNER_6])
  })

  it('holds a bounded number of datagrams and counts the dropped ones', () => {
    const decoder = createPacketDecoder({ joinFragments: true, maximumFragmentedDatagrams: 64, hashSeed: 5 })
    const count = 1000
    const ids = Array.from({ length: count }, (_, k) => k + 1)
    keys(decoder, frames(ids.map((id) => fragments4(id)[0]!)))
    expect(decoder.counters.evictedDatagrams).toBeGreaterThanOrEqual(count - 64)
    keys(decoder, frames(ids.map((id) => fragments4(id)[1]!)))
    expect(decoder.counters.joinedFragments).toBe(count - decoder.counters.evictedDatagrams)
    expect(decoder.counters.unjoinedFragments).toBe(decoder.counters.evictedDatagrams)
  })

  it('takes an atomic fragment for whole', () => {
    const decoder = createPacketDecoder({ joinFragments: true })
    const atomic = ipv6(44, [17, 0, 0, 0, 0, 0, 0, 1, ...UDP])
    expect(keys(decoder, frames([atomic, fragments6(1)[1]!]))).toEqual([INNER_6, LATER])
  })
})

it('refuses options that are none', () => {
  expect(() => createPacketDecoder({ decapsulate: 'both' as 'inner' })).toThrow(
    /decapsulate: expected one of/,
  )
  expect(() => createPacketDecoder({ joinFragments: true, maximumFragmentedDatagrams: 2 })).toThrow(
    /maximumFragmentedDatagrams: expected/,
  )
})

describe('any bytes', () => {
  const EVERYTHING = { decapsulate: 'inner', joinFragments: true, maximumFragmentedDatagrams: 4 } as const
  const LINK_TYPES = [
    0, 1, 9, 12, 14, 50, 51, 101, 104, 105, 108, 113, 119, 127, 163, 192, 195, 204, 219, 228, 229, 239, 276,
  ]
  const wrappers: ((inner: number[]) => number[])[] = [
    (inner) => ipv4(4, inner),
    (inner) => ipv4(41, inner),
    (inner) => ipv6(41, inner),
    (inner) => ipv4(47, [0, 0, 8, 0, ...inner]),
    (inner) => ipv4(47, [0x10, 0, 0x88, 0xbe, ...zeros(12), ...ethernet(0x0800, inner)]),
    (inner) => ipv4(51, [4, 4, ...zeros(22), ...inner]),
    (inner) => ipv4(17, udp(4789, [8, ...zeros(7), ...ethernet(0x8847, [0, 0, 1, 9, ...inner])])),
    (inner) =>
      ipv4(17, udp(6081, [0, 0, 0x65, 0x58, ...zeros(4), ...ethernet(0x8100, [0, 1, 8, 0, ...inner])])),
    (inner) => ipv6(17, udp(2152, [0x32, 255, ...zeros(10), ...inner])),
    (inner) => ipv4(17, udp(3544, [0, 0, ...zeros(6), ...inner])),
    (inner) => ipv6(44, [41, 0, 0, 1, 0, 0, 0, 1, ...inner]),
  ]
  const nested = fc
    .tuple(
      fc.array(fc.constantFrom(...wrappers), { maxLength: 14 }),
      fc.oneof(fc.uint8Array({ maxLength: 60 }), fc.constant(Uint8Array.from(IN_4))),
    )
    .map(([list, core]) => list.reduce((inner, wrap) => wrap(inner), [...core]))
  const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 6 })

  it('nested tunnels and damaged ones end with one status, within their bytes', () => {
    fc.assert(
      fc.property(
        nested,
        damage,
        fc.constantFrom(...LINK_TYPES),
        fc.boolean(),
        (bytes, changes, linkType, isRaw) => {
          for (const [at, value] of changes) if (bytes.length > 0) bytes[at % bytes.length] = value
          const decoder = createPacketDecoder(EVERYTHING)
          const batch = frames([bytes], isRaw ? LINKTYPE_RAW : linkType)
          const packets = createPacketBatch(1)
          decoder.decode(batch, packets)
          expect(packets.status[0]).toBeLessThan(PACKET_STATUS_NAMES.length)
          expect(packets.transportOffset[0]).toBeLessThanOrEqual(bytes.length)
        },
      ),
      { numRuns: sampleCount(3000) },
    )
  })

  it('no byte outside a frame is looked at, at whatever byte it is cut', () => {
    const seeds: [number, number[]][] = [
      [1, ethernet(0x0800, IN_4)],
      [1, ethernet(0x8100, [0, 1, 0x88, 0x47, 0, 0, 1, 9, ...zeros(4), ...ethernet(0x86dd, IN_6)])],
      [1, ethernet(0x8864, [0x11, 0, 0, 1, 0, 60, 0, 0x57, ...IN_6])],
      [1, ethernet(0x88e5, [0x20, ...zeros(13), 8, 0, ...IN_4])],
      [1, ethernet(0x0806, [0, 1, 8, 0, 6, 4, 0, 1, ...zeros(20)])],
      [1, ethernet(36, [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...IN_4])],
      [0, [2, 0, 0, 0, ...IN_4]],
      [9, [0xff, 3, 2, 0x81, 0, 0, 1, 9, ...IN_4]],
      [50, [0x0f, 0, 8, 0, ...IN_4]],
      [105, [0x88, 0x83, ...zeros(22), ...zeros(12), 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...IN_4]],
      [119, [0x44, 0, 0, 0, 16, ...zeros(11), 8, 1, ...zeros(22), 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...IN_4]],
      [
        127,
        [0, 0, 17, 0, 3, 0, 0, 0, ...zeros(9), 8, 1, ...zeros(22), 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...IN_4],
      ],
      [163, [0x80, 0x21, 0x10, 1, 0, 0, 0, 8, 8, 1, ...zeros(22), 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...IN_4]],
      [192, [0, 0, 8, 0, 1, 0, 0, 0, ...ethernet(0x0800, IN_4)]],
      [239, [2, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0, 0, 32, 0, 9, 0, ...IN_4]],
      [113, [0, 0, 0, 1, 0, 6, ...zeros(8), 8, 0, ...IN_4]],
      [276, [0x86, 0xdd, ...zeros(18), ...IN_6]],
      [229, ipv6(0, [60, 0, ...zeros(6), 44, 0, ...zeros(6), 6, 0, 0, 1, 0, 0, 0, 7, ...zeros(20)])],
      ...wrappers.map((wrap): [number, number[]] => [LINKTYPE_RAW, wrap(IN_4)]),
      ...wrappers.map((wrap): [number, number[]] => [LINKTYPE_RAW, wrap(ipv4(6, zeros(20)))]),
    ]
    const outside: string[] = []
    for (const [linkType, bytes] of seeds) {
      for (let length = 0; length <= bytes.length; length++) {
        const batch = frames([bytes.slice(0, length)], linkType)
        const held = new Uint8Array(64 + length + 64).fill(0x45)
        held.set(batch.data, 64)
        batch.data = new Proxy(held, {
          get(target, key) {
            const at = Number(String(key))
            if (!(at >= 64 && at < 64 + length)) outside.push(`${linkType}, ${length} bytes: ${String(key)}`)
            return target[at]
          },
        })
        batch.offset[0] = 64
        batch.wireBytes[0] = bytes.length
        const packets = createPacketBatch(1)
        createPacketDecoder(EVERYTHING).decode(batch, packets)
        if (length === bytes.length) expect([linkType, packets.status[0]]).not.toEqual([linkType, TOO_SHORT])
      }
    }
    expect(outside).toEqual([])
  })
})

function zeros(count: number): number[] {
  return fill(count, 0)
}

function fill(count: number, value: number): number[] {
  return new Array<number>(count).fill(value)
}
