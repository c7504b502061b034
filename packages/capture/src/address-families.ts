/**
 * Link headers that name an address family, as systems put them before packets of devices that have no link layer:
 * NULL and LOOP, OpenBSD's ENC (IPsec) and PFLOG (the packet filter's log), Solaris' IPNET.
 *
 * Sources: tcpdump.org/linktypes. The family of NULL and ENC is four bytes in the byte order of the recorder; both are
 * tried, and the smaller value is the family. ENC goes on with an SPI and flags. PFLOG begins with its own length, which
 * is filled up to a multiple of four, and the family. IPNET has 24 bytes with families of its own (26 is IPv6).
 */
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import type { PacketBatch } from './packet-batch.js'
import { LINK_HEADER_TRUNCATED, NOT_IP } from './status-codes.js'

const IPNET_BYTES = 24

export function decodeLoopback(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  return decodeFamilyWord(data, at, end, 4, packets, i)
}

export function decodeEnc(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  return decodeFamilyWord(data, at, end, 12, packets, i)
}

export function decodePflog(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 2) return LINK_HEADER_TRUNCATED
  const headerBytes = (data[at]! + 3) & ~3
  if (headerBytes < 4) return NOT_IP
  if (end - at < headerBytes) return LINK_HEADER_TRUNCATED
  return decodeFamily(data[at + 1]!, data, at + headerBytes, end, at, packets, i)
}

export function decodeIpnet(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < IPNET_BYTES) return LINK_HEADER_TRUNCATED
  if (data[at] !== 1) return NOT_IP
  if (data[at + 1] === 2) return decodeIpv4(data, at + IPNET_BYTES, end, at, packets, i)
  return data[at + 1] === 26 ? decodeIpv6(data, at + IPNET_BYTES, end, at, packets, i) : NOT_IP
}

function decodeFamilyWord(
  data: Uint8Array,
  at: number,
  end: number,
  headerBytes: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < headerBytes) return LINK_HEADER_TRUNCATED
  const big = ((data[at]! << 24) | (data[at + 1]! << 16) | (data[at + 2]! << 8) | data[at + 3]!) >>> 0
  const little = ((data[at + 3]! << 24) | (data[at + 2]! << 16) | (data[at + 1]! << 8) | data[at]!) >>> 0
  return decodeFamily(Math.min(big, little), data, at + headerBytes, end, at, packets, i)
}

function decodeFamily(
  family: number,
  data: Uint8Array,
  at: number,
  end: number,
  frame: number,
  packets: PacketBatch,
  i: number,
): number {
  switch (family) {
    case 2:
      return decodeIpv4(data, at, end, frame, packets, i)
    // AF_INET6 of Linux, the BSDs, FreeBSD and Darwin
    case 10:
    case 24:
    case 28:
    case 30:
      return decodeIpv6(data, at, end, frame, packets, i)
    default:
      return NOT_IP
  }
}
