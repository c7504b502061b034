/**
 * The choice of a decoder by LINKTYPE_ value, and link headers that are neither Ethernet's nor a recorder's.
 *
 * Source: tcpdump.org/linktypes. 12 and 14 are values that BSDs used for RAW. SLL (113) and SLL2 (276) are Linux's cooked
 * headers: their protocol is an EtherType, 4 for an LLC header, and no EtherType for netlink devices. PPI (192), PKTAP
 * (258, Darwin) and TZSP (128) name the link type of the frame that follows. Any other link type is counted, by name.
 */
import {
  copyMac,
  decodeCiscoHdlc,
  decodeEthernet,
  decodeEtherType,
  decodeLlc,
  decodeMpls,
  decodePpp,
  decodePppHdlc,
  decodePppoe,
} from './ethernet.js'
import { type Decode, decodeIpv4, decodeIpv6, type FrameCursor, uint16 } from './ip.js'
import {
  IEEE802154_UNSUPPORTED,
  IP_HEADER_TRUNCATED,
  LINK_HEADER_TRUNCATED,
  LINK_TYPE_UNSUPPORTED,
  NOT_IP,
} from './packet-batch.js'
import {
  decodeEnc,
  decodeEpon,
  decodeErf,
  decodeFrameRelay,
  decodeIpnet,
  decodeJuniper,
  decodeLoopback,
  decodeNflog,
  decodePflog,
} from './recorder-headers.js'
import { decodeAvs, decodePrism, decodeRadiotap, decodeWlan } from './wlan.js'

/** The LINKTYPE_ registry of tcpdump.org/linktypes: values below 104, and those from 104 on in order ("-" is reserved). */
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

/** For example `LINKTYPE_ETHERNET`; `linktype-65000` for a value without a name. */
export function linkTypeName(linkType: number): string {
  const name = LOW[linkType] ?? FROM_104[linkType - 104]
  return name === undefined || name === '-' ? `linktype-${linkType}` : `LINKTYPE_${name}`
}

/**
 * Token Ring (IEEE 802.5), FDDI and ARCNET: shared media whose frames carry LLC, or IP by a byte of its own.
 *
 * Token Ring: access and frame control, two addresses, source routing if the source's first bit is set (its length in
 * five bits), LLC if the frame control is of the kind 01. FDDI: frame control (LLC is 5x), two addresses, LLC. ARCNET:
 * one-byte addresses and a protocol: d4 with a fragment's flag and number (RFC 1201), f0 without (RFC 1051); Linux puts
 * two bytes of offset before it. Later fragments of RFC 1201 are not joined and count as no IP.
 */

function decodeTokenRing(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 14) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, at + 2)
  copyMac(packets.sourceMac, i, data, at + 8)
  const isRouted = (data[at + 8]! & 0x80) !== 0
  packets.sourceMac[6 * i]! &= 0x7f
  if (data[at + 1]! >>> 6 !== 1) return NOT_IP
  if (!isRouted) return decodeLlc(frame, at + 14)
  if (end - at < 15) return LINK_HEADER_TRUNCATED
  const routingBytes = data[at + 14]! & 0x1f
  return routingBytes < 2 ? NOT_IP : decodeLlc(frame, at + 14 + routingBytes)
}

function decodeFddi(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 13) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, at + 1)
  copyMac(packets.sourceMac, i, data, at + 7)
  return (data[at]! & 0xf0) === 0x50 ? decodeLlc(frame, at + 13) : NOT_IP
}

/** @param protocolAt - where the protocol is: 2, or 4 in Linux's form */
function decodeArcnet(protocolAt: number): Decode {
  return (frame, at) => {
    const { data, end } = frame
    const next = at + protocolAt
    if (end - next < 1) return LINK_HEADER_TRUNCATED
    if (data[next] === 0xf0) return decodeIpv4(frame, next + 1)
    if (data[next] !== 0xd4) return NOT_IP
    if (end - next < 4) return LINK_HEADER_TRUNCATED
    // an even flag other than 0 is a later fragment
    const flag = data[next + 1]!
    return flag !== 0 && (flag & 1) === 0 ? NOT_IP : decodeIpv4(frame, next + 4)
  }
}

