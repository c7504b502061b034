/**
 * Frame Relay (ITU-T Q.922) with what it carries by RFC 2427, or Cisco's way.
 *
 * An address of two to four bytes, of which the last one is odd; then either 03 (unnumbered) and a protocol's byte, cc
 * for IPv4, 8e for IPv6, 80 for SNAP, perhaps a zero before it; or an EtherType, as Cisco's routers have it. SNAP's
 * organisation 0080c2 with 0001 or 0007 is bridged Ethernet.
 */
import { decodeEthernet, decodeEtherType } from './ethernet.js'
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'

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
