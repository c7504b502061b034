/**
 * GRE (RFC 2784, 2890), its PPTP form (RFC 2637) and ERSPAN, whose payload is Ethernet.
 *
 * Flags: checksum (c000 takes four bytes with either bit), key 2000, sequence 1000; version 1 has an
 * acknowledgement (0080) and PPP within. The protocol is an EtherType: 6558 bridges Ethernet, 88be is ERSPAN
 * (type I without a sequence number and without a header, type II with eight bytes), 22eb type III (twelve
 * bytes, eight more where the last bit says so; draft-foschiano-erspan). Source routes (4000) end it.
 */
import { decodeEthernet, decodeEtherType } from './ethernet.js'
import type { PacketBatch } from './packet-batch.js'
import { decodePpp } from './ppp.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'

const CHECKSUM = 0x8000
const ROUTING = 0x4000
const KEY = 0x2000
const SEQUENCE = 0x1000
const ACKNOWLEDGEMENT = 0x0080

/** Fills packet 0 of `into` from what the GRE header at `at` carries; returns its status. */
export function openGre(data: Uint8Array, at: number, end: number, into: PacketBatch): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const flags = (data[at]! << 8) | data[at + 1]!
  const protocol = (data[at + 2]! << 8) | data[at + 3]!
  const version = flags & 7
  if (version > 1 || (flags & ROUTING) !== 0) return NOT_IP
  let next = at + 4
  if ((flags & CHECKSUM) !== 0) next += 4
  if ((flags & KEY) !== 0) next += 4
  if ((flags & SEQUENCE) !== 0) next += 4
  if (version === 1) {
    if ((flags & ACKNOWLEDGEMENT) !== 0) next += 4
    return protocol === 0x880b ? decodePpp(data, next, end, next, into, 0, 0) : NOT_IP
  }
  switch (protocol) {
    case 0x880b:
      return decodePpp(data, next, end, next, into, 0, 0)
    case 0x6558:
      return decodeEthernet(data, next, end, into, 0)
    case 0x88be:
      return decodeEthernet(data, (flags & SEQUENCE) === 0 ? next : next + 8, end, into, 0)
    case 0x22eb: {
      if (end - next < 12) return LINK_HEADER_TRUNCATED
      return decodeEthernet(data, next + ((data[next + 11]! & 1) === 0 ? 12 : 20), end, into, 0)
    }
    default:
      return protocol <= 1500 ? NOT_IP : decodeEtherType(protocol, data, next, end, next, into, 0, 0)
  }
}
