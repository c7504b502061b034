/**
 * Token Ring (IEEE 802.5), FDDI and ARCNET: shared media whose frames carry LLC, or IP by a byte of its own.
 *
 * Token Ring: access and frame control, two addresses, source routing where the source's first bit says so (its length
 * in five bits), LLC where the frame control is of the kind 01. FDDI: frame control (LLC is 5x), two addresses, LLC.
 * ARCNET: one-byte addresses and a protocol: d4 with a fragment's flag and number (RFC 1201), f0 without (RFC 1051);
 * Linux puts two bytes of offset before it. Later fragments of RFC 1201 are not joined: they are no IP here.
 */
import { decodeLlc } from './ethernet.js'
import { decodeIpv4 } from './ipv4.js'
import type { PacketBatch } from './packet-batch.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'

export function decodeTokenRing(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 14) return LINK_HEADER_TRUNCATED
  copyAddresses(data, at + 2, packets, i)
  const isRouted = (data[at + 8]! & 0x80) !== 0
  packets.sourceMac[6 * i]! &= 0x7f
  if (data[at + 1]! >>> 6 !== 1) return NOT_IP
  if (!isRouted) return decodeLlc(data, at + 14, end, at, packets, i, 0)
  if (end - at < 15) return LINK_HEADER_TRUNCATED
  const routingBytes = data[at + 14]! & 0x1f
  return routingBytes < 2 ? NOT_IP : decodeLlc(data, at + 14 + routingBytes, end, at, packets, i, 0)
}

export function decodeFddi(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 13) return LINK_HEADER_TRUNCATED
  copyAddresses(data, at + 1, packets, i)
  return (data[at]! & 0xf0) === 0x50 ? decodeLlc(data, at + 13, end, at, packets, i, 0) : NOT_IP
}

/** @param offsetBytes 2 in Linux's form */
export function decodeArcnet(
  data: Uint8Array,
  at: number,
  end: number,
  offsetBytes: number,
  packets: PacketBatch,
  i: number,
): number {
  const next = at + 2 + offsetBytes
  if (end - next < 1) return LINK_HEADER_TRUNCATED
  if (data[next] === 0xf0) return decodeIpv4(data, next + 1, end, at, packets, i)
  if (data[next] !== 0xd4) return NOT_IP
  if (end - next < 4) return LINK_HEADER_TRUNCATED
  // an even flag other than 0 is a later fragment
  const flag = data[next + 1]!
  return flag !== 0 && (flag & 1) === 0 ? NOT_IP : decodeIpv4(data, next + 4, end, at, packets, i)
}

/** Destination and source, six bytes each. */
function copyAddresses(data: Uint8Array, at: number, packets: PacketBatch, i: number): void {
  for (let b = 0; b < 6; b++) {
    packets.destinationMac[6 * i + b] = data[at + b]!
    packets.sourceMac[6 * i + b] = data[at + 6 + b]!
  }
}
