/**
 * Ethernet II, VLAN tags, LLC with SNAP, and ARP's addresses.
 *
 * Source: IEEE 802.3 and 802.1Q (tags 8100, 88a8, and the older 9100, 9200, 9300 for the outer one), RFC
 * 1042 (LLC/SNAP), RFC 826, IEEE 802.1AE (88e5). Any number of tags is passed: each is four captured bytes,
 * so the frame's own length is the bound. A type field below 1536 is a length and an LLC header follows;
 * 1501 … 1535 is neither. Where link headers stand within each other (SNAP in a tag, Ethernet in MPLS), every
 * step adds one to `depth`, and MAXIMUM_LINK_NESTING ends it.
 */
import { decodeIpv4, decodeIpv6 } from './ip.js'
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

/**
 * clearHeaders: 0 in all columns of one packet from the IP header on, for decoders that fill only what they find.
 *
 * Scalar stores, since `fill` costs ten times as much for one element.
 */

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

/** Most link headers within one another that are read. */
const MAXIMUM_LINK_NESTING = 8

export function decodeEthernet(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 14) return LINK_HEADER_TRUNCATED
  const { destinationMac, sourceMac } = packets
  for (let b = 0; b < 6; b++) {
    destinationMac[6 * i + b] = data[at + b]!
    sourceMac[6 * i + b] = data[at + 6 + b]!
  }
  const type = (data[at + 12]! << 8) | data[at + 13]!
  return decodeEtherType(type, data, at + 14, end, at, packets, i, 0)
}

/** PACKET_OK where a link header of so many bytes may be read, `depth` others before it; else the status that says why not. */
function checkLinkHeader(depth: number, capturedBytes: number, headerBytes: number): number {
  if (depth > MAXIMUM_LINK_NESTING) return LINK_NESTING_EXCEEDED
  return capturedBytes < headerBytes ? LINK_HEADER_TRUNCATED : PACKET_OK
}

/** @param at behind the type field. @param frame where the frame begins. @param depth link headers before it */
export function decodeEtherType(
  etherType: number,
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  let type = etherType
  let next = at
  while (type === 0x8100 || type === 0x88a8 || type === 0x9100 || type === 0x9200 || type === 0x9300) {
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    const vlan = ((data[next]! & 0x0f) << 8) | data[next + 1]!
    if (packets.vlan[i] === 0) packets.vlan[i] = vlan
    const tags = packets.vlanTags[i]! >>> 24
    if (tags < 2) packets.vlanTags[i]! += (1 << 24) | (vlan << (12 * tags))
    else if (tags < 255) packets.vlanTags[i]! += 1 << 24
    type = (data[next + 2]! << 8) | data[next + 3]!
    next += 4
  }
  switch (type) {
    case 0x0800:
      return decodeIpv4(data, next, end, frame, packets, i)
    case 0x86dd:
      return decodeIpv6(data, next, end, frame, packets, i)
    case 0x0806:
      return decodeArp(data, next, end, packets, i)
    default:
      return decodeRareEtherType(type, data, next, end, frame, packets, i, depth)
  }
}

/** Apart from the common ones, so that their function stays small enough to be inlined. */
function decodeRareEtherType(
  type: number,
  data: Uint8Array,
  next: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  switch (type) {
    case 0x8847:
    case 0x8848:
      return decodeMpls(data, next, end, frame, packets, i, depth + 1)
    case 0x8863:
      return PPPOE
    case 0x8864:
      return decodePppoe(data, next, end, frame, packets, i, depth + 1)
    case 0x88e5:
      return decodeMacsec(data, next, end, frame, packets, i, depth + 1)
    default:
      return type <= 1500 ? decodeLlc(data, next, end, frame, packets, i, depth + 1) : NOT_IP
  }
}

export function decodeLlc(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  const refusal = checkLinkHeader(depth, end - at, 3)
  if (refusal !== PACKET_OK) return refusal
  const dsap = data[at]!
  const ssap = data[at + 1]!
  if (dsap === 0x06 && ssap === 0x06) return decodeIpv4(data, at + 3, end, frame, packets, i)
  if (dsap !== 0xaa || ssap !== 0xaa) return NOT_IP
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  // organisation 000000 is RFC 1042, 0000f8 the bridge tunnel of 802.1H: both carry an EtherType
  if (data[at + 3]! !== 0 || data[at + 4]! !== 0 || (data[at + 5]! !== 0 && data[at + 5]! !== 0xf8))
    return NOT_IP
  const type = (data[at + 6]! << 8) | data[at + 7]!
  return type <= 1500 ? NOT_IP : decodeEtherType(type, data, at + 8, end, frame, packets, i, depth)
}

/** A MACsec tag: six bytes, eight more of a channel; behind it plain text only where nothing is changed. */
function decodeMacsec(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  const refusal = checkLinkHeader(depth, end - at, 1)
  if (refusal !== PACKET_OK) return refusal
  const control = data[at]!
  // version 1, or encrypted, or changed text
  if ((control & 0x8c) !== 0) return NOT_IP
  const next = at + ((control & 0x20) === 0 ? 6 : 14)
  if (end - next < 2) return LINK_HEADER_TRUNCATED
  return decodeEtherType((data[next]! << 8) | data[next + 1]!, data, next + 2, end, frame, packets, i, depth)
}

