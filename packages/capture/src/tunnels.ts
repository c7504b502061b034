/**
 * Tunnels in IP: from one decoded header to the one that it carries.
 *
 * Read: IP in IP (4, RFC 2003), IPv6 (41: 6in4, RFC 4213, and 6in6), GRE (47), AH over IPv4 (51, RFC 4302; in
 * IPv6 it is an extension header and passed anyway), and over UDP VXLAN, Geneve, GTP-U and Teredo. A tunnel
 * over UDP is told by its port alone, so a header that its protocol does not admit is no tunnel. Left out:
 * L2TP, VXLAN-GPE, GRE with source routes.
 */
import { clearHeaders } from './clear-headers.js'
import { openGre } from './gre.js'
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'
import { IP_HEADER_INVALID, IP_HEADER_TRUNCATED } from './status-codes.js'
import { decodeTransport, PROTOCOL_UDP } from './transport.js'
import { isUdpTunnel, openUdpTunnel } from './udp-tunnels.js'

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
