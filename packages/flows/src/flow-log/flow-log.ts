/**
 * Flow records for people, under the field names of Zeek's conn.log, as JSON lines or CSV.
 *
 * ts and duration are seconds; orig is the initiator, resp the responder. ICMP's type and code (a question's type
 * and its answer's) are id.orig_p and id.resp_p, as in Zeek; ip_proto tells ICMP from ICMPv6. Bytes are those of the IP packets
 * (orig_ip_bytes, resp_ip_bytes, as in Zeek) and, where the contract's size measure is not the IP length, by
 * that measure (orig_frame_bytes or orig_captured_bytes, our names). Zeek's orig_bytes and resp_bytes are
 * payload bytes after TCP reassembly, and service, history and missed_bytes need that too: left out. uid is
 * not Zeek's (which is random): it is a hash of when and between whom the record began, the same in every run.
 */
import { formatAddress, formatMac } from '@oddflow/capture'
import type { SizeMeasure } from '@oddflow/core'
import { ICMPV6, protocolName } from '../flow-protocols.js'
import { createFlowRecord, type FlowRecord } from '../flow-record.js'
import { communityId } from './community-id.js'
import { connectionState } from './connection-state.js'
import { sha1 } from './sha1.js'

export interface FlowLogOptions {
  /** The contract's. Default frame. */
  readonly sizeMeasure?: SizeMeasure
  /** Of Community IDs, 0 … 65,535. Default 0. */
  readonly communityIdSeed?: number
}

/** One line: field to value, in order. */
export type FlowLogEntry = Record<string, string | number>

/** The fields of a record; plain data, valid as long as one likes. */
export function flowLogEntry(record: FlowRecord, options: FlowLogOptions = {}): FlowLogEntry {
  const { sizeMeasure = 'frame', communityIdSeed = 0 } = options
  const { ipVersion, protocol } = record
  const sizes: FlowLogEntry =
    sizeMeasure === 'ip'
      ? {}
      : {
          [`orig_${sizeMeasure}_bytes`]: record.initiatorBytes,
          [`resp_${sizeMeasure}_bytes`]: record.responderBytes,
        }
  return {
    ts: record.startMicros / 1_000_000,
    uid: uidOf(record),
    'id.orig_h': formatAddress(record.initiatorAddress, 0, ipVersion),
    'id.orig_p': record.initiatorPort,
    'id.resp_h': formatAddress(record.responderAddress, 0, ipVersion),
    'id.resp_p': record.responderPort,
    // Zeek has one word for both versions of ICMP; SCTP it would call unknown_transport
    proto: protocol === ICMPV6 ? 'icmp' : protocolName(protocol),
    ip_proto: protocol,
    duration: record.durationMicros / 1_000_000,
    conn_state: connectionState(record),
    orig_pkts: record.initiatorPackets,
    orig_ip_bytes: record.initiatorIpBytes,
    resp_pkts: record.responderPackets,
    resp_ip_bytes: record.responderIpBytes,
    ...sizes,
    community_id: communityId(
      {
        ipVersion,
        protocol,
        sourceAddress: record.initiatorAddress,
        destinationAddress: record.responderAddress,
        sourcePort: record.initiatorPort,
        destinationPort: record.responderPort,
      },
      communityIdSeed,
    ),
    orig_l2_addr: formatMac(record.initiatorMac, 0),
    resp_l2_addr: formatMac(record.responderMac, 0),
    end_reason: record.endReason,
    piece: record.pieceIndex,
  }
}

/** A JSON line, with its line feed. */
export function formatFlowJsonLine(record: FlowRecord, options: FlowLogOptions = {}): string {
  return `${JSON.stringify(flowLogEntry(record, options))}\n`
}

/** A CSV line (RFC 4180; no value needs quotes), in the order of formatFlowCsvHeader, with its line feed. */
export function formatFlowCsvLine(record: FlowRecord, options: FlowLogOptions = {}): string {
  return `${Object.values(flowLogEntry(record, options)).join(',')}\n`
}

/** The first line of a CSV file of flow records: names, which depend on the options alone. */
export function formatFlowCsvHeader(options: FlowLogOptions = {}): string {
  return `${Object.keys(flowLogEntry(createFlowRecord(), options)).join(',')}\n`
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** "C" and 17 digits of base 62. */
function uidOf(record: FlowRecord): string {
  const numbers = new Float64Array([
    record.startMicros,
    record.captureIndex,
    record.firstPacketNumber,
    ...record.initiatorAddress,
    ...record.responderAddress,
    record.initiatorPort,
    record.responderPort,
    record.protocol,
  ])
  const message = new Uint8Array(8 * numbers.length)
  const view = new DataView(message.buffer)
  numbers.forEach((number, i) => {
    view.setFloat64(8 * i, number)
  })
  let uid = 'C'
  for (const byte of sha1(message).subarray(0, 17)) uid += DIGITS[byte % 62]
  return uid
}
