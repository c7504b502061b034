/**
 * The state of an open record: STRIDE doubles a flow, two cache lines, in one Float64Array.
 *
 * The first eight places are those that every packet needs; times are in the unit of packet-fields.ts.
 */
import type { FlowRecord } from './flow-record.js'
import { FROM_RESPONDER, IP_BYTES, META, type PacketFields, SIZE } from './packet-fields.js'

/** Places in a flow's state: times, counts, and the first and last chunk of its entries. */
export const START = 0
export const LAST = 1
export const PACKETS = 2
export const ROW_PACKETS = 3
export const BYTES = 4
export const IP = 5
export const ENTRIES = 6
export const TAIL = 7
export const HEAD = 8
export const FIRST = 9
/** The capture's time of the first packet; START and LAST are of the flow clock. */
export const START_STAMP = 10
export const INITIATOR_PACKETS = 11
export const INITIATOR_BYTES = 12
export const INITIATOR_IP = 13
/** The initiator's flags, and the responder's from bit 8 on. */
export const FLAGS = 14
/** Number of the record among the flow's, from 1 on; negative once the row went out. */
export const PIECE = 15
export const STRIDE = 16

/** Adds a packet to the totals of the record at `at`. */
export function addTotals(state: Float64Array, at: number, packet: PacketFields): void {
  const meta = packet[META]
  state[at + BYTES] += packet[SIZE]
  state[at + IP] += packet[IP_BYTES]
  if (meta < FROM_RESPONDER) {
    state[at + INITIATOR_PACKETS]++
    state[at + INITIATOR_BYTES] += packet[SIZE]
    state[at + INITIATOR_IP] += packet[IP_BYTES]
    state[at + FLAGS] |= meta & 0xff
  } else state[at + FLAGS] |= (meta & 0xff) << 8
}

/** Fills in what the state says of the record at `at`. */
export function describeState(state: Float64Array, at: number, record: FlowRecord): void {
  record.firstPacketNumber = state[at + FIRST]
  record.pieceIndex = Math.abs(state[at + PIECE]) - 1
  record.startMicros = state[at + START_STAMP]
  record.durationMicros = state[at + LAST] - state[at + START]
  record.packets = state[at + PACKETS]
  record.bytes = state[at + BYTES]
  record.initiatorPackets = state[at + INITIATOR_PACKETS]
  record.initiatorBytes = state[at + INITIATOR_BYTES]
  record.initiatorIpBytes = state[at + INITIATOR_IP]
  record.responderPackets = record.packets - record.initiatorPackets
  record.responderBytes = record.bytes - record.initiatorBytes
  record.responderIpBytes = state[at + IP] - record.initiatorIpBytes
  record.initiatorTcpFlags = state[at + FLAGS] & 0xff
  record.responderTcpFlags = state[at + FLAGS] >>> 8
  record.rowPackets = state[at + ROW_PACKETS]
}