function decodeRaw(frame: FrameCursor, at: number): number {
  if (at >= frame.end) return IP_HEADER_TRUNCATED
  const version = frame.data[at]! >>> 4
  if (version === 4) return decodeIpv4(frame, at)
  return version === 6 ? decodeIpv6(frame, at) : NOT_IP
}

/** An EtherType at `typeAt` of a header that holds nothing else of use. */
function decodeTyped(headerBytes: number, typeAt: number): Decode {
  return (frame, at) => {
    if (frame.end - at < headerBytes) return LINK_HEADER_TRUNCATED
    const type = uint16(frame.data, at + typeAt)
    return type <= 1500 ? NOT_IP : decodeEtherType(frame, type, at + headerBytes)
  }
}

/** Destination and source of eight bytes, of which the last six are a MAC address; LLC. */
function decodeIpOverFibreChannel(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 16) return LINK_HEADER_TRUNCATED
  copyMac(packets.destinationMac, i, data, at + 2)
  copyMac(packets.sourceMac, i, data, at + 10)
  return decodeLlc(frame, at + 16)
}

/** Flags, of which four bits name the traffic (2 is LLC), a path and a channel. */
function decodeSunAtm(frame: FrameCursor, at: number): number {
  if (frame.end - at < 4) return LINK_HEADER_TRUNCATED
  return (frame.data[at]! & 0x0f) === 2 ? decodeLlc(frame, at + 4) : NOT_IP
}

const ARPHRD_NETLINK = 824
const COOKED_LLC = 4

function decodeCooked(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 16) return LINK_HEADER_TRUNCATED
  if (uint16(data, at + 4) === 6) copyMac(packets.sourceMac, i, data, at + 6)
  return decodeCookedProtocol(frame, uint16(data, at + 2), uint16(data, at + 14), at + 16)
}

function decodeCooked2(frame: FrameCursor, at: number): number {
  const { data, end, packets, i } = frame
  if (end - at < 20) return LINK_HEADER_TRUNCATED
  if (data[at + 11]! === 6) copyMac(packets.sourceMac, i, data, at + 12)
  return decodeCookedProtocol(frame, uint16(data, at + 8), uint16(data, at), at + 20)
}

function decodeCookedProtocol(frame: FrameCursor, hardware: number, protocol: number, at: number): number {
  if (hardware === ARPHRD_NETLINK) return NOT_IP
  return protocol === COOKED_LLC ? decodeLlc(frame, at) : decodeEtherType(frame, protocol, at)
}

const LINKTYPE_PPI = 192
const LINKTYPE_PKTAP = 258

/** PPI and PKTAP inside each other are not read, so that headers cannot be stacked without end. */
function decodeNamed(frame: FrameCursor, linkType: number, at: number): number {
  if (linkType === LINKTYPE_PPI || linkType === LINKTYPE_PKTAP) return LINK_TYPE_UNSUPPORTED
  return decodeLinkLayer(frame, linkType, at)
}

function decodePpi(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 8) return LINK_HEADER_TRUNCATED
  const length = data[at + 2]! | (data[at + 3]! << 8)
  if (data[at]! !== 0 || length < 8) return NOT_IP
  return length > end - at ? LINK_HEADER_TRUNCATED : decodeNamed(frame, littleWord(data, at + 4), at + length)
}

/** Begins with its length and a link type. */
function decodePktap(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 12) return LINK_HEADER_TRUNCATED
  const headerBytes = littleWord(data, at)
  if (headerBytes < 12) return NOT_IP
  if (headerBytes > end - at) return LINK_HEADER_TRUNCATED
  return decodeNamed(frame, littleWord(data, at + 8), at + headerBytes)
}

function littleWord(data: Uint8Array, at: number): number {
  return (data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24)) >>> 0
}

