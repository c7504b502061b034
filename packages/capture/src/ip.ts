/**
 * TCP (RFC 9293), UDP (RFC 768) and SCTP (RFC 9260) ports, and TCP's flags.
 *
 * The ports are the first four bytes of all three, and they are enough for a key: a frame that was snapped
 * behind them is kept, with flags 0 where the flags byte is not captured. What a packet carries follows from the
 * lengths in both headers. The rest of the header is not judged (a data offset below 5 or a UDP length of 0 says nothing about whose packet it is). A packet whose
 * IP length leaves no room for ports is invalid, whatever padding follows it. ICMP's type and code stand in
 * their place; all other protocols have none: their key is the pair of addresses.
 */
import {
  IP_HEADER_INVALID,
  IP_HEADER_TRUNCATED,
  IP_LATER_FRAGMENT,
  NO_TRANSPORT,
  PACKET_OK,
  type PacketBatch,
  TRANSPORT_HEADER_INVALID,
  TRANSPORT_HEADER_TRUNCATED,
} from './packet-batch.js'

/**
 * ICMP (RFC 792) and ICMPv6 (RFC 4443) in the place of ports, as Zeek and Community ID have them.
 *
 * The source port is the type. The destination port is the type of the answer where the type is one half of
 * a question and answer (echo 8 and 0, ICMPv6 echo 128 and 129, …), so that both directions are one unordered
 * 5-tuple; it is the code for all other types. For an echo request that reads 8 and 0, type and code both.
 */

/** Counterparts by type; -1 where a type stands alone. RFC 792, 950, 1256. */
const ICMP = pairs([8, 0], [13, 14], [15, 16], [17, 18], [10, 9])
/** RFC 4443, 2710, 4861, 4620, 6275. */
const ICMPV6 = pairs([128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145])

/** Leaves the ports at 0 where type and code do not lie before `end`. */
function writeIcmpPorts(
  isIcmpv6: boolean,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): void {
  if (end - at < 2) return
  const type = data[at]!
  const code = data[at + 1]!
  const counterpart = isIcmpv6 ? ICMPV6[type]! : ICMP[type]!
  packets.sourcePort[i] = type
  packets.destinationPort[i] = counterpart < 0 ? code : counterpart
}

/** The code of a message whose ports writeIcmpPorts wrote, as far as it is known: a question's and an answer's is 0. */
export function icmpCodeOf(isIcmpv6: boolean, sourcePort: number, destinationPort: number): number {
  const counterpart = isIcmpv6 ? ICMPV6[sourcePort & 255]! : ICMP[sourcePort & 255]!
  return counterpart < 0 ? destinationPort : 0
}

function pairs(...list: readonly (readonly [number, number])[]): Int16Array {
  const table = new Int16Array(256).fill(-1)
  for (const [request, reply] of list) {
    table[request] = reply
    table[reply] = request
  }
  return table
}

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

/**
 * IPv6 (RFC 8200) with its extension headers.
 *
 * The chain is walked to the transport: hop-by-hop (0), routing (43), fragment (44), AH (51, RFC 4302),
 * destination options (60), mobility (135, RFC 6275), HIP (139), shim6 (140), and 253/254 not at all, since
 * their layout is unknown. Each header is at least eight captured bytes, so the frame's own length bounds
 * the walk. ESP (50) ends it as a protocol of its own; 59 says that nothing follows. A payload length of 0
 * (jumbograms, segmentation offload) reaches to the end of the frame on the wire.
 */

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

/**
 * IPv4 (RFC 791), options passed.
 *
 * A total length of 0 is what a recorder sees before segmentation offload has filled it in; the packet then
 * reaches to the end of the frame on the wire. Bytes behind the total length are padding and never read as
 * ports. Only a fragment at offset 0 has ports.
 */

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
