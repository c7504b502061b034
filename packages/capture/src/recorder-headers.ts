/**
 * Headers that devices and recorders put before a frame or packet of a known kind.
 *
 * - NULL, LOOP, OpenBSD's ENC (IPsec) and PFLOG (the packet filter's log) and Solaris' IPNET name an address family. The
 *   family of NULL and ENC is four bytes in the recorder's byte order; ENC adds an SPI and flags. PFLOG begins with its
 *   own length, padded to a multiple of four, and the family. IPNET has 24 bytes with families of its own.
 * - NFLOG (netfilter): family, version 0, a resource number, attributes of (length, type) in the recorder's byte order;
 *   type 9 is the packet. Each attribute has at least four bytes, so the frame's length bounds the walk.
 * - Juniper (178, 167 Ethernet; 179 PPP; 180 Frame Relay; 181 Cisco HDLC): "MGC", flags, and with flag 80 an extension
 *   preceded by its length. Flag 02 says that the link header is left out; such packets are not read.
 * - ERF (197, Endace): 16 bytes, 8 more while the first bit of the header before is set, then by type Ethernet after two
 *   bytes of padding, PPP or Cisco HDLC, IPv4 or IPv6.
 * - Frame Relay (ITU-T Q.922): an address of two to four bytes, the last one odd; then RFC 2427 (03 and a protocol: cc
 *   IPv4, 8e IPv6, 80 SNAP, perhaps after a zero) or an EtherType, as Cisco's routers write it. SNAP's organisation
 *   0080c2 with 0001 or 0007 is bridged Ethernet.
 * - EPON (259): a preamble of eight bytes before Ethernet.
 *
 * Sources: tcpdump.org/linktypes.
 */
import { decodeEthernet, decodeEtherType, decodePppHdlc, decodeTypedAt } from './ethernet.js'
import { type Decode, decodeIpv4, decodeIpv6, type FrameCursor, uint16 } from './ip.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './packet-batch.js'
import { eitherOrder } from './wlan.js'

const IPNET_BYTES = 24
const IPNET_IPV4 = 2
const IPNET_IPV6 = 26

/** NULL and LOOP. */
export function decodeLoopback(frame: FrameCursor, at: number): number {
  return decodeFamilyWord(frame, at, 4)
}

export function decodeEnc(frame: FrameCursor, at: number): number {
  return decodeFamilyWord(frame, at, 12)
}

export function decodePflog(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 2) return LINK_HEADER_TRUNCATED
  const headerBytes = (data[at]! + 3) & ~3
  if (headerBytes < 4) return NOT_IP
  if (end - at < headerBytes) return LINK_HEADER_TRUNCATED
  return decodeFamily(frame, data[at + 1]!, at + headerBytes)
}

export function decodeIpnet(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < IPNET_BYTES) return LINK_HEADER_TRUNCATED
  if (data[at] !== 1) return NOT_IP
  if (data[at + 1] === IPNET_IPV4) return decodeIpv4(frame, at + IPNET_BYTES)
  return data[at + 1] === IPNET_IPV6 ? decodeIpv6(frame, at + IPNET_BYTES) : NOT_IP
}

function decodeFamilyWord(frame: FrameCursor, at: number, headerBytes: number): number {
  if (frame.end - at < headerBytes) return LINK_HEADER_TRUNCATED
  return decodeFamily(frame, eitherOrder(frame.data, at), at + headerBytes)
}

function decodeFamily(frame: FrameCursor, family: number, at: number): number {
  switch (family) {
    case 2:
      return decodeIpv4(frame, at)
    // AF_INET6 of Linux, the BSDs, FreeBSD and Darwin
    case 10:
    case 24:
    case 28:
    case 30:
      return decodeIpv6(frame, at)
    default:
      return NOT_IP
  }
}

const NFLOG_PAYLOAD = 9