/** TZSP's numbers of link layers, as LINKTYPE_ values. */
const TZSP_LINK_TYPES: Readonly<Record<number, number>> = { 1: 1, 6: 6, 9: 9, 18: 105, 119: 119, 127: 163 }

/** Version 1, a type, a link layer's number, and tagged fields up to the one that ends them. */
function decodeTzsp(frame: FrameCursor, at: number): number {
  const { data, end } = frame
  if (end - at < 4) return LINK_HEADER_TRUNCATED
  const linkType = TZSP_LINK_TYPES[uint16(data, at + 2)]
  // types 0 and 1 carry frames
  if (data[at] !== 1 || data[at + 1]! > 1 || linkType === undefined) return NOT_IP
  let next = at + 4
  for (;;) {
    if (next >= end) return LINK_HEADER_TRUNCATED
    const tag = data[next++]!
    if (tag === 1) break
    if (tag === 0) continue
    if (next >= end) return LINK_HEADER_TRUNCATED
    next += 1 + data[next]!
  }
  return decodeLinkLayer(frame, linkType, next)
}

const refuse802154: Decode = () => IEEE802154_UNSUPPORTED

/** The calls are marked pure, so that bundlers leave the table out of programs that decode no packets. */
const DECODERS: Readonly<Record<number, Decode>> = {
  0: decodeLoopback,
  1: decodeEthernet,
  6: decodeTokenRing,
  7: /* @__PURE__ */ decodeArcnet(2),
  9: decodePpp,
  10: decodeFddi,
  12: decodeRaw,
  14: decodeRaw,
  50: decodePppHdlc,
  51: decodePppoe,
  // LLC with nothing before it
  100: decodeLlc,
  101: decodeRaw,
  104: decodeCiscoHdlc,
  105: decodeWlan,
  // Classical IP over ATM, as Linux delivers it
  106: decodeRaw,
  107: decodeFrameRelay,
  108: decodeLoopback,
  109: decodeEnc,
  // NetBSD's form of Cisco's HDLC
  112: decodeCiscoHdlc,
  113: decodeCooked,
  117: decodePflog,
  119: decodePrism,
  122: decodeIpOverFibreChannel,
  123: decodeSunAtm,
  127: decodeRadiotap,
  128: decodeTzsp,
  129: /* @__PURE__ */ decodeArcnet(4),
  // IP over IEEE 1394: two addresses of eight bytes
  138: /* @__PURE__ */ decodeTyped(18, 16),
  163: decodeAvs,
  167: /* @__PURE__ */ decodeJuniper(decodeEthernet),
  178: /* @__PURE__ */ decodeJuniper(decodeEthernet),
  179: /* @__PURE__ */ decodeJuniper(decodePpp),
  180: /* @__PURE__ */ decodeJuniper(decodeFrameRelay),
  181: /* @__PURE__ */ decodeJuniper(decodeCiscoHdlc),
  191: refuse802154,
  192: decodePpi,
  195: refuse802154,
  197: decodeErf,
  // a direction byte comes first
  204: (frame, at) => (frame.end - at < 1 ? LINK_HEADER_TRUNCATED : decodePpp(frame, at + 1)),
  215: refuse802154,
  219: decodeMpls,
  226: decodeIpnet,
  228: decodeIpv4,
  229: decodeIpv6,
  230: refuse802154,
  239: decodeNflog,
  // IP over InfiniBand: a global route of 40 bytes
  242: /* @__PURE__ */ decodeTyped(44, 40),
  258: decodePktap,
  259: decodeEpon,
  276: decodeCooked2,
  283: refuse802154,
}

/** Decodes a frame of this LINKTYPE_ from `at` on; returns the packet's status. */
export function decodeLinkLayer(frame: FrameCursor, linkType: number, at: number): number {
  if (linkType === 1) return decodeEthernet(frame, at)
  return DECODERS[linkType]?.(frame, at) ?? LINK_TYPE_UNSUPPORTED
}
