/**
 * Link headers other than Ethernet's, and the choice among all of them by LINKTYPE_ value.
 *
 * Source: tcpdump.org/linktypes. 12 and 14 are the values that BSDs used for RAW. SLL (113) and SLL2 (276)
 * are the cooked headers of Linux: their protocol is an EtherType where the device has such, 4 for an LLC
 * header, and for netlink devices no EtherType at all. PPI (192) names the link type of what follows it. Which others
 * are read, the README lists; a link type that stands nowhere here is counted, under its name.
 */
import { decodeEnc, decodeIpnet, decodeLoopback, decodePflog } from './addresses.js'
import {
  decodeCiscoHdlc,
  decodeEthernet,
  decodeEtherType,
  decodeLlc,
  decodeMpls,
  decodePpp,
  decodePppHdlc,
  decodePppoe,
} from './ethernet.js'
import { decodeIpv4, decodeIpv6 } from './ip.js'
import {
  IEEE802154_UNSUPPORTED,
  IP_HEADER_TRUNCATED,
  LINK_HEADER_TRUNCATED,
  LINK_TYPE_UNSUPPORTED,
  NOT_IP,
  type PacketBatch,
} from './packet-batch.js'
import {
  decodeEpon,
  decodeErf,
  decodeFrameRelay,
  decodeJuniper,
  decodePktap,
  decodeTzsp,
} from './recorder-headers.js'
import { decodeAvs, decodePrism, decodeRadiotap, decodeWlan } from './wlan.js'

/**
 * Names of link-layer header types: the LINKTYPE_ registry of tcpdump.org/linktypes.
 *
 * Values from 104 to 299 are dense, so they are a list in order ("-" is reserved); the few below stand in a
 * table of their own. A value without a name is called "linktype-N".
 */
const LOW: Readonly<Record<number, string>> = {
  0: 'NULL',
  1: 'ETHERNET',
  2: 'EXP_ETHERNET',
  3: 'AX25',
  4: 'PRONET',
  5: 'CHAOS',
  6: 'IEEE802_5',
  7: 'ARCNET_BSD',
  8: 'SLIP',
  9: 'PPP',
  10: 'FDDI',
  50: 'PPP_HDLC',
  51: 'PPP_ETHER',
  99: 'SYMANTEC_FIREWALL',
  100: 'ATM_RFC1483',
  101: 'RAW',
  102: 'SLIP_BSDOS',
  103: 'PPP_BSDOS',
}

const FROM_104 = `
  C_HDLC IEEE802_11 ATM_CLIP FRELAY LOOP ENC LANE8023 HIPPI NETBSD_HDLC LINUX_SLL LTALK ECONET IPFILTER
  PFLOG CISCO_IOS IEEE802_11_PRISM IEEE802_11_AIRONET HHDLC IP_OVER_FC SUNATM RIO PCI_EXP AURORA
  IEEE802_11_RADIOTAP TZSP ARCNET_LINUX JUNIPER_MLPPP JUNIPER_MLFR JUNIPER_ES JUNIPER_GGSN JUNIPER_MFR
  JUNIPER_ATM2 JUNIPER_SERVICES JUNIPER_ATM1 APPLE_IP_OVER_IEEE1394 MTP2_WITH_PHDR MTP2 MTP3 SCCP DOCSIS
  LINUX_IRDA IBM_SP IBM_SN USER0 USER1 USER2 USER3 USER4 USER5 USER6 USER7 USER8 USER9 USER10 USER11
  USER12 USER13 USER14 USER15 IEEE802_11_AVS JUNIPER_MONITOR BACNET_MS_TP PPP_PPPD JUNIPER_PPPOE
  JUNIPER_PPPOE_ATM GPRS_LLC GPF_T GPF_F GCOM_T1E1 GCOM_SERIAL JUNIPER_PIC_PEER ERF_ETH ERF_POS
  LINUX_LAPD JUNIPER_ETHER JUNIPER_PPP JUNIPER_FRELAY JUNIPER_CHDLC MFR JUNIPER_VP A429 A653_ICM
  USB_FREEBSD BLUETOOTH_HCI_H4 IEEE802_16_MAC_CPS USB_LINUX CAN20B IEEE802_15_4_LINUX PPI
  IEEE802_16_MAC_CPS_RADIO JUNIPER_ISM IEEE802_15_4_WITHFCS SITA ERF RAIF1 IPMB_KONTRON JUNIPER_ST
  BLUETOOTH_HCI_H4_WITH_PHDR AX25_KISS LAPD PPP_WITH_DIR C_HDLC_WITH_DIR FRELAY_WITH_DIR LAPB_WITH_DIR -
  IPMB_LINUX FLEXRAY MOST LIN X2E_SERIAL X2E_XORAYA IEEE802_15_4_NONASK_PHY LINUX_EVDEV GSMTAP_UM
  GSMTAP_ABIS MPLS USB_LINUX_MMAPPED DECT AOS WIHART FC_2 FC_2_WITH_FRAME_DELIMS IPNET CAN_SOCKETCAN
  IPV4 IPV6 IEEE802_15_4_NOFCS DBUS JUNIPER_VS JUNIPER_SRX_E2E JUNIPER_FIBRECHANNEL DVB_CI MUX27010
  STANAG_5066_D_PDU JUNIPER_ATM_CEMIC NFLOG NETANALYZER NETANALYZER_TRANSPARENT IPOIB MPEG_2_TS NG40
  NFC_LLCP PFSYNC INFINIBAND SCTP USBPCAP RTAC_SERIAL BLUETOOTH_LE_LL WIRESHARK_UPPER_PDU NETLINK
  BLUETOOTH_LINUX_MONITOR BLUETOOTH_BREDR_BB BLUETOOTH_LE_LL_WITH_PHDR PROFIBUS_DL PKTAP EPON IPMI_HPM_2
  ZWAVE_R1_R2 ZWAVE_R3 WATTSTOPPER_DLM ISO_14443 RDS USB_DARWIN OPENFLOW SDLC TI_LLN_SNIFFER LORATAP
  VSOCK NORDIC_BLE DOCSIS31_XRA31 ETHERNET_MPACKET DISPLAYPORT_AUX LINUX_SLL2 SERCOS_MONITOR OPENVIZSLA
  EBHSCR VPP_DISPATCH DSA_TAG_BRCM DSA_TAG_BRCM_PREPEND IEEE802_15_4_TAP DSA_TAG_DSA DSA_TAG_EDSA ELEE
  Z_WAVE_SERIAL USB_2_0 ATSC_ALP ETW NETANALYZER_NG ZBOSS_NCP USB_2_0_LOW_SPEED USB_2_0_FULL_SPEED
  USB_2_0_HIGH_SPEED AUERSWALD_LOG ZWAVE_TAP SILABS_DEBUG_CHANNEL FIRA_UCI
`
  .trim()
  .split(/\s+/)

