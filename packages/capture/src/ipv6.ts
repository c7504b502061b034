/**
 * IPv6 (RFC 8200) with its extension headers.
 *
 * The chain is walked to the transport: hop-by-hop (0), routing (43), fragment (44), AH (51, RFC 4302),
 * destination options (60), mobility (135, RFC 6275), HIP (139), shim6 (140), and 253/254 not at all, since
 * nobody knows their layout. Each header is at least eight captured bytes, so the frame's own length bounds
 * the walk. ESP (50) ends it as a protocol of its own; 59 says that nothing follows. A payload length of 0
 * (jumbograms, segmentation offload) reaches to the end of the frame on the wire.
 */
import type { PacketBatch } from './packet-batch.js'
import { IP_HEADER_INVALID, IP_HEADER_TRUNCATED, IP_LATER_FRAGMENT, NO_TRANSPORT } from './status-codes.js'
import { decodeTransport } from './transport.js'

const HEADER_BYTES = 40
const FRAGMENT = 44
const AUTHENTICATION = 51
const NO_NEXT_HEADER = 59

/** @param frame where the frame begins */
export function decodeIpv6(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < HEADER_BYTES) return IP_HEADER_TRUNCATED
  if (data[at]! >>> 4 !== 6) return IP_HEADER_INVALID
  const payload = (data[at + 4]! << 8) | data[at + 5]!
  const ipBytes =
    payload === 0 ? Math.max(packets.frameBytes[i]!, end - frame) - (at - frame) : HEADER_BYTES + payload
  packets.ipVersion[i] = 6
  packets.ipOffset[i] = at
  packets.ipBytes[i] = ipBytes
  packets.hopLimit[i] = data[at + 7]!
  const { sourceAddress, destinationAddress } = packets
  for (let k = 0; k < 4; k++) {
    const s = at + 8 + 4 * k
    sourceAddress[4 * i + k] = (data[s]! << 24) | (data[s + 1]! << 16) | (data[s + 2]! << 8) | data[s + 3]!
    const d = s + 16
    destinationAddress[4 * i + k] =
      (data[d]! << 24) | (data[d + 1]! << 16) | (data[d + 2]! << 8) | data[d + 3]!
  }
  let next = data[at + 6]!
  let here = at + HEADER_BYTES
  const ipEnd = at + ipBytes
  while (isExtension(next)) {
    packets.protocol[i] = next
    const size = extensionBytes(next, data, here, end)
    if (here + 8 > ipEnd || (size > 0 && here + size > ipEnd)) return IP_HEADER_INVALID
    if (size === 0 || here + size > end) return IP_HEADER_TRUNCATED
    const current = next
    next = data[here]!
    if (current === FRAGMENT && (((data[here + 2]! << 8) | data[here + 3]!) & 0xfff8) !== 0) {
      packets.protocol[i] = next
      return IP_LATER_FRAGMENT
    }
    here += size
  }
  packets.protocol[i] = next
  if (next === NO_NEXT_HEADER) return NO_TRANSPORT
  return decodeTransport(next, data, here, end, ipEnd, packets, i)
}

/** Where the fragment header of the IPv6 packet at `at` begins, −1 where it has none that is captured. */
export function fragmentHeaderAt(data: Uint8Array, at: number, end: number): number {
  let next = data[at + 6]!
  let here = at + HEADER_BYTES
  while (isExtension(next)) {
    const size = extensionBytes(next, data, here, end)
    if (size === 0 || here + size > end) return -1
    if (next === FRAGMENT) return here
    next = data[here]!
    here += size
  }
  return -1
}

function isExtension(header: number): boolean {
  switch (header) {
    case 0:
    case 43:
    case FRAGMENT:
    case AUTHENTICATION:
    case 60:
    case 135:
    case 139:
    case 140:
      return true
    default:
      return false
  }
}

/** Length of an extension header; 0 where its length field is not captured. */
function extensionBytes(header: number, data: Uint8Array, at: number, end: number): number {
  if (end - at < 2) return 0
  if (header === FRAGMENT) return 8
  if (header === AUTHENTICATION) return (data[at + 1]! + 2) << 2
  return (data[at + 1]! + 1) << 3
}