export function decodeNflog(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const family = data[at]!
  let next = at + 4
  // 1 if the low byte is the second one: the first length is small
  const low = next < end && data[next]! === 0 ? 1 : 0
  while (end - next >= 4) {
    const length = data[next + low]! | (data[next + 1 - low]! << 8)
    const type = data[next + 2 + low]! | (data[next + 3 - low]! << 8)
    if (length < 4) return NOT_IP
    if ((type & 0x7fff) === NFLOG_PAYLOAD) {
      frame.end = Math.min(end, next + length)
      if (family === 2) return decodeIpv4(frame, next + 4)
      return family === 10 ? decodeIpv6(frame, next + 4) : NOT_IP
    }
    next += (length + 3) & ~3
  }
  return NOT_IP
}

const UNNUMBERED = 0x03

export function decodeFrameRelay(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  let next = at + 1
  while (next < end && (data[next]! & 1) === 0) if (++next - at > 3) return NOT_IP
  next++
  if (end - next < 2) return LINK_HEADER_TRUNCATED
  if (data[next] !== UNNUMBERED) return decodeTypedAt(frame, next)
  next++
  if (data[next] === 0) next++
  if (next >= end) return LINK_HEADER_TRUNCATED
  if (data[next] === 0xcc) return decodeIpv4(frame, next + 1)
  if (data[next] === 0x8e) return decodeIpv6(frame, next + 1)
  return data[next] === 0x80 ? decodeSnap(frame, next + 1) : NOT_IP
}

function decodeSnap(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 5) return LINK_HEADER_TRUNCATED
  const organisation = (data[at]! << 16) | uint16(data, at + 1)
  const type = uint16(data, at + 3)
  if (organisation === 0x0080c2 && (type === 1 || type === 7)) return decodeEthernet(frame, at + 5)
  return organisation === 0 && type > 1500 ? decodeEtherType(frame, type, at + 5) : NOT_IP
}

const JUNIPER_EXTENSION = 0x80
const JUNIPER_NO_LINK_HEADER = 0x02

/** @param decodeWithin - for the link header that follows */
export function decodeJuniper(decodeWithin: Decode): Decode {
  return (frame, at) => {
    const { data, end } = frame
    if (end - at < 4) return LINK_HEADER_TRUNCATED
    if (data[at] !== 0x4d || data[at + 1] !== 0x47 || data[at + 2] !== 0x43) return NOT_IP
    const flags = data[at + 3]!
    let next = at + 4
    if ((flags & JUNIPER_EXTENSION) !== 0) {
      if (end - next < 2) return LINK_HEADER_TRUNCATED
      next += 2 + uint16(data, next)
      if (next > end) return LINK_HEADER_TRUNCATED
    }
    return (flags & JUNIPER_NO_LINK_HEADER) === 0 ? decodeWithin(frame, next) : NOT_IP
  }
}

export function decodeErf(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 16) return LINK_HEADER_TRUNCATED
  let next = at + 16
  let hasMore = (data[at + 8]! & 0x80) !== 0
  while (hasMore) {
    if (end - next < 8) return LINK_HEADER_TRUNCATED
    hasMore = (data[next]! & 0x80) !== 0
    next += 8
  }
  switch (data[at + 8]! & 0x7f) {
    // POS, also with colours and hashes
    case 1:
    case 10:
    case 15:
    case 19:
      return decodePppHdlc(frame, next)
    // Ethernet, also with colours and hashes
    case 2:
    case 11:
    case 16:
    case 20:
      return end - next < 2 ? LINK_HEADER_TRUNCATED : decodeEthernet(frame, next + 2)
    case 22:
      return decodeIpv4(frame, next)
    case 23:
      return decodeIpv6(frame, next)
    default:
      return NOT_IP
  }
}

export function decodeEpon(frame: FrameCursor, at: number): number {
  return frame.end - at < 8 ? LINK_HEADER_TRUNCATED : decodeEthernet(frame, at + 8)
}
