/** Flow records for people, as JSON lines or CSV. */

import { formatAddress, formatMac } from '@oddflow/capture'
import type { SizeMeasure } from '@oddflow/core'
import { ICMPV6, protocolName, TCP, UDP } from '../flow-counters.js'
import type { FlowRecord } from '../flow-record.js'
import { communityId, sha1 } from './community-id.js'

/**
 * connectionState: Zeek's conn_state of a record, from the TCP flags that each end sent at any time, not their order.
 *
 * A later piece of a cut flow has no SYN and is OTH. UDP has S0 if only one end spoke, otherwise SF; all other transports
 * are OTH. A capture may lack the SYN or the SYN-ACK: after a SYN, an acknowledgement by both ends, or data or a FIN of the
 * responder, shows an established connection. In an attempt without an answer (S0, SH, RSTOS0) the responder sent nothing.
 * A responder alone (backscatter, a tap of one direction) shows no attempt.
 */

export type ConnectionState =
  | 'S0'
  | 'S1'
  | 'SF'
  | 'REJ'
  | 'S2'
  | 'S3'
  | 'RSTO'
  | 'RSTR'
  | 'RSTOS0'
  | 'RSTRH'
  | 'SH'
  | 'SHR'
  | 'OTH'

const FIN = 1
const SYN = 2
const RST = 4
const PSH = 8
const ACK = 16

/** The state of a record's connection by its TCP flags and packets. */
export function connectionState(
  record: Pick<FlowRecord, 'protocol' | 'responderPackets' | 'initiatorTcpFlags' | 'responderTcpFlags'>,
): ConnectionState {
  if (record.protocol === UDP) return record.responderPackets === 0 ? 'S0' : 'SF'
  if (record.protocol !== TCP) return 'OTH'
  const initiator = record.initiatorTcpFlags
  const responder = record.responderTcpFlags
  const opened = (initiator & SYN) !== 0
  const accepted = (responder & SYN) !== 0
  const acknowledged = (initiator & responder & ACK) !== 0
  const answered = accepted || acknowledged || (responder & (FIN | PSH)) !== 0
  if (opened && answered) {
    if ((initiator & RST) !== 0) return 'RSTO'
    if ((responder & RST) !== 0) return 'RSTR'
    if ((initiator & responder & FIN) !== 0) return 'SF'
    if ((initiator & FIN) !== 0) return 'S2'
    return (responder & FIN) !== 0 ? 'S3' : 'S1'
  }
  if (opened) {
    if ((responder & RST) !== 0) return 'REJ'
    if (record.responderPackets > 0) return 'OTH'
    if ((initiator & RST) !== 0) return 'RSTOS0'
    if ((initiator & FIN) !== 0) return 'SH'
    // It acknowledged something, so there was an answer, which is not in the capture.
    return (initiator & ACK) === 0 ? 'S0' : 'OTH'
  }
  if (accepted) {
    if ((responder & RST) !== 0) return 'RSTRH'
    if ((initiator & responder & FIN) !== 0) return 'SF'
    if ((responder & FIN) !== 0) return 'SHR'
    if (acknowledged && (initiator & RST) !== 0) return 'RSTO'
    if (acknowledged && (initiator & FIN) !== 0) return 'S2'
  }
  return 'OTH'
}

/**
 * The fields of a flow log: name, kind and value of each, in order. Text formats, tables and databases all use this list.
 *
 * Names are those of Zeek's conn.log (base script, with its MAC, VLAN and Community ID add-ons): orig is the initiator,
 * resp the responder. Bytes are those of the IP packets (orig_ip_bytes, resp_ip_bytes) and, unless the size measure is the
 * IP length, by that measure (orig_frame_bytes, …: our names, like end_reason and piece). ICMP's type and code (a
 * question's type and its answer's) are id.orig_p and id.resp_p; proto is one word for ICMP and ICMPv6, which ip_proto
 * distinguishes. SCTP has its name (Zeek: unknown_transport). uid is a hash of the record's ends and begin, the same in
 * every run (Zeek's is random).
 *
 * Left out, because they need TCP reassembly: orig_bytes and resp_bytes, service, history, missed_bytes.
 */

export interface FlowLogOptions {
  /** The contract's. Default frame. */
  readonly sizeMeasure?: SizeMeasure
  /** The contract's: whether the VLAN is part of the key, and then a field. Default false. */
  readonly vlanKey?: boolean
  /** Of Community IDs, 0 … 65,535. Default 0. */
  readonly communityIdSeed?: number
  /** All fields, for tables that are joined: bytes by each size measure, and the VLAN of the first packet. Default false. */
  readonly everyField?: boolean
}

/**
 * - time: microseconds since 1970 (negative before), interval: microseconds; both are seconds in text, as in Zeek;
 * - count: a whole number of 0 or more;
 * - text: ASCII without quotes or commas.
 */
export type FlowLogFieldKind = 'time' | 'interval' | 'count' | 'text'

