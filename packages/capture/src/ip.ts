/**
 * IP headers, and the ports of TCP (RFC 9293), UDP (RFC 768) and SCTP (RFC 9260). Ports suffice for a key, so a frame
 * cut off after them is kept, with TCP flags 0. A packet whose IP length leaves no room for ports is invalid, whatever
 * padding follows.
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

/** The frame that decoders read and the packet that they fill; one object serves all frames of a batch. */
export interface FrameCursor {
  data: Uint8Array
  /** Where the frame begins in `data`. */
  start: number
  /** Where its captured bytes end. */
  end: number
  packets: PacketBatch
  /** Number of the packet in `packets`. */
  i: number
  /** Link headers inside each other so far. */
  depth: number
}

/** Decodes what begins at `at`; returns the packet's status. */
export type Decode = (frame: FrameCursor, at: number) => number

/** In network byte order. */
export function uint16(data: Uint8Array, at: number): number {
  return (data[at]! << 8) | data[at + 1]!
}

/** In network byte order; signed. */
export function int32(data: Uint8Array, at: number): number {
  return (data[at]! << 24) | (data[at + 1]! << 16) | (data[at + 2]! << 8) | data[at + 3]!
}

/**
 * ICMP (RFC 792) and ICMPv6 (RFC 4443), as in Zeek and Community ID: the source port is the type, the destination port
 * the type of the answer if there is one, so that both directions are one 5-tuple; otherwise the code.
 */

/** Counterparts by type; -1 where a type stands alone. RFC 792, 950, 1256. */
const ICMP = pairs([8, 0], [13, 14], [15, 16], [17, 18], [10, 9])
/** RFC 4443, 2710, 4861, 4620, 6275. */
const ICMPV6 = pairs([128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145])

/** Leaves the ports at 0 if type and code do not lie before `end`. */
function writeIcmpPorts({ data, packets, i }: FrameCursor, isIcmpv6: boolean, at: number, end: number): void {
  if (end - at < 2) return
  const type = data[at]!
  const counterpart = isIcmpv6 ? ICMPV6[type]! : ICMP[type]!
  packets.sourcePort[i] = type
  packets.destinationPort[i] = counterpart < 0 ? data[at + 1]! : counterpart
}

/** The code of a message from the ports of its packet; 0 for questions and answers, whose code is not in the ports. */
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

/** @param ipEnd - where the IP packet ends by its own length, perhaps beyond the captured bytes */
export function decodeTransport(frame: FrameCursor, protocol: number, at: number, ipEnd: number): number {
  const { data, end, packets, i } = frame
  packets.transportOffset[i] = at
  const ipPayload = ipEnd - at
  if (protocol !== PROTOCOL_TCP && protocol !== PROTOCOL_UDP && protocol !== PROTOCOL_SCTP) {
    const isIcmp = protocol === PROTOCOL_ICMP || protocol === PROTOCOL_ICMPV6
    packets.payloadBytes[i] = Math.max(0, ipPayload - (isIcmp ? ICMP_BYTES : 0))
    if (isIcmp) writeIcmpPorts(frame, protocol === PROTOCOL_ICMPV6, at, Math.min(end, ipEnd))
    return PACKET_OK
  }
  if (ipPayload < 4) return TRANSPORT_HEADER_INVALID
  if (end - at < 4) return TRANSPORT_HEADER_TRUNCATED
  packets.sourcePort[i] = uint16(data, at)
  packets.destinationPort[i] = uint16(data, at + 2)
  if (protocol === PROTOCOL_TCP) {
    if (at + 14 <= end && at + 14 <= ipEnd) packets.tcpFlags[i] = data[at + 13]!
    const headerBytes = at + 13 <= end ? tcpHeaderBytes(data[at + 12]!) : LEAST_TCP_BYTES
    packets.payloadBytes[i] = Math.max(0, ipPayload - headerBytes)
  } else {
    packets.payloadBytes[i] = Math.max(0, ipPayload - (protocol === PROTOCOL_UDP ? UDP_BYTES : SCTP_BYTES))
  }
  return PACKET_OK
}

/** @param offset - the byte whose upper half is the header's length in words of four bytes; at least five count. */
export function tcpHeaderBytes(offset: number): number {
  return Math.max(LEAST_TCP_BYTES, (offset >>> 4) << 2)
}

