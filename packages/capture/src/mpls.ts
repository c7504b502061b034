/**
 * MPLS label stacks (RFC 3032), passed to what they carry.
 *
 * Nothing in a label says what follows the stack; as routers and analysers do, the first four bits tell: 4
 * and 6 are IP, 0 is a control word (RFC 4385) before an Ethernet pseudowire, 1 is an associated channel
 * (RFC 5586), anything else is taken for an Ethernet pseudowire without control word (RFC 4448). Most makers'
 * addresses begin with a 0 too: where nothing known lies behind a control word, there is none. Each label is
 * four captured bytes, so a stack without an end stops at the frame's. MAC addresses within are not shown.
 */
import { checkLinkHeader, decodeEtherType } from './ethernet.js'
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'
import { PACKET_OK } from './packet-status.js'
import { LINK_HEADER_TRUNCATED, MPLS, NOT_IP } from './status-codes.js'

/** @param frame where the frame begins. @param depth link headers before it */
export function decodeMpls(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  const refusal = checkLinkHeader(depth, end - at, 4)
  if (refusal !== PACKET_OK) return refusal
  let next = at
  let bottom = false
  while (!bottom) {
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    bottom = (data[next + 2]! & 1) !== 0
    next += 4
  }
  if (next >= end) return LINK_HEADER_TRUNCATED
  switch (data[next]! >>> 4) {
    case 4:
      return decodeIpv4(data, next, end, frame, packets, i)
    case 6:
      return decodeIpv6(data, next, end, frame, packets, i)
    case 0: {
      const behind = decodePseudowire(data, next + 4, end, frame, packets, i, depth)
      // a label stack behind it says MPLS, so that no more than one of two is followed down
      return behind === NOT_IP ? orMpls(decodePseudowire(data, next, end, frame, packets, i, depth)) : behind
    }
    case 1:
      return MPLS
    default:
      return orMpls(decodePseudowire(data, next, end, frame, packets, i, depth))
  }
}

function decodePseudowire(
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
  depth: number,
): number {
  if (end - at < 14) return LINK_HEADER_TRUNCATED
  const type = (data[at + 12]! << 8) | data[at + 13]!
  return decodeEtherType(type, data, at + 14, end, frame, packets, i, depth)
}

/** What is not IP behind labels is MPLS. */
function orMpls(status: number): number {
  return status === NOT_IP ? MPLS : status
}