/** One field of flow logs. */
export interface FlowLogField {
  readonly name: string
  readonly kind: FlowLogFieldKind
  /** The longest that a text is; 0 for numbers. */
  readonly maximumLength: number
  /** Whether a record may have none: then `read` returns an empty text. Left out of JSON, empty in CSV. */
  readonly isOptional: boolean
  /** Text for the kind `text`, a number for the others. */
  readonly read: (record: FlowRecord) => string | number
}

/** Size measures whose bytes are not fields of every record. */
const OTHER_MEASURES = ['frame', 'captured', 'payload'] as const satisfies readonly SizeMeasure[]

/** The fields of a flow log under these options, in order. */
export function flowLogFields(options: FlowLogOptions = {}): FlowLogField[] {
  const { sizeMeasure = 'frame', vlanKey = false, communityIdSeed = 0, everyField = false } = options
  const measures = OTHER_MEASURES.filter((measure) => everyField || measure === sizeMeasure)
  const sizes = measures.flatMap((measure): FlowLogField[] => {
    const isMeasured = measure === sizeMeasure
    const bytes = (end: string, read: (record: FlowRecord) => number): FlowLogField => ({
      ...number(`${end}_${measure}_bytes`, 'count', read),
      ...(isMeasured ? {} : { read: () => '' }),
      isOptional: everyField,
    })
    return [bytes('orig', (r) => r.initiatorBytes), bytes('resp', (r) => r.responderBytes)]
  })
  const vlan = number('vlan', 'count', (r) => r.vlan)
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
    ...(everyField
      ? [{ ...vlan, isOptional: true, read: (r: FlowRecord) => (r.vlan === 0 ? '' : r.vlan) }]
      : vlanKey
        ? [vlan]
        : []),
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

/** Zeros mean that the link layer has no address. */
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

/** Scratch of uidOf. */
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

/** One line: field to value, in order, without absent ones. */
export type FlowLogEntry = Record<string, string | number>

/** The fields of a record, as plain data. */
export function flowLogEntry(record: FlowRecord, options: FlowLogOptions = {}): FlowLogEntry {
  const entry: FlowLogEntry = {}
  for (const field of flowLogFields(options)) {
    const value = field.read(record)
    if (field.isOptional && value === '') continue
    entry[field.name] = isSeconds(field) ? (value as number) / 1_000_000 : value
  }
  return entry
}

/** Flow records as lines of text. */
export interface FlowLogFormat {
  /** What comes before the first line; "" for JSON. */
  readonly header: string
  /** A line with its line feed. */
  line(record: FlowRecord): string
}

/**
 * Lines of many records; `json` is an object a line, `csv` is RFC 4180. No text of a field needs quotes or escapes.
 */
export function createFlowLogFormat(format: 'json' | 'csv', options: FlowLogOptions = {}): FlowLogFormat {
  const fields = flowLogFields(options)
  const header = format === 'json' ? '' : `${fields.map(({ name }) => name).join(',')}\n`
  const isJson = format === 'json'
  const parts = fields.map((field, i) => {
    const quote = isJson && field.kind === 'text' ? '"' : ''
    const key = isJson ? `${JSON.stringify(field.name)}:` : ''
    const separator = i > 0 ? ',' : isJson ? '{' : ''
    return {
      before: `${separator}${key}${quote}`,
      after: quote,
      seconds: isSeconds(field),
      /** If there is no value. */
      isLeftOut: isJson && field.isOptional,
      read: field.read,
    }
  })
  const end = isJson ? '}\n' : '\n'
  return {
    header,
    line(record) {
      let text = ''
      for (const { before, after, seconds, isLeftOut, read } of parts) {
        const value = read(record)
        if (isLeftOut && value === '') continue
        text += before + (seconds ? secondsText(value as number) : value) + after
      }
      return text + end
    },
  }
}

/** Always six decimals, for programs that guess a column's type from its first lines. */
function secondsText(micros: number): string {
  const whole = Math.trunc(micros / 1_000_000)
  const sign = micros < 0 && whole === 0 ? '-' : ''
  return `${sign}${whole}.${String(Math.abs(micros - 1_000_000 * whole)).padStart(6, '0')}`
}

/** A JSON line, with its line feed. */
export function formatFlowJsonLine(record: FlowRecord, options: FlowLogOptions = {}): string {
  return createFlowLogFormat('json', options).line(record)
}

/** A CSV line, in the order of formatFlowCsvHeader, with its line feed. */
export function formatFlowCsvLine(record: FlowRecord, options: FlowLogOptions = {}): string {
  return createFlowLogFormat('csv', options).line(record)
}

/** The first line of a CSV file of flow records: the names. */
export function formatFlowCsvHeader(options: FlowLogOptions = {}): string {
  return createFlowLogFormat('csv', options).header
}

function isSeconds({ kind }: FlowLogField): boolean {
  return kind === 'time' || kind === 'interval'
}
