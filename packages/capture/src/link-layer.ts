/**
 * Link headers other than Ethernet's, and the choice among all of them by LINKTYPE_ value.
 *
 * Source: tcpdump.org/linktypes. 12 and 14 are the values that BSDs used for RAW. SLL (113) and SLL2 (276)
 * are the cooked headers of Linux: their protocol is an EtherType where the device has such, 4 for an LLC
 * header, and for netlink devices no EtherType at all. PPI (192) names the link type of what follows it. Which others
 * are read, the README lists; a link type that stands nowhere here is counted, under its name.
 */
import { decodeEnc, decodeIpnet, decodeLoopback, decodePflog } from './address-families.js'
import { decodeEthernet, decodeEtherType, decodeLlc } from './ethernet.js'
import { decodeFrameRelay } from './frame-relay.js'
import { decodeIpv4 } from './ipv4.js'
import { decodeIpv6 } from './ipv6.js'
import { decodeMpls } from './mpls.js'
import { decodeNflog } from './nflog.js'
import type { PacketBatch } from './packet-batch.js'
import { decodeCiscoHdlc, decodePpp, decodePppHdlc, decodePppoe } from './ppp.js'
import { decodeAvs, decodePrism, decodeRadiotap } from './radio-headers.js'
import { decodeEpon, decodeErf, decodeJuniper, decodePktap, decodeTzsp } from './recorder-headers.js'
import { decodeArcnet, decodeFddi, decodeTokenRing } from './ring-networks.js'
import {
  IEEE802154_UNSUPPORTED,
  IP_HEADER_TRUNCATED,
  LINK_HEADER_TRUNCATED,
  LINK_TYPE_UNSUPPORTED,
  NOT_IP,
} from './status-codes.js'
import { decodeWlan } from './wlan.js'

const ARPHRD_NETLINK = 824
const PROTOCOL_LLC = 4
const LINKTYPE_PPI = 192
const LINKTYPE_PKTAP = 258

/** Fills the columns of packet i from data[at … end); returns its status. */
export function decodeLinkLayer(
  linkType: number,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  switch (linkType) {
    case 1:
      return decodeEthernet(data, at, end, packets, i)
    case 0:
    case 108:
      return decodeLoopback(data, at, end, packets, i)
    case 12:
    case 14:
    case 101:
      return decodeRaw(data, at, end, packets, i)
    case 228:
      return decodeIpv4(data, at, end, at, packets, i)
    case 229:
      return decodeIpv6(data, at, end, at, packets, i)
    case 113:
      return decodeCooked(data, at, end, packets, i)
    case 276:
      return decodeCooked2(data, at, end, packets, i)
    default:
      return decodeRareLink(linkType, data, at, end, packets, i)
  }
}

/** Apart from the common ones, so that their switch stays small. */
function decodeRareLink(
  linkType: number,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  switch (linkType) {
    case 9:
      return decodePpp(data, at, end, at, packets, i, 0)
    case 50:
      return decodePppHdlc(data, at, end, packets, i, 0)
    case 51:
      return decodePppoe(data, at, end, at, packets, i, 0)
    case 104:
      return decodeCiscoHdlc(data, at, end, packets, i, 0)
    // a direction byte comes first
    case 204:
      return end - at < 1 ? LINK_HEADER_TRUNCATED : decodePpp(data, at + 1, end, at, packets, i, 0)
    case 105:
      return decodeWlan(data, at, end, at, false, packets, i, 0)
    case 119:
      return decodePrism(data, at, end, packets, i, 0)
    case 127:
      return decodeRadiotap(data, at, end, packets, i, 0)
    case 163:
      return decodeAvs(data, at, end, packets, i, 0)
    case LINKTYPE_PPI:
      return decodePpi(data, at, end, packets, i)
    case 219:
      return decodeMpls(data, at, end, at, packets, i, 0)
    case 239:
      return decodeNflog(data, at, end, packets, i)
    case 107:
      return decodeFrameRelay(data, at, end, packets, i)
    case 109:
      return decodeEnc(data, at, end, packets, i)
    case 117:
      return decodePflog(data, at, end, packets, i)
    case 226:
      return decodeIpnet(data, at, end, packets, i)
    case LINKTYPE_PKTAP:
      return decodePktap(data, at, end, packets, i, decodeLinkLayer)
    default:
      return decodeRarestLink(linkType, data, at, end, packets, i)
  }
}

