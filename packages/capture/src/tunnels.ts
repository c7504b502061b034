/**
 * Tunnels in IP: from one decoded header to the one that it carries.
 *
 * Read: IP in IP (4, RFC 2003), IPv6 (41: 6in4, RFC 4213, and 6in6), GRE (47), AH over IPv4 (51, RFC 4302; in IPv6 it is
 * an extension header), and over UDP VXLAN, Geneve, GTP-U and Teredo. Only its port identifies a tunnel over UDP, so a
 * header that its protocol does not allow is no tunnel. Left out: L2TP, VXLAN-GPE, GRE with source routes.
 */
import { clearHeaders, decodeEthernet, decodeEtherType, decodePpp } from './ethernet.js'
import { decodeIpv4, decodeIpv6, decodeTransport, type FrameCursor, PROTOCOL_UDP, uint16 } from './ip.js'
import {
  IP_HEADER_INVALID,
  IP_HEADER_TRUNCATED,
  LINK_HEADER_TRUNCATED,
  NOT_IP,
  type PacketBatch,
} from './packet-batch.js'

/**
 * GRE (RFC 2784, 2890), its PPTP form (RFC 2637) and ERSPAN, whose payload is Ethernet.
 *
 * Flags: checksum 8000, key 2000, sequence 1000 (four bytes each); version 1 has an acknowledgement (0080) and carries
 * PPP. The protocol is an EtherType: 6558 bridges Ethernet, 88be is ERSPAN (type I without sequence number and header,
 * type II with eight bytes), 22eb type III (twelve bytes, eight more if the last bit is set; draft-foschiano-erspan).
 * Source routes (4000) are not read.
 */

const CHECKSUM = 0x8000
const ROUTING = 0x4000
const KEY = 0x2000
const SEQUENCE = 0x1000
const ACKNOWLEDGEMENT = 0x0080

function openGre(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const flags = uint16(data, at)
  const protocol = uint16(data, at + 2)
  const version = flags & 7
  if (version > 1 || (flags & ROUTING) !== 0) return NOT_IP
  let next = at + 4
  if ((flags & CHECKSUM) !== 0) next += 4
  if ((flags & KEY) !== 0) next += 4
  if ((flags & SEQUENCE) !== 0) next += 4
  if (version === 1) {
    if ((flags & ACKNOWLEDGEMENT) !== 0) next += 4
    return protocol === 0x880b ? decodePpp(frame, next) : NOT_IP
  }
  switch (protocol) {
    case 0x880b:
      return decodePpp(frame, next)
    case 0x6558:
      return decodeEthernet(frame, next)
    case 0x88be:
      return decodeEthernet(frame, (flags & SEQUENCE) === 0 ? next : next + 8)
    case 0x22eb:
      if (end - next < 12) return LINK_HEADER_TRUNCATED
      return decodeEthernet(frame, next + ((data[next + 11]! & 1) === 0 ? 12 : 20))
    default:
      return protocol <= 1500 ? NOT_IP : decodeEtherType(frame, protocol, next)
  }
}

/**
 * Tunnels over UDP: VXLAN, Geneve, GTP-U and Teredo.
 *
 * - VXLAN (RFC 7348), ports 4789 and 8472 (Linux before the registration): eight bytes with the I flag set, then
 *   Ethernet.
 * - Geneve (RFC 8926), port 6081: options in units of four bytes, then what the EtherType says.
 * - GTP-U (3GPP TS 29.281), port 2152: version 1; only message 255 (G-PDU) carries an IP packet, after four bytes of
 *   optional fields and a chain of extension headers in units of four.
 * - Teredo (RFC 4380), port 3544 of either end: perhaps an authentication and an origin indication, then IPv6.
 *
 * The destination port identifies the first three (RFC 7348, 5; RFC 8926, 3.3; TS 29.281, 4.4.2): the source port of a
 * tunnel is chosen freely, and a packet from the tunnel's port is no tunnel.
 */

const VXLAN = 4789
const VXLAN_LINUX = 8472
const GENEVE = 6081
const GTP_U = 2152
const TEREDO = 3544

function isUdpTunnel(sourcePort: number, destinationPort: number): boolean {
  switch (destinationPort) {
    case VXLAN:
    case VXLAN_LINUX:
    case GENEVE:
    case GTP_U:
    case TEREDO:
      return true
    default:
      return sourcePort === TEREDO
  }
}

/** @param at - where the UDP payload begins */
function openUdpTunnel(frame: FrameCursor, destinationPort: number, at: number): number {
  switch (destinationPort) {
    case VXLAN:
    case VXLAN_LINUX:
      if (frame.end - at < 8) return LINK_HEADER_TRUNCATED
      return (frame.data[at]! & 0x08) === 0 ? NOT_IP : decodeEthernet(frame, at + 8)
    case GENEVE:
      return openGeneve(frame, at)
    case GTP_U:
      return openGtpU(frame, at)
    default:
      return openTeredo(frame, at)
  }
}

