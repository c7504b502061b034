/**
 * PPP (RFC 1661, 1662), PPPoE sessions (RFC 2516) and Cisco's HDLC.
 *
 * Address and control (ff 03) may be left out, and so may the first byte of a protocol below 0x100, which an
 * odd first byte shows. IP (0021), IPv6 (0057) and MPLS (0281, 0283) are read; the rest (LCP, PAP, compressed
 * headers) carries no packet that could be keyed. Cisco HDLC (tcpdump.org, LINKTYPE_C_HDLC) is address 0f or
 * 8f, a zero and an EtherType.
 */
import { checkLinkHeader, decodeEtherType } from './ethernet.js'
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import { decodeMpls } from './mpls.js'
import type { PacketBatch } from './packet-batch.js'
import { PACKET_OK } from './packet-status.js'
import { LINK_HEADER_TRUNCATED, NOT_IP, PPPOE } from './status-codes.js'

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
