/**
 * IPv4 (RFC 791), options passed.
 *
 * A total length of 0 is what a recorder sees before segmentation offload has filled it in; the packet then
 * reaches to the end of the frame on the wire. Bytes behind the total length are padding and never read as
 * ports. Only a fragment at offset 0 has ports.
 */
import type { PacketBatch } from './packet-batch.js'
import { IP_HEADER_INVALID, IP_HEADER_TRUNCATED, IP_LATER_FRAGMENT } from './status-codes.js'
import { decodeTransport } from './transport.js'

/** @param frame where the frame begins */
export function decodeIpv4(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 20) return IP_HEADER_TRUNCATED
  const first = data[at]!
  if (first >>> 4 !== 4) return IP_HEADER_INVALID
  const headerBytes = (first & 15) << 2
  let ipBytes = (data[at + 2]! << 8) | data[at + 3]!
  if (headerBytes < 20 || (ipBytes < headerBytes && ipBytes !== 0)) return IP_HEADER_INVALID
  // a wire length below the captured one happens only in damaged records
  if (ipBytes === 0) ipBytes = Math.max(packets.frameBytes[i]!, end - frame) - (at - frame)
  const protocol = data[at + 9]!
  packets.ipVersion[i] = 4
  packets.ipOffset[i] = at
  packets.ipBytes[i] = ipBytes
  packets.hopLimit[i] = data[at + 8]!
  packets.protocol[i] = protocol
  packets.sourceAddress[4 * i + 3] =
    (data[at + 12]! << 24) | (data[at + 13]! << 16) | (data[at + 14]! << 8) | data[at + 15]!
  packets.destinationAddress[4 * i + 3] =
    (data[at + 16]! << 24) | (data[at + 17]! << 16) | (data[at + 18]! << 8) | data[at + 19]!
  if ((((data[at + 6]! & 0x1f) << 8) | data[at + 7]!) !== 0) return IP_LATER_FRAGMENT
  if (end - at < headerBytes) return IP_HEADER_TRUNCATED
  return decodeTransport(protocol, data, at + headerBytes, end, at + ipBytes, packets, i)
}
