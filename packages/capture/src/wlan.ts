/**
 * IEEE 802.11 data frames (IEEE 802.11-2020, 9.3.2) with LLC and SNAP.
 *
 * Header: frame control, duration, three addresses, sequence control; a fourth address between two bridges,
 * QoS control where the subtype has its bit, HT control where a QoS frame has the order bit. Where the frame
 * goes is given by the To DS and From DS bits. Of an aggregate (A-MSDU) the first subframe makes the packet; the
 * reader gives the others as frames of their own (capture-reader.ts).
 * Left out: decryption, reassembly of fragments, mesh control.
 */
import { decodeLlc } from './ethernet.js'
import {
  LINK_HEADER_TRUNCATED,
  NOT_IP,
  type PacketBatch,
  WLAN_ENCRYPTED,
  WLAN_LATER_FRAGMENT,
  WLAN_NOT_DATA,
} from './packet-batch.js'

const TO_DS = 0x01
const FROM_DS = 0x02
const PROTECTED = 0x40
const ORDER = 0x80
const NO_DATA = 0x4
const QOS = 0x8
const AGGREGATE = 0x80

/**
 * @param frame where the frame begins, radio header included
 * @param padded the header is filled up to a multiple of four (radiotap flag 0x20)
 */
export function decodeWlan(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  padded: boolean,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at < 2) return LINK_HEADER_TRUNCATED
  const control = data[at]!
  const flags = data[at + 1]!
  if ((control & 3) !== 0) return NOT_IP
  const subtype = control >>> 4
  if (((control >>> 2) & 3) !== 2 || (subtype & NO_DATA) !== 0) return WLAN_NOT_DATA
  const toDs = (flags & TO_DS) !== 0
  const fromDs = (flags & FROM_DS) !== 0
  const qosAt = at + (toDs && fromDs ? 30 : 24)
  const next = bodyAt(data, at, padded)
  if (next > end) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, at + (toDs ? 16 : 4))
  copyMac(packets.sourceMac, i, data, at + (fromDs ? (toDs ? 24 : 16) : 10))
  if ((flags & PROTECTED) !== 0) return WLAN_ENCRYPTED
  if ((data[at + 22]! & 0x0f) !== 0) return WLAN_LATER_FRAGMENT
  if ((subtype & QOS) === 0 || (data[qosAt]! & AGGREGATE) === 0) {
    return decodeLlc(data, next, end, frame, packets, i, depth)
  }
  if (end - next < 14) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, next)
  copyMac(packets.sourceMac, i, data, next + 6)
  const bytes = (data[next + 12]! << 8) | data[next + 13]!
  return decodeLlc(data, next + 14, Math.min(end, next + 14 + bytes), frame, packets, i, depth)
}

/** Where the body of the data frame at `at` begins. */
function bodyAt(data: Uint8Array, at: number, padded: boolean): number {
  const flags = data[at + 1]!
  let next = at + ((flags & (TO_DS | FROM_DS)) === (TO_DS | FROM_DS) ? 30 : 24)
  if (((data[at]! >>> 4) & QOS) !== 0) next += (flags & ORDER) === 0 ? 2 : 6
  return padded ? at + ((next - at + 3) & ~3) : next
}

/** Where the first subframe of the aggregate at `at` begins; -1 where the frame is none, or not readable. */
function firstSubframeAt(data: Uint8Array, at: number, end: number, padded: boolean): number {
  if (end - at < 40) return -1
  const subtype = data[at]! >>> 4
  const flags = data[at + 1]!
  if ((data[at]! & 0x0f) !== 8 || (subtype & QOS) === 0 || (subtype & NO_DATA) !== 0) return -1
  if ((flags & PROTECTED) !== 0 || (data[at + 22]! & 0x0f) !== 0) return -1
  const next = bodyAt(data, at, padded)
  const qosAt = at + ((flags & (TO_DS | FROM_DS)) === (TO_DS | FROM_DS) ? 30 : 24)
  return (data[qosAt]! & AGGREGATE) === 0 || end - next < 14 ? -1 : next
}

function copyMac(column: Uint8Array, i: number, data: Uint8Array, at: number): void {
  for (let k = 0; k < 6; k++) column[6 * i + k] = data[at + k]!
}

/**
 * What recorders put before an 802.11 frame: radiotap, Prism and AVS.
 *
 * Source: radiotap.org (length in little-endian order; of its fields only the flags are read, for the padding
 * bit), tcpdump.org LINKTYPE_IEEE802_11_PRISM (119, a length in the recorder's byte order) and
 * LINKTYPE_IEEE802_11_AVS (163, network order; drivers also write it under 119).
 */

const LINKTYPE_IEEE802_11 = 105
const LINKTYPE_RADIOTAP = 127

const PRESENT_TSFT = 1
const PRESENT_FLAGS = 2
const PRESENT_MORE = 0x80
const FLAG_PADDED = 0x20

export function decodeRadiotap(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  if (data[at] !== 0) return NOT_IP
  const length = data[at + 2]! | (data[at + 3]! << 8)
  const next = at + length
  if (length < 8 || next > end) return LINK_HEADER_TRUNCATED
  return decodeWlan(data, next, end, at, isPadded(data, at, next), packets, i, depth)
}

/** Whether the radiotap header from `at` to `next` says that the 802.11 header is padded. */
function isPadded(data: Uint8Array, at: number, next: number): boolean {
  if ((data[at + 4]! & PRESENT_FLAGS) === 0) return false
  let field = at + 8
  while (field < next && (data[field - 1]! & PRESENT_MORE) !== 0) field += 4
  // a timestamp of eight bytes stands first, aligned within the header
  if ((data[at + 4]! & PRESENT_TSFT) !== 0) field = at + ((field - at + 7) & ~7) + 8
  return field < next && (data[field]! & FLAG_PADDED) !== 0
}

/** Where the first subframe of an aggregate begins that a frame holds, behind a radiotap header or none; -1 for none. */
export function aggregateAt(linkType: number, data: Uint8Array, at: number, end: number): number {
  if (linkType === LINKTYPE_IEEE802_11) return firstSubframeAt(data, at, end, false)
  if (linkType !== LINKTYPE_RADIOTAP || end - at < 8 || data[at] !== 0) return -1
  const next = at + (data[at + 2]! | (data[at + 3]! << 8))
  if (next < at + 8 || next > end) return -1
  return firstSubframeAt(data, next, end, isPadded(data, at, next))
}

export function decodePrism(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  const big = ((data[at + 4]! << 24) | (data[at + 5]! << 16) | (data[at + 6]! << 8) | data[at + 7]!) >>> 0
  const little = ((data[at + 7]! << 24) | (data[at + 6]! << 16) | (data[at + 5]! << 8) | data[at + 4]!) >>> 0
  // the smaller of the two readings is the length: headers have some hundred bytes
  const length = isAvs(data, at) ? big : Math.min(big, little)
  if (length < 8 || length > end - at) return LINK_HEADER_TRUNCATED
  return decodeWlan(data, at + length, end, at, false, packets, i, depth)
}

export function decodeAvs(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at >= 4 && !isAvs(data, at)) return NOT_IP
  return decodePrism(data, at, end, packets, i, depth)
}

function isAvs(data: Uint8Array, at: number): boolean {
  return data[at] === 0x80 && data[at + 1] === 0x21 && data[at + 2] === 0x10
}
