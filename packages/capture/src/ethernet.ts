/**
 * Ethernet II, VLAN tags, LLC with SNAP, MACsec without encryption, MPLS, PPP in its forms, and ARP's addresses.
 *
 * Source: IEEE 802.3 and 802.1Q (tags 8100, 88a8; 9100, 9200, 9300 as older outer tags), RFC 1042 (LLC/SNAP), RFC 826,
 * IEEE 802.1AE (88e5). Each tag is four captured bytes, so the frame's length bounds them. A type field of at most 1500
 * is a length, and an LLC header follows. Link headers inside each other are bounded by MAXIMUM_LINK_NESTING.
 */
import { decodeIpv4, decodeIpv6, type FrameCursor, int32, uint16 } from './ip.js'
import {
  ARP,
  LINK_HEADER_TRUNCATED,
  LINK_NESTING_EXCEEDED,
  MPLS,
  NOT_IP,
  PACKET_OK,
  type PacketBatch,
  PPPOE,
} from './packet-batch.js'

/** Zeros the columns of one packet from the IP header on. Scalar stores: `fill` costs ten times as much for one element. */
export function clearHeaders(packets: PacketBatch, i: number): void {
  packets.ipBytes[i] = 0
  packets.ipVersion[i] = 0
  packets.protocol[i] = 0
  for (let w = 4 * i; w < 4 * i + 4; w++) {
    packets.sourceAddress[w] = 0
    packets.destinationAddress[w] = 0
  }
  packets.sourcePort[i] = 0
  packets.destinationPort[i] = 0
  packets.tcpFlags[i] = 0
  packets.payloadBytes[i] = 0
  packets.hopLimit[i] = 0
  packets.ipOffset[i] = 0
  packets.transportOffset[i] = 0
}

/** Writes the MAC address at `at` for packet i of a column. */
export function copyMac(column: Uint8Array, i: number, data: Uint8Array, at: number): void {
  for (let b = 0; b < 6; b++) column[6 * i + b] = data[at + b]!
}

export function decodeEthernet(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 14) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, at)
  copyMac(packets.sourceMac, i, data, at + 6)
  return decodeEtherType(frame, uint16(data, at + 12), at + 14)
}

const MAXIMUM_LINK_NESTING = 8

/** PACKET_OK if a link header of this length may be read at `at`; otherwise the status that says why not. */
function checkLinkHeader({ depth, end }: FrameCursor, at: number, headerBytes: number): number {
  if (depth > MAXIMUM_LINK_NESTING) return LINK_NESTING_EXCEEDED
  return end - at < headerBytes ? LINK_HEADER_TRUNCATED : PACKET_OK
}

/** @param at - after the type field */
export function decodeEtherType(frame: FrameCursor, etherType: number, at: number): number {
  const { data, end, packets, i } = frame
  let type = etherType
  let next = at
  while (type === 0x8100 || type === 0x88a8 || type === 0x9100 || type === 0x9200 || type === 0x9300) {
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    const vlan = uint16(data, next) & 0xfff
    if (packets.vlan[i] === 0) packets.vlan[i] = vlan
    const tags = packets.vlanTags[i]! >>> 24
    if (tags < 2) packets.vlanTags[i]! += (1 << 24) | (vlan << (12 * tags))
    else if (tags < 255) packets.vlanTags[i]! += 1 << 24
    type = uint16(data, next + 2)
    next += 4
  }
  if (type === 0x0800) return decodeIpv4(frame, next)
  if (type === 0x86dd) return decodeIpv6(frame, next)
  return type === 0x0806 ? decodeArp(frame, next) : decodeRareEtherType(frame, type, next)
}

/** A separate function, so that the one for common types stays small enough to be inlined. */
function decodeRareEtherType(frame: FrameCursor, type: number, at: number): number {
  frame.depth++
  switch (type) {
    case 0x8847:
    case 0x8848:
      return decodeMpls(frame, at)
    case 0x8863:
      return PPPOE
    case 0x8864:
      return decodePppoe(frame, at)
    case 0x88e5:
      return decodeMacsec(frame, at)
    default:
      return type <= 1500 ? decodeLlc(frame, at) : NOT_IP
  }
}

export function decodeLlc(frame: FrameCursor, at: number): number {
  const refusal = checkLinkHeader(frame, at, 3)
  if (refusal !== PACKET_OK) return refusal
  const { data, end } = frame
  const saps = uint16(data, at)
  if (saps === 0x0606) return decodeIpv4(frame, at + 3)
  if (saps !== 0xaaaa) return NOT_IP
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  // Organisation 000000 is RFC 1042, 0000f8 the bridge tunnel of 802.1H: an EtherType follows both.
  if (uint16(data, at + 3) !== 0 || (data[at + 5]! !== 0 && data[at + 5]! !== 0xf8)) return NOT_IP
  return decodeTypedAt(frame, at + 6)
}

/** An EtherType at `at`, which is no length, and what follows it. */
export function decodeTypedAt(frame: FrameCursor, at: number): number {
  const type = uint16(frame.data, at)
  return type <= 1500 ? NOT_IP : decodeEtherType(frame, type, at + 2)
}