function openGeneve(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  if (data[at]! >>> 6 !== 0) return NOT_IP
  const next = at + 8 + ((data[at]! & 0x3f) << 2)
  const protocol = uint16(data, at + 2)
  if (protocol === 0x6558) return decodeEthernet(frame, next)
  return protocol <= 1500 ? NOT_IP : decodeEtherType(frame, protocol, next)
}

function openGtpU(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  const flags = data[at]!
  // version 1, protocol type GTP
  if (flags >>> 4 !== 3 || data[at + 1] !== 255) return NOT_IP
  let next = at + 8
  if ((flags & 7) !== 0) {
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    let extension = (flags & 4) === 0 ? 0 : data[next + 3]!
    next += 4
    while (extension !== 0) {
      const size = next < end ? data[next]! << 2 : 0
      if (size === 0 || end - next < size) return LINK_HEADER_TRUNCATED
      extension = data[next + size - 1]!
      next += size
    }
  }
  if (next >= end) return LINK_HEADER_TRUNCATED
  const version = data[next]! >>> 4
  if (version === 4) return decodeIpv4(frame, next)
  return version === 6 ? decodeIpv6(frame, next) : NOT_IP
}

function openTeredo(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  let next = at
  if (end - next >= 4 && uint16(data, next) === 1) next += 13 + data[next + 2]! + data[next + 3]!
  if (end - next >= 8 && uint16(data, next) === 0) next += 8
  if (next >= end) return LINK_HEADER_TRUNCATED
  return data[next]! >>> 4 === 6 ? decodeIpv6(frame, next) : NOT_IP
}

const PROTOCOL_IPV4 = 4
const PROTOCOL_IPV6 = 41
const PROTOCOL_GRE = 47
const PROTOCOL_AH = 51

/** Whether packet k's protocol and ports are those of a tunnel. */
export function looksLikeTunnel(packets: PacketBatch, k: number): boolean {
  switch (packets.protocol[k]!) {
    case PROTOCOL_UDP:
      return isUdpTunnel(packets.sourcePort[k]!, packets.destinationPort[k]!)
    case PROTOCOL_IPV4:
    case PROTOCOL_IPV6:
    case PROTOCOL_GRE:
    case PROTOCOL_AH:
      return true
    default:
      return false
  }
}

/**
 * Decodes what packet k of `from`, which looks like a tunnel, carries into packet 0 of `into.packets`, which may be the
 * same batch. Returns the inner status; unless it is PACKET_OK, that packet holds nothing of use.
 * @param end - where the frame's captured bytes end
 */
export function openTunnel(
  data: Uint8Array,
  end: number,
  from: PacketBatch,
  k: number,
  into: FrameCursor,
): number {
  const protocol = from.protocol[k]!
  const at = from.transportOffset[k]!
  const destinationPort = from.destinationPort[k]!
  into.data = data
  into.start = at
  // what follows the IP packet is padding
  into.end = Math.min(end, from.ipOffset[k]! + from.ipBytes[k]!)
  into.depth = 0
  if (protocol === PROTOCOL_AH) return openAuthentication(from, k, into, at)
  // an inner length of 0 reaches to the end of the carrier
  into.packets.frameBytes[0] = 0
  clearHeaders(into.packets, 0)
  switch (protocol) {
    case PROTOCOL_IPV4:
      return decodeIpv4(into, at)
    case PROTOCOL_IPV6:
      return decodeIpv6(into, at)
    case PROTOCOL_GRE:
      return openGre(into, at)
    default:
      return openUdpTunnel(into, destinationPort, at + 8)
  }
}

function openAuthentication(from: PacketBatch, k: number, into: FrameCursor, at: number): number {
  const { data, end, packets } = into
  if (end - at < 12) return IP_HEADER_TRUNCATED
  const size = (data[at + 1]! + 2) << 2
  if (size < 12 || at + size > end) return IP_HEADER_INVALID
  copyHeaders(from, k, packets, 0)
  packets.protocol[0] = data[at]!
  return decodeTransport(into, data[at]!, at + size, packets.ipOffset[0]! + packets.ipBytes[0]!)
}

/** The columns from the IP header on; frame length, time and MAC addresses stay. */
export function copyHeaders(from: PacketBatch, k: number, to: PacketBatch, i: number): void {
  to.ipBytes[i] = from.ipBytes[k]!
  to.ipVersion[i] = from.ipVersion[k]!
  to.protocol[i] = from.protocol[k]!
  for (let w = 0; w < 4; w++) {
    to.sourceAddress[4 * i + w] = from.sourceAddress[4 * k + w]!
    to.destinationAddress[4 * i + w] = from.destinationAddress[4 * k + w]!
  }
  to.sourcePort[i] = from.sourcePort[k]!
  to.destinationPort[i] = from.destinationPort[k]!
  to.tcpFlags[i] = from.tcpFlags[k]!
  to.payloadBytes[i] = from.payloadBytes[k]!
  to.hopLimit[i] = from.hopLimit[k]!
  to.ipOffset[i] = from.ipOffset[k]!
  to.transportOffset[i] = from.transportOffset[k]!
}
