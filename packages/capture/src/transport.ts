/**
 * TCP (RFC 9293), UDP (RFC 768) and SCTP (RFC 9260) ports, and TCP's flags.
 *
 * The ports are the first four bytes of all three, and they are enough for a key: a frame that was snapped
 * behind them is kept, with flags 0 where the flags byte is not captured. What a packet carries follows from the
 * lengths in both headers. The rest of the header is not judged (a data offset below 5 or a UDP length of 0 says nothing about whose packet it is). A packet whose
 * IP length leaves no room for ports is invalid, whatever padding follows it. ICMP's type and code stand in
 * their place (icmp.ts); all other protocols have none: their key is the pair of addresses.
 */
import { writeIcmpPorts } from './icmp.js'
import type { PacketBatch } from './packet-batch.js'
import { PACKET_OK } from './packet-status.js'
import { TRANSPORT_HEADER_INVALID, TRANSPORT_HEADER_TRUNCATED } from './status-codes.js'

const LEAST_TCP_BYTES = 20
export const UDP_BYTES = 8
const SCTP_BYTES = 12
const ICMP_BYTES = 8

export const PROTOCOL_ICMP = 1
export const PROTOCOL_TCP = 6
export const PROTOCOL_UDP = 17
export const PROTOCOL_ICMPV6 = 58
export const PROTOCOL_SCTP = 132

/** @param ipEnd where the IP packet ends by its own length, perhaps beyond what is captured */
export function decodeTransport(
  protocol: number,
  data: Uint8Array,
  at: number,
  end: number,
  ipEnd: number,
  packets: PacketBatch,
  i: number,
): number {
  packets.transportOffset[i] = at
  const ipPayload = ipEnd - at
  if (protocol !== PROTOCOL_TCP && protocol !== PROTOCOL_UDP && protocol !== PROTOCOL_SCTP) {
    const isIcmp = protocol === PROTOCOL_ICMP || protocol === PROTOCOL_ICMPV6
    packets.payloadBytes[i] = Math.max(0, ipPayload - (isIcmp ? ICMP_BYTES : 0))
    if (isIcmp) {
      writeIcmpPorts(protocol === PROTOCOL_ICMPV6, data, at, Math.min(end, ipEnd), packets, i)
    }
    return PACKET_OK
  }
  if (ipEnd - at < 4) return TRANSPORT_HEADER_INVALID
  if (end - at < 4) return TRANSPORT_HEADER_TRUNCATED
  packets.sourcePort[i] = (data[at]! << 8) | data[at + 1]!
  packets.destinationPort[i] = (data[at + 2]! << 8) | data[at + 3]!
  if (protocol === PROTOCOL_TCP) {
    if (at + 14 <= end && at + 14 <= ipEnd) packets.tcpFlags[i] = data[at + 13]!
    const headerBytes = at + 13 <= end ? tcpHeaderBytes(data[at + 12]!) : LEAST_TCP_BYTES
    packets.payloadBytes[i] = Math.max(0, ipPayload - headerBytes)
  } else {
    packets.payloadBytes[i] = Math.max(0, ipPayload - (protocol === PROTOCOL_UDP ? UDP_BYTES : SCTP_BYTES))
  }
  return PACKET_OK
}

/** @param offset - the byte that begins with the header's length in words of four bytes; a header has at least five. */
export function tcpHeaderBytes(offset: number): number {
  return Math.max(LEAST_TCP_BYTES, (offset >>> 4) << 2)
}
