import { describe, expect, it } from 'vitest'
import {
  createFrameBatch,
  createPacketBatch,
  decodePackets,
  formatMac,
  PACKET_STATUS_NAMES,
  type PacketBatch,
} from '../src/index.js'

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

const MACS = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]
/** RFC 791; `total` overrides the length. */
function ipv4(
  protocol: number,
  payload: readonly number[],
  total = 20 + payload.length,
  fragment = 0,
): number[] {
  const head = [0x45, 0, total >> 8, total & 255, 0, 0, fragment >> 8, fragment & 255, 64, protocol, 0, 0]
  return [...head, 192, 0, 2, 1, 192, 0, 2, 2, ...payload]
}
function ipv6(next: number, payload: readonly number[], length = payload.length): number[] {
  const address = (last: number): number[] => [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
  return [0x60, 0, 0, 0, length >> 8, length & 255, next, 61, ...address(1), ...address(2), ...payload]
}
const UDP = [0, 53, 0x14, 0xe9, 0, 8, 0, 0]

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
    if (linkType === 113 && expected === 'ok')
      expect(formatMac(packets.sourceMac, 0)).toBe('02:00:00:00:00:09')
    if (linkType === 276) expect(formatMac(packets.sourceMac, 0)).toBe('02:00:00:00:00:09')
    if (linkType === 101) expect(formatMac(packets.sourceMac, 0)).toBe('00:00:00:00:00:00')
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
