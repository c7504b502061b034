/**
 * FlowRecord: delivered for each ended piece of a flow. One object serves all records of an extractor: it and its arrays
 * are valid until the callback returns; `copyFlowRecord` makes a copy to keep.
 */

import type { ColumnSource, PacketBatch } from '@oddflow/capture'

/** Records by outcome. records = rows + the other four kinds, exactly. */
export interface RecordCounts {
  /** Records of all kinds. */
  records: number
  /** Records with a row. */
  rows: number
  onePacketFlows: number
  shortRecords: number
  remainders: number
  /** Packets in those remainders. */
  remainderPackets: number
  /** Last pieces of cut flows, under idle-gap rules. */
  lastPieces: number
}

const COUNTED_AS: Readonly<Record<NoRowReason, keyof RecordCounts>> = {
  'one-packet': 'onePacketFlows',
  'too-few-packets': 'shortRecords',
  remainder: 'remainders',
  'last-piece': 'lastPieces',
}

export function createRecordCounts(): RecordCounts {
  const none = { records: 0, rows: 0, onePacketFlows: 0, shortRecords: 0 }
  return { ...none, remainders: 0, remainderPackets: 0, lastPieces: 0 }
}

/** Counts a record that has ended. */
export function countRecord(counts: RecordCounts, { noRowReason, packets }: FlowRecord): void {
  counts.records++
  counts[noRowReason === null ? 'rows' : COUNTED_AS[noRowReason]]++
  if (noRowReason === 'remainder') counts.remainderPackets += packets
}

/**
 * FlowIdentity: columns with a flow's key, the end that began it, and MACs and VLAN of its first packet.
 *
 * A key is ten 32-bit words: [VLAN, protocol and IP version, both ports, a3, b3, a0, a1, a2, b0, b1, b2], where a and b
 * are the two ends, a the lower by (address, port), and a0…a3 the words of a's address, most significant first. IPv4
 * uses only a3 and b3, so the first four words are its whole key. The IP version is part of the key, the VLAN only if
 * requested (otherwise 0), the interface never.
 */

export const KEY_WORDS = 10
/** Words of an IPv4 key, at the front of the ten. */
export const IPV4_KEY_WORDS = 4

/** Keys, ends and first packets of flows, in columns. */
export interface FlowIdentity {
  /** Flow f's key begins at word keyStride · f. */
  keys: Uint32Array
  readonly keyStride: number
  /** 1 where end b sent the first packet. */
  swapped: Uint8Array
  /** Twelve bytes a flow: the initiator's MAC, then the responder's, from the first packet. */
  macs: Uint8Array
  /** VLAN of the first packet. */
  vlan: Uint16Array
  /** Number of the flow's first packet in its capture, from 0. */
  firstPacketNumber: Float64Array
  /** The capture's time of that packet. */
  startMicros: Float64Array
  /** Captures that ended before this flow began. */
  captureIndex: Uint32Array
}

/** Bytes a flow of all but the keys. */
export const IDENTITY_BYTES_BUT_KEYS = 1 + 12 + 2 + 8 + 8 + 4
export const IDENTITY_BYTES = 4 * KEY_WORDS + IDENTITY_BYTES_BUT_KEYS

/** @param keys - where the keys stand, if they have a place already. */
export function createFlowIdentity(
  capacity: number,
  keys: Uint32Array = new Uint32Array(KEY_WORDS * capacity),
  keyStride = KEY_WORDS,
): FlowIdentity {
  return {
    keys,
    keyStride,
    swapped: new Uint8Array(capacity),
    macs: new Uint8Array(12 * capacity),
    vlan: new Uint16Array(capacity),
    firstPacketNumber: new Float64Array(capacity),
    startMicros: new Float64Array(capacity),
    captureIndex: new Uint32Array(capacity),
  }
}

/** @param keys - the keys, if they have moved already. */
export function growFlowIdentity(identity: FlowIdentity, capacity: number, keys?: Uint32Array): void {
  identity.keys = keys ?? grown(identity.keys, new Uint32Array(identity.keyStride * capacity))
  identity.swapped = grown(identity.swapped, new Uint8Array(capacity))
  identity.macs = grown(identity.macs, new Uint8Array(12 * capacity))
  identity.vlan = grown(identity.vlan, new Uint16Array(capacity))
  identity.firstPacketNumber = grown(identity.firstPacketNumber, new Float64Array(capacity))
  identity.startMicros = grown(identity.startMicros, new Float64Array(capacity))
  identity.captureIndex = grown(identity.captureIndex, new Uint32Array(capacity))
}

export function copyIdentity(from: FlowIdentity, i: number, to: FlowIdentity, j: number): void {
  for (let w = 0; w < KEY_WORDS; w++) to.keys[to.keyStride * j + w] = from.keys[from.keyStride * i + w]
  for (let b = 0; b < 12; b++) to.macs[12 * j + b] = from.macs[12 * i + b]
  to.vlan[j] = from.vlan[i]
  to.swapped[j] = from.swapped[i]
  to.firstPacketNumber[j] = from.firstPacketNumber[i]
  to.startMicros[j] = from.startMicros[i]
  to.captureIndex[j] = from.captureIndex[i]
}

/**
 * Writes the key of packet i to key[keyAt …] (only the first words for IPv4); returns whether its source is end b. With
 * `directional`, end a is the source, so each direction has its own key.
 */
