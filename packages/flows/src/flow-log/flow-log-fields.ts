/**
 * The fields of a flow log: name, kind and value of each, in order. Text formats, tables and databases are all
 * made from this one list, so that they cannot differ.
 *
 * Names are those of Zeek's conn.log (base script, with its MAC, VLAN and Community ID add-ons), orig being the initiator
 * and resp the responder. Bytes are those of the IP packets (orig_ip_bytes, resp_ip_bytes, as in Zeek) and, where
 * the size measure is not the IP length, by that measure (orig_frame_bytes or orig_captured_bytes: our names, as
 * are end_reason and piece). ICMP's type and code (a question's type and its answer's) are id.orig_p and id.resp_p,
 * as in Zeek; proto is one word for ICMP and ICMPv6 there, and ip_proto tells them apart. SCTP, which Zeek calls
 * unknown_transport, has its name. uid is not Zeek's (which is random): it is a hash of when and between whom the
 * record began, the same in every run.
 *
 * Left out: orig_bytes and resp_bytes, which are payload bytes after TCP reassembly; service, history and
 * missed_bytes, which need that too.
 */
import { formatAddress, formatMac } from '@oddflow/capture'
import type { SizeMeasure } from '@oddflow/core'
import { ICMPV6, protocolName } from '../flow-protocols.js'
import type { FlowRecord } from '../flow-record.js'
import { communityId } from './community-id.js'
import { connectionState } from './connection-state.js'
import { sha1 } from './sha1.js'

export interface FlowLogOptions {
  /** The contract's. Default frame. */
  readonly sizeMeasure?: SizeMeasure
  /** The contract's: whether the VLAN is part of the key, and then a field. Default false. */
  readonly vlanKey?: boolean
  /** Of Community IDs, 0 … 65,535. Default 0. */
  readonly communityIdSeed?: number
}

/**
 * - time: microseconds since 1970 (negative before), interval: microseconds; in text both are seconds, as Zeek's;
 * - count: a whole number of 0 or more;
 * - text: ASCII without quotes or commas.
 */
export type FlowLogFieldKind = 'time' | 'interval' | 'count' | 'text'

export interface FlowLogField {
  readonly name: string
  readonly kind: FlowLogFieldKind
  /** The longest that a text is; 0 for numbers. */
  readonly maximumLength: number
  /** Whether a record may have none, which `read` tells by an empty text: left out of JSON, empty in CSV. */
  readonly isOptional: boolean
  /** Text for the kind `text`, a number for the others. */
  readonly read: (record: FlowRecord) => string | number
}

export function flowLogFields(options: FlowLogOptions = {}): FlowLogField[] {
  const { sizeMeasure = 'frame', vlanKey = false, communityIdSeed = 0 } = options
  const sizes =
    sizeMeasure === 'ip'
      ? []
      : [
          number(`orig_${sizeMeasure}_bytes`, 'count', (r) => r.initiatorBytes),
          number(`resp_${sizeMeasure}_bytes`, 'count', (r) => r.responderBytes),
        ]
  return [
    number('ts', 'time', (r) => r.startMicros),
    text('uid', 18, uidOf),
    text('id.orig_h', 39, (r) => formatAddress(r.initiatorAddress, 0, r.ipVersion)),
    number('id.orig_p', 'count', (r) => r.initiatorPort),
    text('id.resp_h', 39, (r) => formatAddress(r.responderAddress, 0, r.ipVersion)),
    number('id.resp_p', 'count', (r) => r.responderPort),
    text('proto', 4, (r) => (r.protocol === ICMPV6 ? 'icmp' : protocolName(r.protocol))),
    number('ip_proto', 'count', (r) => r.protocol),
    number('duration', 'interval', (r) => r.durationMicros),
    text('conn_state', 6, connectionState),
    number('orig_pkts', 'count', (r) => r.initiatorPackets),
    number('orig_ip_bytes', 'count', (r) => r.initiatorIpBytes),
    number('resp_pkts', 'count', (r) => r.responderPackets),
    number('resp_ip_bytes', 'count', (r) => r.responderIpBytes),
    ...sizes,
    text('community_id', 30, (r) => communityIdOf(r, communityIdSeed)),
    { ...text('orig_l2_addr', 17, (r) => macOf(r.initiatorMac)), isOptional: true },
    { ...text('resp_l2_addr', 17, (r) => macOf(r.responderMac)), isOptional: true },
    ...(vlanKey ? [number('vlan', 'count', (r) => r.vlan)] : []),
    text('end_reason', 14, (r) => r.endReason),
    number('piece', 'count', (r) => r.pieceIndex),
  ]
}

function number(
  name: string,
  kind: Exclude<FlowLogFieldKind, 'text'>,
  read: (record: FlowRecord) => number,
): FlowLogField {
  return { name, kind, maximumLength: 0, isOptional: false, read }
}

function text(name: string, maximumLength: number, read: (record: FlowRecord) => string): FlowLogField {
  return { name, kind: 'text', maximumLength, isOptional: false, read }
}

/** Zeros stand where the link layer has no address. */
function macOf(mac: Uint8Array): string {
  return mac.every((byte) => byte === 0) ? '' : formatMac(mac, 0)
}

function communityIdOf(record: FlowRecord, seed: number): string {
  const { ipVersion, protocol } = record
  return communityId(
    {
      ipVersion,
      protocol,
      sourceAddress: record.initiatorAddress,
      destinationAddress: record.responderAddress,
      sourcePort: record.initiatorPort,
      destinationPort: record.responderPort,
    },
    seed,
  )
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A byte's remainder as a digit. */
const DIGIT_OF = Array.from({ length: 256 }, (_, byte) => DIGITS[byte % 62])

/** Scratch of uidOf; nothing of it lasts between calls. */
const uidMessage = new Uint8Array(57)
const uidView = new DataView(uidMessage.buffer)
const uidDigest = new Uint8Array(20)

/** "C" and 17 digits of base 62. */
function uidOf(record: FlowRecord): string {
  uidView.setFloat64(0, record.startMicros)
  uidView.setFloat64(8, record.firstPacketNumber)
  uidView.setUint32(16, record.captureIndex)
  for (let w = 0; w < 4; w++) {
    uidView.setUint32(20 + 4 * w, record.initiatorAddress[w])
    uidView.setUint32(36 + 4 * w, record.responderAddress[w])
  }
  uidView.setUint16(52, record.initiatorPort)
  uidView.setUint16(54, record.responderPort)
  uidMessage[56] = record.protocol
  sha1(uidMessage, 57, uidDigest)
  let uid = 'C'
  for (let i = 0; i < 17; i++) uid += DIGIT_OF[uidDigest[i]]
  return uid
}