/** Sender and target of IPv4 over a six-byte hardware address stand as source and destination. */
function decodeArp(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at >= 28 && data[at + 2]! === 0x08 && data[at + 3]! === 0 && data[at + 4]! === 6) {
    packets.sourceAddress[4 * i + 3] = word(data, at + 14)
    packets.destinationAddress[4 * i + 3] = word(data, at + 24)
  }
  return ARP
}

function word(data: Uint8Array, at: number): number {
  return (data[at]! << 24) | (data[at + 1]! << 16) | (data[at + 2]! << 8) | data[at + 3]!
}

/**
 * PPP (RFC 1661, 1662), PPPoE sessions (RFC 2516) and Cisco's HDLC.
 *
 * Address and control (ff 03) may be left out, and so may the first byte of a protocol below 0x100, which an
 * odd first byte shows. IP (0021), IPv6 (0057) and MPLS (0281, 0283) are read; the rest (LCP, PAP, compressed
 * headers) carries no packet that could be keyed. Cisco HDLC (tcpdump.org, LINKTYPE_C_HDLC) is address 0f or
 * 8f, a zero and an EtherType.
 */

/** @param frame where the frame begins. @param depth link headers before it */
export function decodePpp(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  let next = at
  if (end - next >= 2 && data[next] === 0xff && data[next + 1] === 0x03) next += 2
  if (next >= end) return LINK_HEADER_TRUNCATED
  let protocol = data[next++]!
  if ((protocol & 1) === 0) {
    if (next >= end) return LINK_HEADER_TRUNCATED
    protocol = (protocol << 8) | data[next++]!
  }
  switch (protocol) {
    case 0x0021:
      return decodeIpv4(data, next, end, frame, packets, i)
    case 0x0057:
      return decodeIpv6(data, next, end, frame, packets, i)
    case 0x0281:
    case 0x0283:
      return decodeMpls(data, next, end, frame, packets, i, depth + 1)
    default:
      return NOT_IP
  }
}

/** Behind EtherType 8864, or LINKTYPE_PPP_ETHER. */
export function decodePppoe(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  const refusal = checkLinkHeader(depth, end - at, 6)
  if (refusal !== PACKET_OK) return refusal
  // version 1, type 1, code 0: session data
  if (data[at] !== 0x11 || data[at + 1] !== 0) return PPPOE
  const status = decodePpp(data, at + 6, end, frame, packets, i, depth)
  return status === NOT_IP ? PPPOE : status
}

export function decodeCiscoHdlc(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const type = (data[at + 2]! << 8) | data[at + 3]!
  return type <= 1500 ? NOT_IP : decodeEtherType(type, data, at + 4, end, at, packets, i, depth)
}

/** LINKTYPE_PPP_HDLC holds either: RFC 1662, or Cisco's where the address is 0f or 8f. */
export function decodePppHdlc(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  return at < end && (data[at] === 0x0f || data[at] === 0x8f)
    ? decodeCiscoHdlc(data, at, end, packets, i, depth)
    : decodePpp(data, at, end, at, packets, i, depth)
}

/**
 * MPLS label stacks (RFC 3032), passed to what they carry.
 *
 * Nothing in a label says what follows the stack; as routers and analysers do, the first four bits tell: 4
 * and 6 are IP, 0 is a control word (RFC 4385) before an Ethernet pseudowire, 1 is an associated channel
 * (RFC 5586), anything else is taken for an Ethernet pseudowire without control word (RFC 4448). Most makers'
 * addresses begin with a 0 too: where nothing known lies behind a control word, there is none. Each label is
 * four captured bytes, so a stack without an end stops at the frame's. MAC addresses within are not shown.
 */

/** @param frame where the frame begins. @param depth link headers before it */
export function decodeMpls(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  const refusal = checkLinkHeader(depth, end - at, 4)
  if (refusal !== PACKET_OK) return refusal
  let next = at
  let bottom = false
  while (!bottom) {
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    bottom = (data[next + 2]! & 1) !== 0
    next += 4
  }
  if (next >= end) return LINK_HEADER_TRUNCATED
  switch (data[next]! >>> 4) {
    case 4:
      return decodeIpv4(data, next, end, frame, packets, i)
    case 6:
      return decodeIpv6(data, next, end, frame, packets, i)
    case 0: {
      const behind = decodePseudowire(data, next + 4, end, frame, packets, i, depth)
      // a label stack behind it says MPLS, so that no more than one of two is followed down
      return behind === NOT_IP ? orMpls(decodePseudowire(data, next, end, frame, packets, i, depth)) : behind
    }
    case 1:
      return MPLS
    default:
      return orMpls(decodePseudowire(data, next, end, frame, packets, i, depth))
  }
}

function decodePseudowire(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at < 14) return LINK_HEADER_TRUNCATED
  const type = (data[at + 12]! << 8) | data[at + 13]!
  return decodeEtherType(type, data, at + 14, end, frame, packets, i, depth)
}

/** What is not IP behind labels is MPLS. */
function orMpls(status: number): number {
  return status === NOT_IP ? MPLS : status
}