/**
 * IPv6 (RFC 8200) with its extension headers: hop-by-hop (0), routing (43), fragment (44), AH (51, RFC 4302),
 * destination options (60), mobility (135, RFC 6275), HIP (139), shim6 (140). ESP (50) and headers of unknown layout
 * (253, 254) end the chain as protocols; 59 means that nothing follows. Each header has at least eight captured bytes,
 * so the frame's length bounds the walk. A payload length of 0 (jumbograms, segmentation offload) reaches to the end of
 * the frame on the wire.
 */

const HEADER_BYTES = 40
const FRAGMENT = 44
const AUTHENTICATION = 51
const NO_NEXT_HEADER = 59

export function decodeIpv6(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < HEADER_BYTES) return IP_HEADER_TRUNCATED
  if (data[at]! >>> 4 !== 6) return IP_HEADER_INVALID
  const payload = uint16(data, at + 4)
  const ipBytes = payload === 0 ? bytesToFrameEnd(frame, at) : HEADER_BYTES + payload
  packets.ipVersion[i] = 6
  packets.ipOffset[i] = at
  packets.ipBytes[i] = ipBytes
  packets.hopLimit[i] = data[at + 7]!
  const { sourceAddress, destinationAddress } = packets
  for (let k = 0; k < 4; k++) {
    sourceAddress[4 * i + k] = int32(data, at + 8 + 4 * k)
    destinationAddress[4 * i + k] = int32(data, at + 24 + 4 * k)
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
    if (current === FRAGMENT && (uint16(data, here + 2) & 0xfff8) !== 0) {
      packets.protocol[i] = next
      return IP_LATER_FRAGMENT
    }
    here += size
  }
  packets.protocol[i] = next
  if (next === NO_NEXT_HEADER) return NO_TRANSPORT
  return decodeTransport(frame, next, here, ipEnd)
}

/** Bytes from `at` to the frame's end on the wire; a wire length below the captured one occurs only in damaged records. */
function bytesToFrameEnd({ packets, i, start, end }: FrameCursor, at: number): number {
  return Math.max(packets.frameBytes[i]!, end - start) - (at - start)
}

/** Where the fragment header of the IPv6 packet at `at` begins; −1 if none is captured. */
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

const EXTENSIONS = new Uint8Array(256)
for (const header of [0, 43, FRAGMENT, AUTHENTICATION, 60, 135, 139, 140]) EXTENSIONS[header] = 1

function isExtension(header: number): boolean {
  return EXTENSIONS[header] === 1
}

/** Length of an extension header; 0 if its length field is not captured. */
function extensionBytes(header: number, data: Uint8Array, at: number, end: number): number {
  if (end - at < 2) return 0
  if (header === FRAGMENT) return 8
  if (header === AUTHENTICATION) return (data[at + 1]! + 2) << 2
  return (data[at + 1]! + 1) << 3
}

/**
 * IPv4 (RFC 791), options passed. A total length of 0, as recorded before segmentation offload fills it in, reaches to
 * the end of the frame on the wire. Bytes after the total length are padding. Only a fragment at offset 0 has ports.
 */
export function decodeIpv4(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 20) return IP_HEADER_TRUNCATED
  const first = data[at]!
  if (first >>> 4 !== 4) return IP_HEADER_INVALID
  const headerBytes = (first & 15) << 2
  let ipBytes = uint16(data, at + 2)
  if (headerBytes < 20 || (ipBytes < headerBytes && ipBytes !== 0)) return IP_HEADER_INVALID
  if (ipBytes === 0) ipBytes = bytesToFrameEnd(frame, at)
  const protocol = data[at + 9]!
  packets.ipVersion[i] = 4
  packets.ipOffset[i] = at
  packets.ipBytes[i] = ipBytes
  packets.hopLimit[i] = data[at + 8]!
  packets.protocol[i] = protocol
  packets.sourceAddress[4 * i + 3] = int32(data, at + 12)
  packets.destinationAddress[4 * i + 3] = int32(data, at + 16)
  if ((uint16(data, at + 6) & 0x1fff) !== 0) return IP_LATER_FRAGMENT
  if (end - at < headerBytes) return IP_HEADER_TRUNCATED
  return decodeTransport(frame, protocol, at + headerBytes, at + ipBytes)
}