/** For example `LINKTYPE_ETHERNET`; `linktype-65000` for a value that has no name. */
export function linkTypeName(linkType: number): string {
  const name = LOW[linkType] ?? FROM_104[linkType - 104]
  return name === undefined || name === '-' ? `linktype-${linkType}` : `LINKTYPE_${name}`
}

/**
 * LINKTYPE_NFLOG (239): what Linux netfilter logs, and the IP packet within.
 *
 * Source: tcpdump.org/linktypes/LINKTYPE_NFLOG. Address family, version 0, a resource id, then attributes of
 * (length, type) in the recorder's byte order; type 9 is the packet. The order is told by the first length,
 * which is small. Each attribute is at least four bytes, so the frame's own length bounds the walk.
 */

const PAYLOAD = 9

function decodeNflog(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const family = data[at]!
  let next = at + 4
  // 1 where the low byte is the second one
  const low = next < end && data[next]! === 0 ? 1 : 0
  while (end - next >= 4) {
    const length = data[next + low]! | (data[next + 1 - low]! << 8)
    const type = data[next + 2 + low]! | (data[next + 3 - low]! << 8)
    if (length < 4) return NOT_IP
    if ((type & 0x7fff) === PAYLOAD) {
      const stop = Math.min(end, next + length)
      if (family === 2) return decodeIpv4(data, next + 4, stop, at, packets, i)
      return family === 10 ? decodeIpv6(data, next + 4, stop, at, packets, i) : NOT_IP
    }
    next += (length + 3) & ~3
  }
  return NOT_IP
}

/**
 * Token Ring (IEEE 802.5), FDDI and ARCNET: shared media whose frames carry LLC, or IP by a byte of its own.
 *
 * Token Ring: access and frame control, two addresses, source routing where the source's first bit says so (its length
 * in five bits), LLC where the frame control is of the kind 01. FDDI: frame control (LLC is 5x), two addresses, LLC.
 * ARCNET: one-byte addresses and a protocol: d4 with a fragment's flag and number (RFC 1201), f0 without (RFC 1051);
 * Linux puts two bytes of offset before it. Later fragments of RFC 1201 are not joined: they are no IP here.
 */

function decodeTokenRing(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
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

function decodeFddi(data: Uint8Array, at: number, end: number, packets: PacketBatch, i: number): number {
  if (end - at < 13) return LINK_HEADER_TRUNCATED
  copyAddresses(data, at + 1, packets, i)
  return (data[at]! & 0xf0) === 0x50 ? decodeLlc(data, at + 13, end, at, packets, i, 0) : NOT_IP
}

/** @param offsetBytes 2 in Linux's form */
function decodeArcnet(
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