/** Those that are met in old captures and in special machines. */
function decodeRarestLink(
  linkType: number,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  switch (linkType) {
    case 6:
      return decodeTokenRing(data, at, end, packets, i)
    case 7:
      return decodeArcnet(data, at, end, 0, packets, i)
    case 129:
      return decodeArcnet(data, at, end, 2, packets, i)
    case 10:
      return decodeFddi(data, at, end, packets, i)
    // LLC with nothing before it
    case 100:
      return decodeLlc(data, at, end, at, packets, i, 0)
    // Classical IP over ATM, as Linux gives it
    case 106:
      return decodeRaw(data, at, end, packets, i)
    // NetBSD's form of Cisco's HDLC
    case 112:
      return decodeCiscoHdlc(data, at, end, packets, i, 0)
    case 122:
      return decodeIpOverFibreChannel(data, at, end, packets, i)
    case 123:
      return decodeSunAtm(data, at, end, packets, i)
    case 128:
      return decodeTzsp(data, at, end, packets, i, decodeLinkLayer)
    // IP over IEEE 1394: two addresses of eight bytes
    case 138:
      return decodeTyped(18, 16, data, at, end, packets, i)
    case 167:
    case 178:
    case 179:
    case 180:
    case 181:
      return decodeJuniper(linkType, data, at, end, packets, i)
    case 197:
      return decodeErf(data, at, end, packets, i)
    // IP over InfiniBand: a global route of 40 bytes
    case 242:
      return decodeTyped(44, 40, data, at, end, packets, i)
    case 259:
      return decodeEpon(data, at, end, packets, i)
    case 191:
    case 195:
    case 215:
    case 230:
    case 283:
      return IEEE802154_UNSUPPORTED
    default:
      return LINK_TYPE_UNSUPPORTED
  }
}

function decodePpi(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  const length = data[at + 2]! | (data[at + 3]! << 8)
  if (data[at]! !== 0 || length < 8) return NOT_IP
  if (length > end - at) return LINK_HEADER_TRUNCATED
  const linkType = data[at + 4]! | (data[at + 5]! << 8) | (data[at + 6]! << 16) | (data[at + 7]! << 24)
  // neither is read within the other, so that headers cannot be stacked without end
  if (linkType === LINKTYPE_PPI || linkType === LINKTYPE_PKTAP) return LINK_TYPE_UNSUPPORTED
  return decodeLinkLayer(linkType, data, at + length, end, packets, i)
}

function decodeRaw(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (at >= end) return IP_HEADER_TRUNCATED
  const version = data[at]! >>> 4
  if (version === 4) return decodeIpv4(data, at, end, at, packets, i)
  if (version === 6) return decodeIpv6(data, at, end, at, packets, i)
  return NOT_IP
}

/** An EtherType behind `headerBytes` that hold nothing else of use, at `typeAt` of them. */
function decodeTyped(
  headerBytes: number,
  typeAt: number,
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < headerBytes) return LINK_HEADER_TRUNCATED
  const type = (data[at + typeAt]! << 8) | data[at + typeAt + 1]!
  return type <= 1500 ? NOT_IP : decodeEtherType(type, data, at + headerBytes, end, at, packets, i, 0)
}

/** Destination and source of eight bytes, the last six of which are a MAC address's; LLC. */
function decodeIpOverFibreChannel(
  data: Uint8Array,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (end - at < 16) return LINK_HEADER_TRUNCATED
  for (let b = 0; b < 6; b++) packets.destinationMac[6 * i + b] = data[at + 2 + b]!
  copySourceMac(data, at + 10, packets, i)
  return decodeLlc(data, at + 16, end, at, packets, i, 0)
}

/** Flags, of which four bits name the traffic (2 is LLC), a path and a channel. */
function decodeSunAtm(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  return (data[at]! & 0x0f) === 2 ? decodeLlc(data, at + 4, end, at, packets, i, 0) : NOT_IP
}

function decodeCooked(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at < 16) return LINK_HEADER_TRUNCATED
  const hardware = (data[at + 2]! << 8) | data[at + 3]!
  const addressBytes = (data[at + 4]! << 8) | data[at + 5]!
  const protocol = (data[at + 14]! << 8) | data[at + 15]!
  if (addressBytes === 6) copySourceMac(data, at + 6, packets, i)
  return decodeCookedProtocol(hardware, protocol, data, at, at + 16, end, packets, i)
}

function decodeCooked2(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at < 20) return LINK_HEADER_TRUNCATED
  const protocol = (data[at]! << 8) | data[at + 1]!
  const hardware = (data[at + 8]! << 8) | data[at + 9]!
  if (data[at + 11]! === 6) copySourceMac(data, at + 12, packets, i)
  return decodeCookedProtocol(hardware, protocol, data, at, at + 20, end, packets, i)
}

function decodeCookedProtocol(
  hardware: number,
  protocol: number,
  data: Uint8Array,
  frame: number,
  at: number,
  end: number,
  packets: PacketBatch,
  i: number,
): number {
  if (hardware === ARPHRD_NETLINK) return NOT_IP
  if (protocol === PROTOCOL_LLC) return decodeLlc(data, at, end, frame, packets, i, 0)
  return decodeEtherType(protocol, data, at, end, frame, packets, i, 0)
}

function copySourceMac(data: Uint8Array, at: number, packets: PacketBatch, i: number): void {
  for (let k = 0; k < 6; k++) packets.sourceMac[6 * i + k] = data[at + k]!
}
