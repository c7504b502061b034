/**
 * IEEE 802.11 data frames (IEEE 802.11-2020, 9.3.2) with LLC and SNAP, and the headers that recorders put before them.
 *
 * Header: frame control, duration, three addresses, sequence control; a fourth address between two bridges, QoS control
 * if the subtype has its bit, HT control if a QoS frame has the order bit. The To DS and From DS bits say where the frame
 * goes. The first subframe of an aggregate (A-MSDU) makes the packet; the reader delivers the others as frames of their
 * own (capture-reader.ts). Left out: decryption, reassembly of fragments, mesh control.
 */
import { copyMac, decodeLlc } from './ethernet.js'
import { type FrameCursor, int32, uint16 } from './ip.js'
import {
  LINK_HEADER_TRUNCATED,
  NOT_IP,
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

/** @param padded - the header is padded to a multiple of four bytes (radiotap flag 0x20) */
export function decodeWlan(frame: FrameCursor, at: number, padded = false): number {
  const { data, end, packets, i } = frame
  if (end - at < 2) return LINK_HEADER_TRUNCATED
  const control = data[at]!
  const flags = data[at + 1]!
  if ((control & 3) !== 0) return NOT_IP
  const subtype = control >>> 4
  if (((control >>> 2) & 3) !== 2 || (subtype & NO_DATA) !== 0) return WLAN_NOT_DATA
  const toDs = (flags & TO_DS) !== 0
  const fromDs = (flags & FROM_DS) !== 0
  const next = bodyAt(data, at, padded)
  if (next > end) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, at + (toDs ? 16 : 4))
  copyMac(packets.sourceMac, i, data, at + (fromDs ? (toDs ? 24 : 16) : 10))
  if ((flags & PROTECTED) !== 0) return WLAN_ENCRYPTED
  if ((data[at + 22]! & 0x0f) !== 0) return WLAN_LATER_FRAGMENT
  if ((subtype & QOS) === 0 || (data[qosAt(data, at)]! & AGGREGATE) === 0) return decodeLlc(frame, next)
  if (end - next < 14) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, next)
  copyMac(packets.sourceMac, i, data, next + 6)
  frame.end = Math.min(end, next + 14 + uint16(data, next + 12))
  return decodeLlc(frame, next + 14)
}

/** Where the QoS control field of a data frame that has one begins. */
function qosAt(data: Uint8Array, at: number): number {
  return at + ((data[at + 1]! & (TO_DS | FROM_DS)) === (TO_DS | FROM_DS) ? 30 : 24)
}

/** Where the body of the data frame at `at` begins. */
function bodyAt(data: Uint8Array, at: number, padded: boolean): number {
  let next = qosAt(data, at)
  if (((data[at]! >>> 4) & QOS) !== 0) next += (data[at + 1]! & ORDER) === 0 ? 2 : 6
  return padded ? at + ((next - at + 3) & ~3) : next
}

/** Where the first subframe of the aggregate at `at` begins; −1 if the frame is none, or not readable. */
function firstSubframeAt(data: Uint8Array, at: number, end: number, padded: boolean): number {
  if (end - at < 40) return -1
  const subtype = data[at]! >>> 4
  if ((data[at]! & 0x0f) !== 8 || (subtype & QOS) === 0 || (subtype & NO_DATA) !== 0) return -1
  if ((data[at + 1]! & PROTECTED) !== 0 || (data[at + 22]! & 0x0f) !== 0) return -1
  const next = bodyAt(data, at, padded)
  return (data[qosAt(data, at)]! & AGGREGATE) === 0 || end - next < 14 ? -1 : next
}

/**
 * Recorders' headers before an 802.11 frame: radiotap, Prism and AVS.
 *
 * Source: radiotap.org (length in little-endian order; only the flags are read, for the padding bit), tcpdump.org
 * LINKTYPE_IEEE802_11_PRISM (119, a length in the recorder's byte order) and LINKTYPE_IEEE802_11_AVS (163, network order;
 * drivers also write it under 119).
 */

const LINKTYPE_IEEE802_11 = 105
const LINKTYPE_RADIOTAP = 127

const PRESENT_TSFT = 1
const PRESENT_FLAGS = 2
const PRESENT_MORE = 0x80
const FLAG_PADDED = 0x20

export function decodeRadiotap(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  if (data[at] !== 0) return NOT_IP
  const length = data[at + 2]! | (data[at + 3]! << 8)
  const next = at + length
  if (length < 8 || next > end) return LINK_HEADER_TRUNCATED
  return decodeWlan(frame, next, isPadded(data, at, next))
}

/** Whether the radiotap header from `at` to `next` says that the 802.11 header is padded. */
function isPadded(data: Uint8Array, at: number, next: number): boolean {
  if ((data[at + 4]! & PRESENT_FLAGS) === 0) return false
  let field = at + 8
  while (field < next && (data[field - 1]! & PRESENT_MORE) !== 0) field += 4
  // a timestamp of eight bytes comes first, aligned within the header
  if ((data[at + 4]! & PRESENT_TSFT) !== 0) field = at + ((field - at + 7) & ~7) + 8
  return field < next && (data[field]! & FLAG_PADDED) !== 0
}

/** Where the first subframe of the aggregate in a frame begins, bare or after a radiotap header; −1 if there is none. */
export function aggregateAt(linkType: number, data: Uint8Array, at: number, end: number): number {
  if (linkType === LINKTYPE_IEEE802_11) return firstSubframeAt(data, at, end, false)
  if (linkType !== LINKTYPE_RADIOTAP || end - at < 8 || data[at] !== 0) return -1
  const next = at + (data[at + 2]! | (data[at + 3]! << 8))
  if (next < at + 8 || next > end) return -1
  return firstSubframeAt(data, next, end, isPadded(data, at, next))
}

export function decodePrism(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  // The smaller of the two readings is the length: headers have some hundred bytes.
  const length = isAvs(data, at) ? int32(data, at + 4) >>> 0 : eitherOrder(data, at + 4)
  if (length < 8 || length > end - at) return LINK_HEADER_TRUNCATED
  return decodeWlan(frame, at + length)
}

/** A small unsigned number of four bytes in either byte order. */
export function eitherOrder(data: Uint8Array, at: number): number {
  const big = int32(data, at)
  const little = (data[at + 3]! << 24) | (data[at + 2]! << 16) | (data[at + 1]! << 8) | data[at]!
  return Math.min(big >>> 0, little >>> 0)
}

export function decodeAvs(frame: FrameCursor, at: number): number {
  return frame.end - at >= 4 && !isAvs(frame.data, at) ? NOT_IP : decodePrism(frame, at)
}

function isAvs(data: Uint8Array, at: number): boolean {
  return data[at] === 0x80 && data[at + 1] === 0x21 && data[at + 2] === 0x10
}
