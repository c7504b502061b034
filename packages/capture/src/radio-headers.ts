/**
 * What recorders put before an 802.11 frame: radiotap, Prism and AVS.
 *
 * Source: radiotap.org (length in little-endian order; of its fields only the flags are read, for the padding
 * bit), tcpdump.org LINKTYPE_IEEE802_11_PRISM (119, a length in the recorder's byte order) and
 * LINKTYPE_IEEE802_11_AVS (163, network order; drivers also write it under 119).
 */
import type { PacketBatch } from './packet-batch.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'
import { decodeWlan, firstSubframeAt } from './wlan.js'

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
