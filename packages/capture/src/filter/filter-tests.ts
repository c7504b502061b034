/**
 * The single tests that filters are made of, as predicates over a packet's columns.
 *
 * Each factory takes a direction and constants and returns a closure that reads the batch's arrays and
 * allocates nothing. As with tcpdump, an address without a protocol is looked for in IP and in ARP headers,
 * and ports are those of TCP, UDP and SCTP in packets that have them (not later fragments).
 */
import type { PacketBatch } from '../packet-batch.js'
import { PACKET_OK } from '../packet-status.js'
import { ARP } from '../status-codes.js'
import { PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP } from '../transport.js'
import type { PacketFilter } from './packet-filter.js'

export type FilterDirection = 'src' | 'dst' | 'either' | 'both'

/** @param ipVersion 4, 6, or 0 for both */
export function protocolTest(protocol: number, ipVersion: 0 | 4 | 6): PacketFilter {
  return ipVersion === 0
    ? (packets, i) => packets.protocol[i] === protocol && packets.ipVersion[i] !== 0
    : (packets, i) => packets.protocol[i] === protocol && packets.ipVersion[i] === ipVersion
}

export function versionTest(ipVersion: 4 | 6): PacketFilter {
  return (packets, i) => packets.ipVersion[i] === ipVersion
}

export const arpTest: PacketFilter = (packets, i) => packets.status[i] === ARP

/** Packets with a VLAN tag behind `outer` others, of this identifier unless it is null. */
export function vlanTest(outer: number, id: number | null): PacketFilter {
  return id === null
    ? (packets, i) => packets.vlanTags[i]! >>> 24 > outer
    : (packets, i) => {
        const tags = packets.vlanTags[i]!
        return tags >>> 24 > outer && ((tags >>> (12 * outer)) & 0xfff) === id
      }
}

/** `test` on packets with just so many VLAN tags. */
export function behindVlanTags(tags: number, test: PacketFilter): PacketFilter {
  return (packets, i) => packets.vlanTags[i]! >>> 24 === tags && test(packets, i)
}

/** Frames of a length on the wire from `low` to `high`. */
export function lengthTest(low: number, high: number): PacketFilter {
  return (packets, i) => packets.frameBytes[i]! >= low && packets.frameBytes[i]! <= high
}

/** To all stations of the link. */
export const broadcastTest: PacketFilter = ({ destinationMac }, i) => {
  for (let b = 6 * i; b < 6 * i + 6; b++) if (destinationMac[b] !== 0xff) return false
  return true
}

/** To a group of the link's stations, broadcast included, or of IP's hosts. */
export function multicastTest(protocol: string): PacketFilter {
  if (protocol === 'ip') {
    return (packets, i) => packets.ipVersion[i] === 4 && packets.destinationAddress[4 * i + 3]! >>> 24 >= 224
  }
  if (protocol === 'ip6') {
    return (packets, i) => packets.ipVersion[i] === 6 && packets.destinationAddress[4 * i]! >>> 24 === 0xff
  }
  return (packets, i) => (packets.destinationMac[6 * i]! & 1) === 1
}

/** @param where which headers count */
export function ipv4NetTest(
  direction: FilterDirection,
  net: number,
  mask: number,
  where: 'ip' | 'arp' | 'any',
): PacketFilter {
  const ip = where !== 'arp'
  const arp = where !== 'ip'
  return combine(
    direction,
    (words: Uint32Array, i: number) => ((words[4 * i + 3]! ^ net) & mask) === 0,
    (packets, i) => (ip && packets.ipVersion[i] === 4) || (arp && packets.status[i] === ARP),
  )
}

/** @param masks four words, ones where the address must agree */
export function ipv6NetTest(direction: FilterDirection, net: Uint32Array, masks: Uint32Array): PacketFilter {
  const [n0, n1, n2, n3] = net as unknown as readonly [number, number, number, number]
  const [m0, m1, m2, m3] = masks as unknown as readonly [number, number, number, number]
  return combine(
    direction,
    (words: Uint32Array, i: number) => {
      const at = 4 * i
      return (
        (((words[at]! ^ n0) & m0) |
          ((words[at + 1]! ^ n1) & m1) |
          ((words[at + 2]! ^ n2) & m2) |
          ((words[at + 3]! ^ n3) & m3)) ===
        0
      )
    },
    versionTest(6),
  )
}

/** @param protocol of the transport, 0 for any that has ports */
export function portTest(
  direction: FilterDirection,
  low: number,
  high: number,
  protocol: number,
): PacketFilter {
  const hasPorts: PacketFilter = (packets, i) => {
    if (packets.status[i] !== PACKET_OK) return false
    const p = packets.protocol[i]!
    return protocol !== 0 ? p === protocol : p === PROTOCOL_TCP || p === PROTOCOL_UDP || p === PROTOCOL_SCTP
  }
  const source: PacketFilter = (packets, i) => packets.sourcePort[i]! >= low && packets.sourcePort[i]! <= high
  const destination: PacketFilter = (packets, i) =>
    packets.destinationPort[i]! >= low && packets.destinationPort[i]! <= high
  return both(hasPorts, join(direction, source, destination))
}

export function macTest(direction: FilterDirection, mac: Uint8Array): PacketFilter {
  const equal = (bytes: Uint8Array, i: number): boolean => {
    const at = 6 * i
    for (let k = 0; k < 6; k++) if (bytes[at + k] !== mac[k]) return false
    return true
  }
  return join(
    direction,
    (packets, i) => equal(packets.sourceMac, i),
    (packets, i) => equal(packets.destinationMac, i),
  )
}

function combine(
  direction: FilterDirection,
  matches: (words: Uint32Array, i: number) => boolean,
  applies: PacketFilter,
): PacketFilter {
  const source: PacketFilter = (packets: PacketBatch, i) => matches(packets.sourceAddress, i)
  const destination: PacketFilter = (packets: PacketBatch, i) => matches(packets.destinationAddress, i)
  return both(applies, join(direction, source, destination))
}

function join(direction: FilterDirection, source: PacketFilter, destination: PacketFilter): PacketFilter {
  switch (direction) {
    case 'src':
      return source
    case 'dst':
      return destination
    case 'both':
      return both(source, destination)
    default:
      return (packets, i) => source(packets, i) || destination(packets, i)
  }
}

function both(a: PacketFilter, b: PacketFilter): PacketFilter {
  return (packets, i) => a(packets, i) && b(packets, i)
}
