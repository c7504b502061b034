/**
 * Tunnels in IP: from one decoded header to the one that it carries.
 *
 * Read: IP in IP (4, RFC 2003), IPv6 (41: 6in4, RFC 4213, and 6in6), GRE (47), AH over IPv4 (51, RFC 4302; in
 * IPv6 it is an extension header and passed anyway), and over UDP VXLAN, Geneve, GTP-U and Teredo. A tunnel
 * over UDP is told by its port alone, so a header that its protocol does not admit is no tunnel. Left out:
 * L2TP, VXLAN-GPE, GRE with source routes.
 */
import { clearHeaders, decodeEthernet, decodeEtherType, decodePpp } from './ethernet.js'
import { decodeIpv4, decodeIpv6, decodeTransport, PROTOCOL_UDP } from './ip.js'
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
 * Flags: checksum (c000 takes four bytes with either bit), key 2000, sequence 1000; version 1 has an
 * acknowledgement (0080) and PPP within. The protocol is an EtherType: 6558 bridges Ethernet, 88be is ERSPAN
 * (type I without a sequence number and without a header, type II with eight bytes), 22eb type III (twelve
 * bytes, eight more where the last bit says so; draft-foschiano-erspan). Source routes (4000) end it.
 */

const CHECKSUM = 0x8000
const ROUTING = 0x4000
const KEY = 0x2000
const SEQUENCE = 0x1000
const ACKNOWLEDGEMENT = 0x0080

/** Fills packet 0 of `into` from what the GRE header at `at` carries; returns its status. */
function openGre(data: Uint8Array, at: number, end: number, into: PacketBatch): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const flags = (data[at]! << 8) | data[at + 1]!
  const protocol = (data[at + 2]! << 8) | data[at + 3]!
  const version = flags & 7
  if (version > 1 || (flags & ROUTING) !== 0) return NOT_IP
  let next = at + 4
  if ((flags & CHECKSUM) !== 0) next += 4
  if ((flags & KEY) !== 0) next += 4
  if ((flags & SEQUENCE) !== 0) next += 4
  if (version === 1) {
    if ((flags & ACKNOWLEDGEMENT) !== 0) next += 4
    return protocol === 0x880b ? decodePpp(data, next, end, next, into, 0, 0) : NOT_IP
  }
  switch (protocol) {
    case 0x880b:
      return decodePpp(data, next, end, next, into, 0, 0)
    case 0x6558:
      return decodeEthernet(data, next, end, into, 0)
    case 0x88be:
      return decodeEthernet(data, (flags & SEQUENCE) === 0 ? next : next + 8, end, into, 0)
    case 0x22eb: {
      if (end - next < 12) return LINK_HEADER_TRUNCATED
      return decodeEthernet(data, next + ((data[next + 11]! & 1) === 0 ? 12 : 20), end, into, 0)
    }
    default:
      return protocol <= 1500 ? NOT_IP : decodeEtherType(protocol, data, next, end, next, into, 0, 0)
  }
}

/**
 * Tunnels over UDP: VXLAN, Geneve, GTP-U and Teredo.
 *
 * - VXLAN (RFC 7348), ports 4789 and 8472 (Linux before the registration): eight bytes with the I flag set,
 *   then Ethernet.
 * - Geneve (RFC 8926), port 6081: options in units of four bytes, then what the EtherType says.
 * - GTP-U (3GPP TS 29.281), port 2152: version 1; of its messages only 255 (G-PDU) carries an IP packet, behind
 *   four bytes of optional fields and a chain of extension headers in units of four.
 * - Teredo (RFC 4380), port 3544 of either end: perhaps an authentication and an origin indication, then IPv6.
 *
 * The first three are told by the destination port (RFC 7348, 5; RFC 8926, 3.3; TS 29.281, 4.4.2): the source
 * port of a tunnel is chosen freely, and a packet that comes from its port is not one.
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

/** Fills packet 0 of `into` from data[at … end), the UDP payload; returns its status. */
function openUdpTunnel(
  data: Uint8Array,
  at: number,
  end: number,
  destinationPort: number,
  into: PacketBatch,
): number {
  switch (destinationPort) {
    case VXLAN:
    case VXLAN_LINUX:
      if (end - at < 8) return LINK_HEADER_TRUNCATED
      return (data[at]! & 0x08) === 0 ? NOT_IP : decodeEthernet(data, at + 8, end, into, 0)
    case GENEVE:
      return openGeneve(data, at, end, into)
    case GTP_U:
      return openGtpU(data, at, end, into)
    default:
      return openTeredo(data, at, end, into)
  }
}

