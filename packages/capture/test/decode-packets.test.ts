import { describe, expect, it } from 'vitest'
import {
  createFrameBatch,
  createPacketBatch,
  decodePackets,
  formatMac,
  PACKET_STATUS_NAMES,
  type PacketBatch,
} from '../src/index.js'
import { ipv4, ipv6, MACS, UDP } from './support/wire.js'

function decode(linkType: number, bytes: readonly number[], wireBytes = bytes.length): PacketBatch {
  const frames = createFrameBatch(1)
  frames.count = 1
  frames.data = Uint8Array.from([0xff, ...bytes, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
  frames.offset[0] = 1
  frames.capturedBytes[0] = bytes.length
  frames.wireBytes[0] = wireBytes
  frames.linkType[0] = linkType
  const packets = createPacketBatch(1)
  // what an earlier batch left behind must not show through
  for (const column of Object.values(packets)) if (ArrayBuffer.isView(column)) (column as Uint8Array).fill(77)
  decodePackets(frames, packets)
  return packets
}

function status(packets: PacketBatch): string {
  return PACKET_STATUS_NAMES[packets.status[0]!]!
}

describe('decodePackets', () => {
  it.each<[string, number, number[], string]>([
    ['Ethernet', 1, [...MACS, 8, 0, ...ipv4(17, UDP)], 'ok'],
    ['a VLAN tag', 1, [...MACS, 0x81, 0, 0, 5, 8, 0, ...ipv4(17, UDP)], 'ok'],
    ['QinQ', 1, [...MACS, 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd, ...ipv6(17, UDP)], 'ok'],
    ['a VLAN tag that is cut', 1, [...MACS, 0x81, 0, 0, 5], 'link-header-truncated'],
    ['SNAP', 1, [...MACS, 0, 36, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0, ...ipv4(17, UDP)], 'ok'],
    ['LLC that is not SNAP', 1, [...MACS, 0, 3, 0x42, 0x42, 3], 'not-ip'],
    ['ARP', 1, [...MACS, 8, 6, 0, 1], 'arp'],
    ['MPLS, nothing behind the labels', 1, [...MACS, 0x88, 0x47, 0, 0, 1, 64], 'link-header-truncated'],
    ['PPPoE, cut', 1, [...MACS, 0x88, 0x64, 0x11], 'link-header-truncated'],
    ['a frame of 13 bytes', 1, [...MACS, 8], 'link-header-truncated'],
    ['null, little-endian', 0, [2, 0, 0, 0, ...ipv4(17, UDP)], 'ok'],
    ['null, big-endian, Darwin', 0, [0, 0, 0, 30, ...ipv6(17, UDP)], 'ok'],
    ['loop', 108, [0, 0, 0, 24, ...ipv6(17, UDP)], 'ok'],
    ['loop with another family', 108, [0, 0, 0, 7, 1], 'not-ip'],
    ['raw IPv4', 101, ipv4(17, UDP), 'ok'],
    ['raw IPv6 of a BSD', 14, ipv6(17, UDP), 'ok'],
    ['raw, nothing', 101, [], 'ip-header-truncated'],
    ['raw, neither version', 12, [0x50, 1, 2], 'not-ip'],
    ['LINKTYPE_IPV4 with IPv6', 228, ipv6(17, UDP), 'ip-header-invalid'],
    ['LINKTYPE_IPV6', 229, ipv6(17, UDP), 'ok'],
    ['cooked', 113, [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 8, 0, ...ipv4(17, UDP)], 'ok'],
    ['cooked, netlink', 113, [0, 4, 3, 56, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1], 'not-ip'],
    [
      'cooked 2',
      276,
      [0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, ...ipv6(17, UDP)],
      'ok',
    ],
    ['MPLS, IPv4', 1, [...MACS, 0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64, ...ipv4(17, UDP)], 'ok'],
    ['MPLS, IPv6', 1, [...MACS, 0x88, 0x48, 0, 0, 0x21, 64, ...ipv6(17, UDP)], 'ok'],
    ['MPLS, a stack without end', 1, [...MACS, 0x88, 0x47, ...fill(40, 0)], 'link-header-truncated'],
    [
      'MPLS, Ethernet behind a control word',
      1,
      [...MACS, 0x88, 0x47, 0, 0, 1, 64, 0, 0, 0, 0, ...MACS, 8, 0, ...ipv4(17, UDP)],
      'ok',
    ],
    [
      'MPLS, Ethernet without',
      1,
      [...MACS, 0x88, 0x47, 0, 0, 1, 64, 0x22, ...MACS.slice(1), 0x86, 0xdd, ...ipv6(17, UDP)],
      'ok',
    ],
    [
      'MPLS, Ethernet without, from an address that looks like a control word',
      1,
      [...MACS, 0x88, 0x47, 0, 0, 1, 64, 0, 0x1b, 0x21, ...MACS.slice(3), 8, 0, ...ipv4(17, UDP)],
      'ok',
    ],
    ['MPLS, Ethernet that holds no IP', 1, [...MACS, 0x88, 0x47, 0, 0, 1, 64, ...fill(40, 0)], 'mpls'],
    ['MPLS, an associated channel', 1, [...MACS, 0x88, 0x47, 0, 0, 1, 64, 0x10, 0, 0, 0x21], 'mpls'],
    ['MPLS in MPLS in …', 1, [...MACS, 0x88, 0x47, ...nestedMpls(12)], 'link-nesting-exceeded'],
    ['SNAP in SNAP in …', 1, [...MACS, 0x81, 0, ...nestedSnap(12)], 'link-nesting-exceeded'],
    ['PPPoE', 1, [...MACS, 0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21, ...ipv4(17, UDP)], 'ok'],
    ['PPPoE, IPv6, short', 1, [...MACS, 0x88, 0x64, 0x11, 0, 0, 1, 0, 49, 0x57, ...ipv6(17, UDP)], 'ok'],
    ['PPPoE, LCP', 1, [...MACS, 0x88, 0x64, 0x11, 0, 0, 1, 0, 8, 0xc0, 0x21, 9, 0, 0, 8], 'pppoe'],
    ['PPPoE, discovery', 1, [...MACS, 0x88, 0x63, 0x11, 9, 0, 0, 0, 0], 'pppoe'],
    ['PPP', 9, [0xff, 3, 0, 0x21, ...ipv4(17, UDP)], 'ok'],
    ['PPP without address and control', 9, [0, 0x57, ...ipv6(17, UDP)], 'ok'],
    ['PPP, MPLS', 9, [0xff, 3, 2, 0x81, 0, 0, 1, 64, ...ipv4(17, UDP)], 'ok'],
    ['PPP, IPCP', 9, [0xff, 3, 0x80, 0x21, 1], 'not-ip'],
    ['PPP in HDLC', 50, [0xff, 3, 0, 0x21, ...ipv4(17, UDP)], 'ok'],
    ['Cisco in HDLC', 50, [0x0f, 0, 8, 0, ...ipv4(17, UDP)], 'ok'],
    ['Cisco HDLC', 104, [0x8f, 0, 0x86, 0xdd, ...ipv6(17, UDP)], 'ok'],
    ['PPPoE alone', 51, [0x11, 0, 0, 1, 0, 30, 0, 0x21, ...ipv4(17, UDP)], 'ok'],
    ['PPP with a direction', 204, [1, 0xff, 3, 0, 0x21, ...ipv4(17, UDP)], 'ok'],
    ['MPLS alone', 219, [0, 0, 1, 64, ...ipv4(17, UDP)], 'ok'],
    ['MACsec, integrity alone', 1, [...MACS, 0x88, 0xe5, 0, 0, ...fill(4, 1), 8, 0, ...ipv4(17, UDP)], 'ok'],
    [
      'MACsec with a channel',
      1,
      [...MACS, 0x88, 0xe5, 0x20, 0, ...fill(12, 1), 8, 0, ...ipv4(17, UDP)],
      'ok',
    ],
    [
      'MACsec, encrypted',
      1,
      [...MACS, 0x88, 0xe5, 0x2c, 0, ...fill(12, 1), 8, 0, ...ipv4(17, UDP)],
      'not-ip',
    ],
    ['802.11 to an access point', 105, [...wlan(0x08, 0x01), ...SNAP_IPV4, ...ipv4(17, UDP)], 'ok'],
    ['802.11, QoS', 105, [...wlan(0x88, 0x02), 0, 0, ...SNAP_IPV4, ...ipv4(17, UDP)], 'ok'],
    ['802.11, QoS and HT', 105, [...wlan(0x88, 0x82), ...fill(6, 0), ...SNAP_IPV4, ...ipv4(17, UDP)], 'ok'],
    [
      '802.11, four addresses',
      105,
      [...wlan(0x08, 0x03), ...MACS.slice(6), ...SNAP_IPV4, ...ipv4(17, UDP)],
      'ok',
    ],
    [
      '802.11, an aggregate',
      105,
      [...wlan(0x88, 0x02), 0x80, 0, ...MACS, 0, 36, ...SNAP_IPV4, ...ipv4(17, UDP), 9, 9],
      'ok',
    ],
    ['802.11, protected', 105, [...wlan(0x08, 0x41), ...fill(30, 7)], 'wlan-encrypted'],
    ['802.11, a later fragment', 105, [...wlan(0x08, 0x01, 3), ...fill(30, 7)], 'wlan-later-fragment'],
    ['802.11, a beacon', 105, [...wlan(0x80, 0x00), ...fill(30, 7)], 'wlan-not-data'],
    ['802.11, an acknowledgement', 105, [0xd4, 0, 0, 0, ...MACS.slice(6)], 'wlan-not-data'],
    ['802.11, no data', 105, wlan(0x48, 0x01), 'wlan-not-data'],
    ['radiotap', 127, [0, 0, 8, 0, 0, 0, 0, 0, ...wlan(0x08, 1), ...SNAP_IPV4, ...ipv4(17, UDP)], 'ok'],
    [
      'radiotap, a padded header behind a timestamp and two words',
      127,
      [
        0,
        0,
        25,
        0,
        3,
        0,
        0,
        0x80,
        0,
        0,
        0,
        0,
        ...fill(4, 0),
        ...fill(8, 1),
        0x20,
        ...wlan(0x88, 2),
        0,
        0,
        0,
        0,
      ].concat([...SNAP_IPV4, ...ipv4(17, UDP)]),
      'ok',
    ],
    [
      'radiotap that is longer than the frame',
      127,
      [0, 0, 255, 255, 0, 0, 0, 0, 8, 1],
      'link-header-truncated',
    ],
    [
      'Prism',
      119,
      [0x44, 0, 0, 0, 144, ...fill(139, 0), ...wlan(0x08, 1), ...SNAP_IPV4, ...ipv4(17, UDP)],
      'ok',
    ],
    [
      'AVS',
      163,
      [0x80, 0x21, 0x10, 1, 0, 0, 0, 64, ...fill(56, 0), ...wlan(0x08, 1), ...SNAP_IPV4, ...ipv4(17, UDP)],
      'ok',
    ],
    ['PPI', 192, [0, 0, 12, 0, 1, 0, 0, 0, 9, 9, 9, 9, ...MACS, 8, 0, ...ipv4(17, UDP)], 'ok'],
    ['PPI in PPI', 192, [0, 0, 8, 0, 192, 0, 0, 0, 0, 0, 8, 0, 192, 0, 0, 0], 'link-type-unsupported'],
    ['NFLOG', 239, [2, 0, 0, 0, 5, 0, 10, 0, 0x61, 0, 0, 0, 32, 0, 9, 0, ...ipv4(17, UDP)], 'ok'],
    [
      'NFLOG, big-endian',
      239,
      [10, 0, 0, 0, 0, 5, 0, 10, 0x61, 0, 0, 0, 0, 52, 0, 9, ...ipv6(17, UDP)],
      'ok',
    ],
    ['NFLOG, a length that goes nowhere', 239, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0], 'not-ip'],
    ['802.15.4', 195, [0x41, 0x88, 1], 'ieee802154-unsupported'],
    ['LAPD', 177, [0x18, 0x41, 3, 0xcc], 'link-type-unsupported'],
    ['802.11, cut', 105, [8, 0, 0, 0], 'link-header-truncated'],
    ['a later IPv4 fragment', 101, ipv4(17, UDP, 28, 0x2001), 'ip-later-fragment'],
    ['a first IPv4 fragment', 101, ipv4(17, UDP, 28, 0x2000), 'ok'],
    ['an IP length that leaves no ports', 101, ipv4(17, UDP, 22), 'transport-header-invalid'],
    ['an IP length below the header', 101, ipv4(17, UDP, 19), 'ip-header-invalid'],
    ['ports that are cut', 101, ipv4(17, [0, 53, 0], 28), 'transport-header-truncated'],
    ['every extension header', 101, ipv6(0, chain([43, 60, 51, 44, 135, 139, 140, 17])), 'ok'],
    ['no next header', 101, ipv6(59, []), 'ip-encrypted-or-no-transport'],
    ['a chain that is cut', 101, ipv6(60, [60, 0, 0, 0, 0, 0, 0, 0, 17], 40), 'ip-header-truncated'],
    ['a chain beyond the payload', 101, ipv6(60, [17, 9, 0, 0, 0, 0, 0, 0, ...UDP]), 'ip-header-invalid'],
    ['a later IPv6 fragment', 101, ipv6(44, [17, 0, 0, 8, 0, 0, 0, 1, ...UDP]), 'ip-later-fragment'],
    ['ESP', 101, ipv6(50, [0, 0, 0, 1, 0, 0, 0, 1]), 'ok'],
  ])('%s', (_, linkType, bytes, expected) => {
    const packets = decode(linkType, bytes)
    expect(status(packets)).toBe(expected)
    const udp = expected === 'ok' && packets.protocol[0] === 17
    expect([packets.sourcePort[0], packets.destinationPort[0]]).toEqual(udp ? [53, 5353] : [0, 0])
    expect(packets.tcpFlags[0]).toBe(0)
    if (expected === 'ok') expect(packets.transportOffset[0]).toBeGreaterThan(packets.ipOffset[0]!)
    if (linkType === 113 && expected === 'ok')
      expect(formatMac(packets.sourceMac, 0)).toBe('02:00:00:00:00:09')
    if (linkType === 276) expect(formatMac(packets.sourceMac, 0)).toBe('02:00:00:00:00:09')
    if (linkType === 101) expect(formatMac(packets.sourceMac, 0)).toBe('00:00:00:00:00:00')
  })

  it.each([
    ['from a station', 0x01],
    ['to a station', 0x02],
  ])('takes 802.11 addresses by their role: %s', (_, flags) => {
    // addresses 1, 2 and 3 (IEEE 802.11-2020, table 9-30)
    const addresses = [1, 2, 3].flatMap((k) => [2, 0, 0, 0, 0, k])
    const packets = decode(105, [0x08, flags, 0, 0, ...addresses, 0, 0, ...SNAP_IPV4, ...ipv4(17, UDP)])
    expect([packets.destinationMac[5], packets.sourceMac[5]]).toEqual(flags === 1 ? [3, 2] : [1, 3])
  })

  it('writes type and answer, or type and code, of ICMP in the place of ports', () => {
    const ports = (packets: PacketBatch): (number | undefined)[] => [
      packets.sourcePort[0],
      packets.destinationPort[0],
    ]
    expect(ports(decode(101, ipv4(1, [8, 0, 0, 0])))).toEqual([8, 0])
    expect(ports(decode(101, ipv4(1, [0, 0, 0, 0])))).toEqual([0, 8])
    expect(ports(decode(101, ipv4(1, [3, 4, 0, 0])))).toEqual([3, 4])
    expect(ports(decode(101, ipv6(58, [128, 0, 0, 0])))).toEqual([128, 129])
    expect(ports(decode(101, ipv6(58, [136, 0, 0, 0])))).toEqual([136, 135])
    expect(ports(decode(101, ipv6(58, [2, 0, 0, 0])))).toEqual([2, 0])
    expect(ports(decode(101, ipv4(1, [8])))).toEqual([0, 0])
  })

  it('reads no ports out of Ethernet padding, and says the IP length beside the wire length', () => {
    const padded = [...MACS, 8, 0, ...ipv4(17, UDP), ...new Array<number>(18).fill(0)]
    const packets = decode(1, padded)
    expect([packets.frameBytes[0], packets.ipBytes[0], packets.hopLimit[0]]).toEqual([60, 28, 64])
  })

  it('takes a length of 0 as reaching to the end of the frame on the wire', () => {
    expect(decode(1, [...MACS, 8, 0, ...ipv4(17, UDP, 0)], 1514).ipBytes[0]).toBe(1500)
    expect(decode(1, [...MACS, 0x86, 0xdd, ...ipv6(17, UDP, 0)], 1514).ipBytes[0]).toBe(1500)
  })

  it('keeps a packet that is snapped behind its ports', () => {
    const packets = decode(101, ipv4(6, [0, 80, 1, 0], 60), 60)
    expect([status(packets), packets.sourcePort[0], packets.tcpFlags[0]]).toEqual(['ok', 80, 0])
    const flags = [0, 80, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0xc2]
    expect(decode(101, ipv4(6, flags, 40), 40).tcpFlags[0]).toBe(0xc2)
  })
})

/** Extension headers, each naming the next; the first one is hop-by-hop, the fragment header is atomic. */
function chain(next: readonly number[]): number[] {
  const kinds = [0, ...next.slice(0, -1)]
  const headers = kinds.flatMap((kind, k) => {
    // lengths count 8-byte units after the first; AH's 4-byte words less two; a fragment's is reserved
    const length = kind === 51 ? 2 : kind === 44 ? 0 : 1
    const size = kind === 44 ? 8 : 16
    return [next[k]!, length, ...new Array<number>(size - 2).fill(0)]
  })
  return [...headers, ...UDP]
}

const SNAP_IPV4 = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]

function fill(count: number, value: number): number[] {
  return new Array<number>(count).fill(value)
}

/** Frame control, duration, three addresses, sequence control. */
function wlan(control: number, flags: number, fragment = 0): number[] {
  return [control, flags, 0, 0, ...MACS, ...MACS.slice(6), fragment, 0]
}

function nestedMpls(depth: number): number[] {
  if (depth === 0) return ipv4(17, UDP)
  return [0, 0, 1, 64, 0, 0, 0, 0, ...MACS, 0x88, 0x47, ...nestedMpls(depth - 1)]
}

function nestedSnap(depth: number): number[] {
  if (depth === 0) return ipv4(17, UDP)
  return [0, 5, 0, 36, 0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0, ...nestedSnap(depth - 1)]
}
