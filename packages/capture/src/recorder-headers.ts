/**
 * Headers that devices and recorders put before a frame whose kind is known: a link layer within a link layer.
 *
 * - Juniper's interfaces (178, 167 Ethernet; 179 PPP; 180 Frame Relay; 181 Cisco HDLC): "MGC", flags, and where 80 is
 *   among these an extension with its length in front. 02 means that the link header was left out; of what kind the
 *   packet is then is not read.
 * - ERF (197, Endace): sixteen bytes, headers of eight more while the first bit of the one before says so, and by its
 *   type Ethernet behind two bytes of padding, PPP or Cisco HDLC, IPv4 or IPv6.
 * - PKTAP (258, Darwin): its length and a link type, little-endian.
 * - TZSP (128): version 1, a type, a link layer's number, and tagged fields up to the one that ends them.
 * - EPON (259): a preamble of eight bytes before Ethernet.
 */
import { decodeCiscoHdlc, decodeEthernet, decodeEtherType, decodePpp, decodePppHdlc } from './ethernet.js'
import { decodeIpv4, decodeIpv6 } from './ip.js'
import { LINK_HEADER_TRUNCATED, LINK_TYPE_UNSUPPORTED, NOT_IP, type PacketBatch } from './packet-batch.js'

/**
 * Frame Relay (ITU-T Q.922) with what it carries by RFC 2427, or Cisco's way.
 *
 * An address of two to four bytes, of which the last one is odd; then either 03 (unnumbered) and a protocol's byte, cc
 * for IPv4, 8e for IPv6, 80 for SNAP, perhaps a zero before it; or an EtherType, as Cisco's routers have it. SNAP's
 * organisation 0080c2 with 0001 or 0007 is bridged Ethernet.
 */

const UNNUMBERED = 0x03

export function decodeFrameRelay(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  let next = at + 1
  while (next < end && (data[next]! & 1) === 0) if (++next - at > 3) return NOT_IP
  next++
  if (end - next < 2) return LINK_HEADER_TRUNCATED
  if (data[next] !== UNNUMBERED) {
    const type = (data[next]! << 8) | data[next + 1]!
    return type <= 1500 ? NOT_IP : decodeEtherType(type, data, next + 2, end, at, packets, i, 0)
  }
  next++
  if (data[next] === 0) next++
  if (next >= end) return LINK_HEADER_TRUNCATED
  switch (data[next]) {
    case 0xcc:
      return decodeIpv4(data, next + 1, end, at, packets, i)
    case 0x8e:
      return decodeIpv6(data, next + 1, end, at, packets, i)
    case 0x80:
      return decodeSnap(data, next + 1, end, at, packets, i)
    default:
      return NOT_IP
  }
}

function decodeSnap(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 5) return LINK_HEADER_TRUNCATED
  const organisation = (data[at]! << 16) | (data[at + 1]! << 8) | data[at + 2]!
  const type = (data[at + 3]! << 8) | data[at + 4]!
  if (organisation === 0x0080c2 && (type === 1 || type === 7)) {
    return decodeEthernet(data, at + 5, end, packets, i)
  }
  return organisation === 0 && type > 1500
    ? decodeEtherType(type, data, at + 5, end, frame, packets, i, 0)
    : NOT_IP
}

const JUNIPER_EXTENSION = 0x80
const JUNIPER_NO_LINK_HEADER = 0x02

export function decodeJuniper(
  linkType: number,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  if (data[at] !== 0x4d || data[at + 1] !== 0x47 || data[at + 2] !== 0x43) return NOT_IP
  const flags = data[at + 3]!
  let next = at + 4
  if ((flags & JUNIPER_EXTENSION) !== 0) {
    if (end - next < 2) return LINK_HEADER_TRUNCATED
    next += 2 + ((data[next]! << 8) | data[next + 1]!)
    if (next > end) return LINK_HEADER_TRUNCATED
  }
  if ((flags & JUNIPER_NO_LINK_HEADER) !== 0) return NOT_IP
  switch (linkType) {
    case 179:
      return decodePpp(data, next, end, at, packets, i, 0)
    case 180:
      return decodeFrameRelay(data, next, end, packets, i)
    case 181:
      return decodeCiscoHdlc(data, next, end, packets, i, 0)
    default:
      return decodeEthernet(data, next, end, packets, i)
  }
}

export function decodeErf(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 16) return LINK_HEADER_TRUNCATED
  let next = at + 16
  let hasMore = (data[at + 8]! & 0x80) !== 0
  while (hasMore) {
    if (end - next < 8) return LINK_HEADER_TRUNCATED
    hasMore = (data[next]! & 0x80) !== 0
    next += 8
  }
  switch (data[at + 8]! & 0x7f) {
    // POS, and with colours and hashes
    case 1:
    case 10:
    case 15:
    case 19:
      return decodePppHdlc(data, next, end, packets, i, 0)
    // Ethernet, and the same
    case 2:
    case 11:
    case 16:
    case 20:
      return end - next < 2 ? LINK_HEADER_TRUNCATED : decodeEthernet(data, next + 2, end, packets, i)
    case 22:
      return decodeIpv4(data, next, end, at, packets, i)
    case 23:
      return decodeIpv6(data, next, end, at, packets, i)
    default:
      return NOT_IP
  }
}

/** A frame behind a header that says its link type. */
type DecodeWithin = (
  linkType: number,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
) => number

/** @param decodeWithin for the frame; a PKTAP or PPI header within one is not read, so that they cannot be stacked */
export function decodePktap(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  decodeWithin: DecodeWithin,
): number {
  if (end - at < 12) return LINK_HEADER_TRUNCATED
  const headerBytes = littleWord(data, at)
  const linkType = littleWord(data, at + 8)
  if (headerBytes < 12) return NOT_IP
  if (headerBytes > end - at) return LINK_HEADER_TRUNCATED
  if (linkType === 258 || linkType === 192) return LINK_TYPE_UNSUPPORTED
  return decodeWithin(linkType, data, at + headerBytes, end, packets, i)
}

/** What TZSP calls link layers, as LINKTYPE_ values. */
const TZSP_LINK_TYPES: Readonly<Record<number, number>> = { 1: 1, 6: 6, 9: 9, 18: 105, 119: 119, 127: 163 }

/** @param decodeWithin for the frame */
export function decodeTzsp(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  decodeWithin: DecodeWithin,
): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const linkType = TZSP_LINK_TYPES[(data[at + 2]! << 8) | data[at + 3]!]
  // type 0 and 1 carry frames
  if (data[at] !== 1 || data[at + 1]! > 1 || linkType === undefined) return NOT_IP
  let next = at + 4
  for (;;) {
    if (next >= end) return LINK_HEADER_TRUNCATED
    const tag = data[next++]!
    if (tag === 1) break
    if (tag === 0) continue
    if (next >= end) return LINK_HEADER_TRUNCATED
    next += 1 + data[next]!
  }
  return decodeWithin(linkType, data, next, end, packets, i)
}

export function decodeEpon(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  return end - at < 8 ? LINK_HEADER_TRUNCATED : decodeEthernet(data, at + 8, end, packets, i)
}

function littleWord(data: Uint8Array, at: number): number {
  return (data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24)) >>> 0
}
