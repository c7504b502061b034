/**
 * PacketBatch: frames after their headers have been read, as parallel arrays; the same order and count as
 * the FrameBatch they came from, so nothing can be lost between the two.
 *
 * `status[i]` tells whether packet i can be keyed (PACKET_OK) or why it is skipped; the codes and their
 * public names stand in packet-status.ts. Addresses are four 32-bit words, most significant first; an IPv4
 * address is the last word with zeros before it, and `ipVersion` tells the two apart.
 */
export interface PacketBatch {
  count: number
  /** Number of the batch's first frame in its input, from 0. */
  firstFrame: number
  /** PACKET_OK, or the reason that the packet is not part of a flow. */
  readonly status: Uint8Array
  /** Whole microseconds since 1970, rounded down; NaN where the record has no time. */
  readonly timestampMicros: Float64Array
  /** Wire length of the frame, link header included. */
  readonly frameBytes: Uint32Array
  /** Bytes of the frame that the capture holds. */
  readonly capturedBytes: Uint32Array
  /** Length that the IP header states (IPv6: 40 + payload length). */
  readonly ipBytes: Uint32Array
  /** 4 or 6; 0 where there is no IP header. */
  readonly ipVersion: Uint8Array
  /** IANA protocol number of the transport (after IPv6 extension headers). */
  readonly protocol: Uint8Array
  /** Four words a packet. */
  readonly sourceAddress: Uint32Array
  /** Four words a packet. */
  readonly destinationAddress: Uint32Array
  /** ICMP: type and counterpart or code, see icmp.ts; 0 where the protocol has no ports. */
  readonly sourcePort: Uint16Array
  readonly destinationPort: Uint16Array
  /** FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128; 0 for other protocols. */
  readonly tcpFlags: Uint8Array
  /**
   * Bytes behind the transport header by the length in the IP header, whatever is captured or padded: TCP by its data
   * offset, UDP and ICMP 8, SCTP 12; of a later fragment all that it carries.
   */
  readonly payloadBytes: Uint32Array
  /** TTL, or IPv6 hop limit. */
  readonly hopLimit: Uint8Array
  /** Where the IP header begins in the frame batch's `data`; 0 where there is none. */
  readonly ipOffset: Uint32Array
  /** Where the transport header begins in the frame batch's `data`; 0 where it was not reached. */
  readonly transportOffset: Uint32Array
  /** VLAN identifier of the outermost tag; 0 where there is none, as of a tag that says nothing but a priority. */
  readonly vlan: Uint16Array
  /** VLAN tags: identifiers of the first in bits 0 to 11 and of the second in bits 12 to 23, and how many there are in bits 24 to 31. */
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
  uint32(length: number): Uint32Array
  float64(length: number): Float64Array
}

/** New arrays. */
export const HEAP_COLUMNS: ColumnSource = {
  uint8: (length) => new Uint8Array(length),
  uint16: (length) => new Uint16Array(length),
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