function openGeneve(data: Uint8Array, at: number, end: number, into: PacketBatch): number {
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  if (data[at]! >>> 6 !== 0) return NOT_IP
  const next = at + 8 + ((data[at]! & 0x3f) << 2)
  const protocol = (data[at + 2]! << 8) | data[at + 3]!
  if (protocol === 0x6558) return decodeEthernet(data, next, end, into, 0)
  return protocol <= 1500 ? NOT_IP : decodeEtherType(protocol, data, next, end, next, into, 0, 0)
}

function openGtpU(data: Uint8Array, at: number, end: number, into: PacketBatch): number {
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
  if (version === 4) return decodeIpv4(data, next, end, next, into, 0)
  return version === 6 ? decodeIpv6(data, next, end, next, into, 0) : NOT_IP
}

function openTeredo(data: Uint8Array, at: number, end: number, into: PacketBatch): number {
  let next = at
  if (end - next >= 4 && data[next] === 0 && data[next + 1] === 1) {
    next += 13 + data[next + 2]! + data[next + 3]!
  }
  if (end - next >= 8 && data[next] === 0 && data[next + 1] === 0) next += 8
  if (next >= end) return LINK_HEADER_TRUNCATED
  return data[next]! >>> 4 === 6 ? decodeIpv6(data, next, end, next, into, 0) : NOT_IP
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
 * Decodes what packet k of `from`, which looks like a tunnel, carries into packet 0 of `into`, which may be the same batch. Returns the
 * inner status; where it is not PACKET_OK, `into` holds nothing of use.
 * @param end where the frame's captured bytes end
 */
export function openTunnel(
  data: Uint8Array,
  end: number,
  from: PacketBatch,
  k: number,
  into: PacketBatch,
): number {
  const protocol = from.protocol[k]!
  const at = from.transportOffset[k]!
  // what lies behind the IP packet is padding
  const stop = Math.min(end, from.ipOffset[k]! + from.ipBytes[k]!)
  const destinationPort = from.destinationPort[k]!
  if (protocol === PROTOCOL_AH) return openAuthentication(data, at, stop, from, k, into)
  // an inner length of 0 reaches to the end of what carries it
  into.frameBytes[0] = 0
  clearHeaders(into, 0)
  switch (protocol) {
    case PROTOCOL_IPV4:
      return decodeIpv4(data, at, stop, at, into, 0)
    case PROTOCOL_IPV6:
      return decodeIpv6(data, at, stop, at, into, 0)
    case PROTOCOL_GRE:
      return openGre(data, at, stop, into)
    default:
      return openUdpTunnel(data, at + 8, stop, destinationPort, into)
  }
}

function openAuthentication(
  data: Uint8Array,
  at: number,
  stop: number,
  from: PacketBatch,
  k: number,
  into: PacketBatch,
): number {
  if (stop - at < 12) return IP_HEADER_TRUNCATED
  const size = (data[at + 1]! + 2) << 2
  if (size < 12 || at + size > stop) return IP_HEADER_INVALID
  copyHeaders(from, k, into, 0)
  const next = data[at]!
  into.protocol[0] = next
  return decodeTransport(next, data, at + size, stop, into.ipOffset[0]! + into.ipBytes[0]!, into, 0)
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
