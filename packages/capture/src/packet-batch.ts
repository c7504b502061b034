/**
 * Why a packet is not part of a flow. Every captured packet has exactly one status, so counts add up: captured = keyed +
 * the sum over reasons. The names are public (keys of `skipped` in reports); the codes are private to a process.
 */
export const PACKET_OK = 0

/**
 * Names by code; index 0 is the keyed packet.
 *
 * - link-type-unsupported: the frame's LINKTYPE_ is not read (a summary's `linkTypes` has its name)
 * - link-header-truncated: captured shorter than the link header, VLAN tags and SNAP included
 * - not-ip, arp: what follows the link header
 * - mpls, pppoe: a label stack or a PPPoE frame that carries no IP (discovery, LCP, other pseudowires)
 * - wlan-not-data, wlan-encrypted, wlan-later-fragment: 802.11 frames without a readable packet (management,
 *   control and empty data frames; protected ones; fragments of a frame other than its first)
 * - ieee802154-unsupported: IEEE 802.15.4, and so 6LoWPAN and Zigbee, whose headers are not read
 * - link-nesting-exceeded: more link headers inside each other than MAXIMUM_LINK_NESTING
 * - ip-header-truncated, ip-header-invalid: captured too short (extension headers and options included), or
 *   version or lengths that cannot be
 * - ip-later-fragment: a fragment other than the first, which has no ports
 * - transport-header-truncated, transport-header-invalid: no ports captured, or the IP length has no room
 *   for them
 * - ip-encrypted-or-no-transport: IPv6 "no next header"
 * - filtered-out: set by a caller on packets that its filter does not keep (never by decoding)
 * - duplicate: set by PacketCheck on copies of a packet, where they are to be dropped (never by decoding)
 */
export const PACKET_STATUS_NAMES = [
  'ok',
  'link-type-unsupported',
  'link-header-truncated',
  'not-ip',
  'arp',
  'ip-header-truncated',
  'ip-header-invalid',
  'ip-later-fragment',
  'transport-header-truncated',
  'transport-header-invalid',
  'ip-encrypted-or-no-transport',
  'mpls',
  'pppoe',
  'filtered-out',
  'wlan-not-data',
  'wlan-encrypted',
  'wlan-later-fragment',
  'ieee802154-unsupported',
  'link-nesting-exceeded',
  'duplicate',
] as const

/** What became of a packet: "ok", or the reason why it is in no flow. */
export type PacketStatusName = (typeof PACKET_STATUS_NAMES)[number]

/** The code of a status in a PacketBatch: its index in PACKET_STATUS_NAMES. */
export function packetStatusCode(name: PacketStatusName): number {
  return PACKET_STATUS_NAMES.indexOf(name)
}

export const LINK_TYPE_UNSUPPORTED = packetStatusCode('link-type-unsupported')
export const LINK_HEADER_TRUNCATED = packetStatusCode('link-header-truncated')
export const NOT_IP = packetStatusCode('not-ip')
export const ARP = packetStatusCode('arp')
export const IP_HEADER_TRUNCATED = packetStatusCode('ip-header-truncated')
export const IP_HEADER_INVALID = packetStatusCode('ip-header-invalid')
export const IP_LATER_FRAGMENT = packetStatusCode('ip-later-fragment')
export const TRANSPORT_HEADER_TRUNCATED = packetStatusCode('transport-header-truncated')
export const TRANSPORT_HEADER_INVALID = packetStatusCode('transport-header-invalid')
export const NO_TRANSPORT = packetStatusCode('ip-encrypted-or-no-transport')
export const MPLS = packetStatusCode('mpls')
export const PPPOE = packetStatusCode('pppoe')
export const WLAN_NOT_DATA = packetStatusCode('wlan-not-data')
export const WLAN_ENCRYPTED = packetStatusCode('wlan-encrypted')
export const WLAN_LATER_FRAGMENT = packetStatusCode('wlan-later-fragment')
export const IEEE802154_UNSUPPORTED = packetStatusCode('ieee802154-unsupported')
export const LINK_NESTING_EXCEEDED = packetStatusCode('link-nesting-exceeded')

/**
 * FrameBatch: many frames as parallel arrays, because an object per packet costs ten times what the bytes cost. The
 * frames' bytes stay where they were read. A batch is borrowed: it is valid until the next one is asked for.
 */
