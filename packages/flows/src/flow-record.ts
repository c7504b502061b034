/**
 * FlowRecord: what a consumer gets for each piece of a flow that has ended.
 *
 * One object serves all records of an extractor: it and its arrays are valid until the callback returns, and
 * `copyFlowRecord` makes one to keep. A record without a row says why; nothing that was counted into a flow
 * goes by without a record.
 */
import { type FlowIdentity, protocolOfKey } from './flow-identity.js'

/** Why a record ended. IPFIX flowEndReason (element 136): 1, 2, 2, 4, 5 and 3 in this order. */
export const END_REASONS = [
  'idle-timeout',
  'active-timeout',
  'window',
  'end-of-capture',
  'evicted',
  'closed',
] as const
export type EndReason = (typeof END_REASONS)[number]

/**
 * Why a record has no row:
 * - one-packet: a whole flow of one packet (see OnePacketRule);
 * - too-few-packets: a flow with fewer packets than the contract's minimum, in all or within its duration;
 * - remainder: what is left at the end of a long flow after its last full window;
 * - last-piece: the last piece of a flow that was cut, under idle-gap rules.
 */
export type NoRowReason = 'one-packet' | 'too-few-packets' | 'remainder' | 'last-piece'

export interface FlowRecord {
  /** 4 or 6. */
  ipVersion: number
  /** IANA protocol number. */
  protocol: number
  /**
   * Four words, most significant first; IPv4 in the last. The initiator sent the flow's first packet, unless that is a
   * SYN-ACK, which a responder sends.
   */
  initiatorAddress: Uint32Array
  responderAddress: Uint32Array
  /** ICMP: type, and counterpart or code (flow-protocols.ts). */
  initiatorPort: number
  responderPort: number
  /** Six bytes, from the flow's first packet. */
  initiatorMac: Uint8Array
  responderMac: Uint8Array
  /** VLAN identifier of the outermost tag of the flow's first packet; 0 where there is none. */
  vlan: number
  /** Captures that ended before this one. */
  captureIndex: number
  /** Number in the capture of this record's first packet, from 0. */
  firstPacketNumber: number
  /** Number in the capture of the flow's first packet: equal for all records of one flow. */
  flowFirstPacketNumber: number
  /** Time of that packet, microseconds since 1970. */
  flowStartMicros: number
  /** 0 for the first record of a flow, 1 for the next, … */
  pieceIndex: number
  /** Time of the record's first packet, microseconds since 1970. */
  startMicros: number
  /** From its first packet to its last, those after a truncated row's end included. */
  durationMicros: number
  /** All packets of the record, both directions. */
  packets: number
  /** Sum of the contract's size measure over those packets. */
  bytes: number
  /** Of those packets and bytes, the initiator's and the responder's. */
  initiatorPackets: number
  responderPackets: number
  initiatorBytes: number
  responderBytes: number
  /** Sums of the lengths in the IP headers. */
  initiatorIpBytes: number
  responderIpBytes: number
  /** TCP flags that were seen in any packet of each end: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, … */
  initiatorTcpFlags: number
  responderTcpFlags: number
  /** Packets that the row is about, before it is cut to packetsPerFlow: in `truncate`, those in time. */
  rowPackets: number
  endReason: EndReason
  /** D numbers; null for the reason in `noRowReason`, or because `rowGivenEarly`. */
  row: Float64Array | null
  noRowReason: NoRowReason | null
  /** The row went out before the record ended (see FlowExtractorOptions.onEarlyRow). */
  rowGivenEarly: boolean
}

/** A record of no packets, to be filled in. */
export function createFlowRecord(): FlowRecord {
  return {
    ipVersion: 0,
    protocol: 0,
    initiatorAddress: new Uint32Array(4),
    responderAddress: new Uint32Array(4),
    initiatorPort: 0,
    responderPort: 0,
    initiatorMac: new Uint8Array(6),
    responderMac: new Uint8Array(6),
    vlan: 0,
    captureIndex: 0,
    firstPacketNumber: 0,
    flowFirstPacketNumber: 0,
    flowStartMicros: 0,
    pieceIndex: 0,
    startMicros: 0,
    durationMicros: 0,
    packets: 0,
    bytes: 0,
    initiatorPackets: 0,
    responderPackets: 0,
    initiatorBytes: 0,
    responderBytes: 0,
    initiatorIpBytes: 0,
    responderIpBytes: 0,
    initiatorTcpFlags: 0,
    responderTcpFlags: 0,
    rowPackets: 0,
    endReason: 'end-of-capture',
    row: null,
    noRowReason: null,
    rowGivenEarly: false,
  }
}

/** A record of its own, with arrays of its own. */
export function copyFlowRecord(record: FlowRecord): FlowRecord {
  return {
    ...record,
    initiatorAddress: record.initiatorAddress.slice(),
    responderAddress: record.responderAddress.slice(),
    initiatorMac: record.initiatorMac.slice(),
    responderMac: record.responderMac.slice(),
    row: record.row === null ? null : record.row.slice(),
  }
}

/** Fills in who the flow is. */
export function describeFlow(identity: FlowIdentity, flow: number, record: FlowRecord): void {
  const { keys } = identity
  const at = identity.keyStride * flow
  const swapped = identity.swapped[flow] === 1
  const a = swapped ? record.responderAddress : record.initiatorAddress
  const b = swapped ? record.initiatorAddress : record.responderAddress
  for (let w = 0; w < 3; w++) {
    a[w] = keys[at + 4 + w]
    b[w] = keys[at + 7 + w]
  }
  a[3] = keys[at + 2]
  b[3] = keys[at + 3]
  const portA = keys[at + 1] >>> 16
  const portB = keys[at + 1] & 0xffff
  record.ipVersion = keys[at] & 0xff
  record.protocol = protocolOfKey(keys[at])
  record.vlan = identity.vlan[flow]
  record.initiatorPort = swapped ? portB : portA
  record.responderPort = swapped ? portA : portB
  for (let i = 0; i < 6; i++) {
    record.initiatorMac[i] = identity.macs[12 * flow + i]
    record.responderMac[i] = identity.macs[12 * flow + 6 + i]
  }
  record.captureIndex = identity.captureIndex[flow]
  record.flowFirstPacketNumber = identity.firstPacketNumber[flow]
  record.flowStartMicros = identity.startMicros[flow]
}
