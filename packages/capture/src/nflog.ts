/**
 * LINKTYPE_NFLOG (239): what Linux netfilter logs, and the IP packet within.
 *
 * Source: tcpdump.org/linktypes/LINKTYPE_NFLOG. Address family, version 0, a resource id, then attributes of
 * (length, type) in the recorder's byte order; type 9 is the packet. The order is told by the first length,
 * which is small. Each attribute is at least four bytes, so the frame's own length bounds the walk.
 */
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'

const PAYLOAD = 9

export function decodeNflog(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const family = data[at]!
  let next = at + 4
  // 1 where the low byte is the second one
  const low = next < end && data[next]! === 0 ? 1 : 0
  while (end - next >= 4) {
    const length = data[next + low]! | (data[next + 1 - low]! << 8)
    const type = data[next + 2 + low]! | (data[next + 3 - low]! << 8)
    if (length < 4) return NOT_IP
    if ((type & 0x7fff) === PAYLOAD) {
      const stop = Math.min(end, next + length)
      if (family === 2) return decodeIpv4(data, next + 4, stop, at, packets, i)
      return family === 10 ? decodeIpv6(data, next + 4, stop, at, packets, i) : NOT_IP
    }
    next += (length + 3) & ~3
  }
  return NOT_IP
}