export interface FrameBatch {
  /** Frames in this batch; the arrays may be longer. */
  count: number
  /** Number of the batch's first frame in its input, from 0. */
  firstFrame: number
  /** The block that holds the frames' bytes. */
  data: Uint8Array
  /** Where frame i begins in `data`. */
  readonly offset: Uint32Array
  /** Bytes of frame i that the capture holds. */
  readonly capturedBytes: Uint32Array
  /** Bytes that frame i had on the wire. */
  readonly wireBytes: Uint32Array
  /** Whole microseconds since 1970, rounded down; NaN without a time (pcapng SPB) or outside ±(2^53 − 1) µs. */
  readonly timestampMicros: Float64Array
  /** What lies below the microsecond, 0 … 999 ns. */
  readonly timestampSubNanos: Uint16Array
  /** LINKTYPE_ value of tcpdump.org for frame i. */
  readonly linkType: Uint16Array
}

/** An empty batch with room for `capacity` frames. */
export function createFrameBatch(capacity: number): FrameBatch {
  return {
    count: 0,
    firstFrame: 0,
    data: new Uint8Array(0),
    offset: new Uint32Array(capacity),
    capturedBytes: new Uint32Array(capacity),
    wireBytes: new Uint32Array(capacity),
    timestampMicros: new Float64Array(capacity),
    timestampSubNanos: new Uint16Array(capacity),
    linkType: new Uint16Array(capacity),
  }
}

/** Copies the columns of frame i of a batch to frame n of another, which has the same `data` or an `offset` set later. */
export function copyFrame(from: FrameBatch, i: number, to: FrameBatch, n: number): void {
  to.offset[n] = from.offset[i]!
  to.capturedBytes[n] = from.capturedBytes[i]!
  to.wireBytes[n] = from.wireBytes[i]!
  to.timestampMicros[n] = from.timestampMicros[i]!
  to.timestampSubNanos[n] = from.timestampSubNanos[i]!
  to.linkType[n] = from.linkType[i]!
}

/**
 * PacketBatch: decoded frames as parallel arrays, in the order and number of their FrameBatch.
 *
 * Addresses are four 32-bit words, most significant first; an IPv4 address is the last word with zeros before it.
 */
export interface PacketBatch {
  count: number
  /** Number of the batch's first frame in its input, from 0. */
  firstFrame: number
  /** PACKET_OK, or the reason that the packet is not part of a flow. */
  readonly status: Uint8Array
  /** Whole microseconds since 1970, rounded down; NaN without a time. */
  readonly timestampMicros: Float64Array
  /** Wire length of the frame, link header included. */
  readonly frameBytes: Uint32Array
  /** Bytes of the frame that the capture holds. */
  readonly capturedBytes: Uint32Array
  /** Length that the IP header states (IPv6: 40 + payload length). */
  readonly ipBytes: Uint32Array
  /** 4 or 6; 0 without an IP header. */
  readonly ipVersion: Uint8Array
  /** IANA protocol number of the transport (after IPv6 extension headers). */
  readonly protocol: Uint8Array
  /** Four words a packet. */
  readonly sourceAddress: Uint32Array
  /** Four words a packet. */
  readonly destinationAddress: Uint32Array
  /** ICMP: type and counterpart or code, see ip.ts; 0 if the protocol has no ports. */
  readonly sourcePort: Uint16Array
  readonly destinationPort: Uint16Array
  /** FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128; 0 for other protocols. */
  readonly tcpFlags: Uint8Array
  /** Bytes after the transport header (UDP and ICMP 8, SCTP 12 bytes) by the IP length; a later fragment's whole content. */
  readonly payloadBytes: Uint32Array
  /** TTL, or IPv6 hop limit. */
  readonly hopLimit: Uint8Array
  /** Where the IP header begins in the frame batch's `data`; 0 if there is none. */
  readonly ipOffset: Uint32Array
  /** Where the transport header begins in the frame batch's `data`; 0 if it was not reached. */
  readonly transportOffset: Uint32Array
  /** VLAN identifier of the outermost tag; 0 without one, and for a tag with only a priority. */
  readonly vlan: Uint16Array
  /** VLAN tags: identifiers of the first two in bits 0–11 and 12–23, their number in bits 24–31. */
  readonly vlanTags: Uint32Array
  /** Six bytes a packet, zeros where the link layer has none. */
  readonly sourceMac: Uint8Array
  /** Six bytes a packet, zeros where the link layer has none. */
  readonly destinationMac: Uint8Array
}

/** Where the columns of a batch come from. */
export interface ColumnSource {
  uint8(length: number): Uint8Array
  uint16(length: number): Uint16Array
  int32(length: number): Int32Array
  uint32(length: number): Uint32Array
  float64(length: number): Float64Array
}

