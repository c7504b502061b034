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
import { decodeEthernet, decodeEtherType } from './ethernet.js'
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'

const VXLAN = 4789
const VXLAN_LINUX = 8472
const GENEVE = 6081
const GTP_U = 2152
const TEREDO = 3544

export function isUdpTunnel(sourcePort: number, destinationPort: number): boolean {
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
export function openUdpTunnel(
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