export function writeKey(
  batch: PacketBatch,
  i: number,
  key: Uint32Array,
  keyAt: number,
  directional: boolean,
  vlanKey: boolean,
): boolean {
  const { sourceAddress, destinationAddress } = batch
  const sourcePort = batch.sourcePort[i]
  const destinationPort = batch.destinationPort[i]
  const version = batch.ipVersion[i]
  const at = 4 * i
  let order = 0
  if (version !== 4) {
    for (let w = 0; w < 3 && order === 0; w++) {
      order = sourceAddress[at + w] - destinationAddress[at + w]
    }
  }
  if (order === 0) order = sourceAddress[at + 3] - destinationAddress[at + 3]
  if (order === 0) order = sourcePort - destinationPort
  const swapped = order > 0 && !directional
  const a = swapped ? destinationAddress : sourceAddress
  const b = swapped ? sourceAddress : destinationAddress
  key[keyAt] = (batch.protocol[i] << 8) | version
  if (vlanKey) key[keyAt] |= batch.vlan[i] << 16
  key[keyAt + 1] = swapped ? (destinationPort << 16) | sourcePort : (sourcePort << 16) | destinationPort
  key[keyAt + 2] = a[at + 3]
  key[keyAt + 3] = b[at + 3]
  if (version !== 4) {
    for (let w = 0; w < 3; w++) {
      key[keyAt + 4 + w] = a[at + w]
      key[keyAt + 7 + w] = b[at + w]
    }
  }
  return swapped
}

/** IANA protocol number of a key, from its first word. */
export function protocolOfKey(word: number): number {
  return (word >>> 8) & 0xff
}

/** `into` with the front of it taken from `from`. */
export function grown<T extends Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array>(
  from: T,
  into: T,
): T {
  into.set(from)
  return into
}

/**
 * FlowLines: the data of a flow that every packet needs, in one cache line a flow.
 *
 * Waiting for a cache line takes as long as a hundred instructions. So the key (ten words), the time of the last packet
 * and the flow's place in the activity log are together in 64 bytes.
 */

export const LINE_BYTES = 64
export const LINE_WORDS = LINE_BYTES / 4
export const LINE_DOUBLES = LINE_BYTES / 8

/** Word of a line: hash of the key; of a free flow, the next free one. */
export const HASH = KEY_WORDS
/** Word: place of the flow's live entry in its log (activity-log.ts). */
export const PLACE = 11
/** Double: time of the flow's last packet, microseconds. */
export const LAST_MICROS = 6
/** Word: kind of activity (activity-log.ts). */
export const KIND = 14
/** Word: the bits below; all except the first are used only if TCP flows end when they close. */
export const ENDS = 15
/** End b of the key is the initiator. */
export const SWAPPED = 1
/** The initiator has sent a packet, has sent a FIN; shifted by one, the responder. */
export const SENT = 2
export const SENT_FIN = 8

export class FlowLines {
  /** The same bytes as signed words, as unsigned words and as doubles. */
  words!: Int32Array
  keys!: Uint32Array
  times!: Float64Array
  readonly #space: ColumnSource

  constructor(capacity: number, space: ColumnSource) {
    this.#space = space
    this.#allocate(capacity)
  }

  grow(capacity: number): void {
    const before = this.words
    this.#allocate(capacity)
    this.words.set(before)
  }

  #allocate(capacity: number): void {
    const { buffer, byteOffset } = this.#space.int32(LINE_WORDS * capacity)
    this.words = new Int32Array(buffer, byteOffset, LINE_WORDS * capacity)
    this.keys = new Uint32Array(buffer, byteOffset, LINE_WORDS * capacity)
    this.times = new Float64Array(buffer, byteOffset, LINE_DOUBLES * capacity)
  }
}

/** Why a record ended. IPFIX flowEndReason (element 136): 1, 2, 2, 4, 5 and 3 in this order. */
export const END_REASONS = [
  'idle-timeout',
  'active-timeout',
  'window',
  'end-of-capture',
  'evicted',
  'closed',
] as const

/** One of END_REASONS. */
export type EndReason = (typeof END_REASONS)[number]

/**
 * Why a record has no row:
 * - one-packet: a whole flow of one packet (see OnePacketRule);
 * - too-few-packets: a flow with fewer packets than the contract's minimum, in all or within its duration;
 * - remainder: the rest of a long flow after its last full window;
 * - last-piece: the last piece of a flow that was cut, under idle-gap rules.
 */
export type NoRowReason = 'one-packet' | 'too-few-packets' | 'remainder' | 'last-piece'

/** A flow, or a piece of one, that has ended: ends, times in microseconds, packets, bytes and feature row. */
export interface FlowRecord {
  /** 4 or 6. */
  ipVersion: number
  /** IANA protocol number. */
  protocol: number
  /**
   * Four words, most significant first; IPv4 in the last. The initiator sent the flow's first packet, or received it if
   * it is a SYN-ACK.
   */
  initiatorAddress: Uint32Array
  responderAddress: Uint32Array
  /** ICMP: type, and counterpart or code (flow-counters.ts). */
  initiatorPort: number
  responderPort: number
  /** Six bytes, from the flow's first packet. */
  initiatorMac: Uint8Array
  responderMac: Uint8Array
  /** VLAN identifier of the outermost tag of the flow's first packet; 0 without a tag. */
  vlan: number
  /** Captures that ended before this one. */
  captureIndex: number
  /** Number in the capture of this record's first packet, from 0. */
  firstPacketNumber: number
  /** Number of the flow's first packet in the capture: equal for all records of a flow. */
  flowFirstPacketNumber: number
  /** Time of that packet, microseconds since 1970. */
  flowStartMicros: number
  /** 0 for the first record of a flow, 1 for the next, … */
  pieceIndex: number
  /** Time of the record's first packet, microseconds since 1970. */
  startMicros: number
  /** From its first packet to its last, including packets after the end of a truncated row. */
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

/** A copy of the record and of its arrays. */
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