/** New arrays. */
export const HEAP_COLUMNS: ColumnSource = {
  uint8: (length) => new Uint8Array(length),
  uint16: (length) => new Uint16Array(length),
  int32: (length) => new Int32Array(length),
  uint32: (length) => new Uint32Array(length),
  float64: (length) => new Float64Array(length),
}

/** @param columns - default new arrays; all of them zeros. */
export function createPacketBatch(capacity: number, columns: ColumnSource = HEAP_COLUMNS): PacketBatch {
  return {
    count: 0,
    firstFrame: 0,
    status: columns.uint8(capacity),
    timestampMicros: columns.float64(capacity),
    frameBytes: columns.uint32(capacity),
    capturedBytes: columns.uint32(capacity),
    ipBytes: columns.uint32(capacity),
    ipVersion: columns.uint8(capacity),
    protocol: columns.uint8(capacity),
    sourceAddress: columns.uint32(4 * capacity),
    destinationAddress: columns.uint32(4 * capacity),
    sourcePort: columns.uint16(capacity),
    destinationPort: columns.uint16(capacity),
    tcpFlags: columns.uint8(capacity),
    payloadBytes: columns.uint32(capacity),
    hopLimit: columns.uint8(capacity),
    ipOffset: columns.uint32(capacity),
    transportOffset: columns.uint32(capacity),
    vlan: columns.uint16(capacity),
    vlanTags: columns.uint32(capacity),
    sourceMac: columns.uint8(6 * capacity),
    destinationMac: columns.uint8(6 * capacity),
  }
}

/** A column of a PacketBatch. */
export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** Columns that a copy has: what flows need, not the offsets into the frames' bytes, which are gone. */
const COLUMNS = [
  ...(['status', 'timestampMicros', 'frameBytes', 'capturedBytes', 'ipBytes', 'ipVersion'] as const),
  ...(['protocol', 'sourcePort', 'destinationPort', 'tcpFlags', 'payloadBytes', 'hopLimit', 'vlan'] as const),
  ...(['sourceAddress', 'destinationAddress', 'sourceMac', 'destinationMac'] as const),
] as const

const ADDRESSES = COLUMNS.indexOf('sourceAddress')
const MACS = COLUMNS.indexOf('sourceMac')

/** The columns that copyPackets copies. */
export function columnsOf(batch: PacketBatch): Column[] {
  return COLUMNS.map((name) => batch[name])
}

/**
 * Copies packets `start` to `end`; source and target may overlap. @param memory - which columns may share
 */
export function copyPackets(
  from: readonly Column[],
  start: number,
  end: number,
  to: readonly Column[],
  at: number,
  memory: Uint8Array,
): void {
  for (let c = 0; c < from.length; c++) {
    const source = from[c]!
    const target = to[c]!
    const width = c < ADDRESSES ? 1 : c < MACS ? 4 : 6
    if (source.buffer !== memory.buffer) target.set(source.subarray(width * start, width * end), width * at)
    else {
      // Without a view of each column, which is garbage.
      const bytes = width * source.BYTES_PER_ELEMENT
      memory.copyWithin(
        target.byteOffset + bytes * at,
        source.byteOffset + bytes * start,
        source.byteOffset + bytes * end,
      )
    }
  }
}

/** Copies packet i to place j of another batch, without the offsets. */
export function copyPacket(from: PacketBatch, i: number, to: PacketBatch, j: number): void {
  to.status[j] = from.status[i]!
  to.frameBytes[j] = from.frameBytes[i]!
  to.capturedBytes[j] = from.capturedBytes[i]!
  to.ipBytes[j] = from.ipBytes[i]!
  to.ipVersion[j] = from.ipVersion[i]!
  to.protocol[j] = from.protocol[i]!
  to.sourcePort[j] = from.sourcePort[i]!
  to.destinationPort[j] = from.destinationPort[i]!
  to.tcpFlags[j] = from.tcpFlags[i]!
  to.payloadBytes[j] = from.payloadBytes[i]!
  to.hopLimit[j] = from.hopLimit[i]!
  to.vlan[j] = from.vlan[i]!
  for (let w = 0; w < 4; w++) {
    to.sourceAddress[4 * j + w] = from.sourceAddress[4 * i + w]!
    to.destinationAddress[4 * j + w] = from.destinationAddress[4 * i + w]!
  }
  for (let b = 0; b < 6; b++) {
    to.sourceMac[6 * j + b] = from.sourceMac[6 * i + b]!
    to.destinationMac[6 * j + b] = from.destinationMac[6 * i + b]!
  }
}
