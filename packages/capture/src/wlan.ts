/**
 * IEEE 802.11 data frames (IEEE 802.11-2020, 9.3.2) with LLC and SNAP.
 *
 * Header: frame control, duration, three addresses, sequence control; a fourth address between two bridges,
 * QoS control where the subtype has its bit, HT control where a QoS frame has the order bit. Where the frame
 * goes is told by the To DS and From DS bits. Of an aggregate (A-MSDU) the first subframe makes the packet; the
 * reader gives the others as frames of their own (aggregates.ts).
 * Left out: decryption, reassembly of fragments, mesh control.
 */
import { decodeLlc } from './ethernet.js'
import type { PacketBatch } from './packet-batch.js'
import {
  LINK_HEADER_TRUNCATED,
  NOT_IP,
  WLAN_ENCRYPTED,
  WLAN_LATER_FRAGMENT,
  WLAN_NOT_DATA,
} from './status-codes.js'

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
export function firstSubframeAt(data: Uint8Array, at: number, end: number, padded: boolean): number {
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