/** A MACsec tag of six bytes, or 14 with a channel; plain text follows only if neither encrypted nor changed. */
function decodeMacsec(frame: FrameCursor, at: number): number {
  const refusal = checkLinkHeader(frame, at, 1)
  if (refusal !== PACKET_OK) return refusal
  const control = frame.data[at]!
  // version 1, encrypted, or changed text
  if ((control & 0x8c) !== 0) return NOT_IP
  const next = at + ((control & 0x20) === 0 ? 6 : 14)
  if (frame.end - next < 2) return LINK_HEADER_TRUNCATED
  return decodeEtherType(frame, uint16(frame.data, next), next + 2)
}

/** Sender and target of IPv4 over a six-byte hardware address become source and destination. */
function decodeArp({ data, end, packets, i }: FrameCursor, at: number): number {
  if (end - at >= 28 && uint16(data, at + 2) === 0x0800 && data[at + 4]! === 6) {
    packets.sourceAddress[4 * i + 3] = int32(data, at + 14)
    packets.destinationAddress[4 * i + 3] = int32(data, at + 24)
  }
  return ARP
}

/**
 * PPP (RFC 1661, 1662), PPPoE sessions (RFC 2516) and Cisco's HDLC.
 *
 * Address and control (ff 03) may be left out, and so may the first byte of a protocol below 0x100, recognized by an odd
 * first byte. IP (0021), IPv6 (0057) and MPLS (0281, 0283) are read; other protocols carry no packet with a key. Cisco
 * HDLC (tcpdump.org, LINKTYPE_C_HDLC) is address 0f or 8f, a zero and an EtherType.
 */
export function decodePpp(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  let next = at
  if (end - next >= 2 && uint16(data, next) === 0xff03) next += 2
  if (next >= end) return LINK_HEADER_TRUNCATED
  let protocol = data[next++]!
  if ((protocol & 1) === 0) {
    if (next >= end) return LINK_HEADER_TRUNCATED
    protocol = (protocol << 8) | data[next++]!
  }
  switch (protocol) {
    case 0x0021:
      return decodeIpv4(frame, next)
    case 0x0057:
      return decodeIpv6(frame, next)
    case 0x0281:
    case 0x0283:
      frame.depth++
      return decodeMpls(frame, next)
    default:
      return NOT_IP
  }
}

/** After EtherType 8864, or as LINKTYPE_PPP_ETHER. */
export function decodePppoe(frame: FrameCursor, at: number): number {
  const refusal = checkLinkHeader(frame, at, 6)
  if (refusal !== PACKET_OK) return refusal
  // version 1, type 1, code 0: session data
  if (uint16(frame.data, at) !== 0x1100) return PPPOE
  const status = decodePpp(frame, at + 6)
  return status === NOT_IP ? PPPOE : status
}

export function decodeCiscoHdlc(frame: FrameCursor, at: number): number {
  return frame.end - at < 4 ? LINK_HEADER_TRUNCATED : decodeTypedAt(frame, at + 2)
}

/** LINKTYPE_PPP_HDLC holds either: RFC 1662, or Cisco's if the address is 0f or 8f. */
export function decodePppHdlc(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  const isCisco = at < end && (data[at] === 0x0f || data[at] === 0x8f)
  return isCisco ? decodeCiscoHdlc(frame, at) : decodePpp(frame, at)
}

/**
 * MPLS label stacks (RFC 3032) and what they carry.
 *
 * No label says what follows the stack. As in routers and analysers the first four bits decide: 4 and 6 are IP, 0 is a
 * control word (RFC 4385) before an Ethernet pseudowire, 1 an associated channel (RFC 5586), all else an Ethernet
 * pseudowire without control word (RFC 4448). Most makers' addresses begin with a 0 too: if nothing known follows a
 * control word, there is none. Each label is four captured bytes, so the frame's length bounds the stack. MAC addresses
 * inside are not shown.
 */
export function decodeMpls(frame: FrameCursor, at: number): number {
  const refusal = checkLinkHeader(frame, at, 4)
  if (refusal !== PACKET_OK) return refusal
  const { data, end, depth } = frame
  let next = at
  let bottom = false
  while (!bottom) {
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    bottom = (data[next + 2]! & 1) !== 0
    next += 4
  }
  if (next >= end) return LINK_HEADER_TRUNCATED
  const first = data[next]! >>> 4
  if (first === 4) return decodeIpv4(frame, next)
  if (first === 6) return decodeIpv6(frame, next)
  if (first === 1) return MPLS
  if (first === 0) {
    const status = decodePseudowire(frame, next + 4)
    // A label stack there gives MPLS, so at most one of the two readings is followed down.
    if (status !== NOT_IP) return status
    frame.depth = depth
  }
  const status = decodePseudowire(frame, next)
  return status === NOT_IP ? MPLS : status
}

function decodePseudowire(frame: FrameCursor, at: number): number {
  if (frame.end - at < 14) return LINK_HEADER_TRUNCATED
  return decodeEtherType(frame, uint16(frame.data, at + 12), at + 14)
}
