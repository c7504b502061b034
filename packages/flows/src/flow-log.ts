/** Flow records as JSON lines or CSV: fields named as in Zeek, connection states, Community IDs. */

import { formatAddress, formatMac } from '@oddflow/capture'
import type { SizeMeasure } from '@oddflow/core'
import { ICMP, ICMPV6, protocolName, SCTP, TCP, UDP } from './flow-counters.js'
import type { FlowRecord } from './flow-record.js'

/**
 * Zeek's conn_state of a record, from the TCP flags that each end sent at any time. A later piece of a cut flow has no
 * SYN and is OTH. A capture may lack the SYN or the SYN-ACK: an acknowledgement by both ends, or data or a FIN of the
 * responder, shows an established connection. A responder alone shows no attempt.
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
 * The fields of a flow log, named as in Zeek's conn.log (orig is the initiator); orig_frame_bytes and the like,
 * end_reason and piece are our names. proto is one word for ICMP and ICMPv6; ip_proto distinguishes them. uid is a
 * hash of the record's ends and begin, the same in every run. Left out, because they need TCP reassembly: orig_bytes,
 * resp_bytes, service, history, missed_bytes.
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

function isSeconds({ kind }: FlowLogField): boolean {
  return kind === 'time' || kind === 'interval'
}

/**
 * Community ID, version 1 (github.com/corelight/community-id-spec): "1:" and the base64 of SHA-1 over seed, both
 * addresses, protocol, a zero byte and both ports, the lower (address, port) first. For ICMP the ports are a request's
 * type and its reply's, or type and code in their direction.
 */

/**
 * SHA-1 (RFC 3174), not for security: twenty bytes, in `digest`. Written out because it must be synchronous in browsers,
 * where the platform's digest is asynchronous. A flow record has two of them, so the four kinds of rounds are unrolled.
 * @param length - how many bytes of `message` are hashed
 */

export function sha1(
  message: Uint8Array,
  length = message.length,
  digest: Uint8Array = new Uint8Array(20),
): Uint8Array {
  state[0] = 0x67452301
  state[1] = 0xefcdab89
  state[2] = 0x98badcfe
  state[3] = 0x10325476
  state[4] = 0xc3d2e1f0
  const blocks = ((length + 8) >> 6) + 1
  for (let b = 0; b < blocks; b++) {
    for (let t = 0; t < 16; t++) words[t] = paddedWord(message, length, 64 * b + 4 * t)
    if (b === blocks - 1) {
      words[14] = Math.floor(length / 0x20000000)
      words[15] = length << 3
    }
    mix()
  }
  for (let i = 0; i < 20; i++) digest[i] = state[i >> 2] >>> (24 - 8 * (i & 3))
  return digest
}

/** The state, and the schedule of the current block; nothing lasts between calls. */
const state = new Int32Array(5)
const words = new Int32Array(80)

/** Four bytes of the message, which is followed by a set bit and zeros. */
function paddedWord(message: Uint8Array, length: number, at: number): number {
  if (at + 4 <= length) {
    return (message[at] << 24) | (message[at + 1] << 16) | (message[at + 2] << 8) | message[at + 3]
  }
  let word = 0
  for (let k = 0; k < 4; k++) {
    const byte = at + k < length ? message[at + k] : at + k === length ? 0x80 : 0
    word = (word << 8) | byte
  }
  return word
}

function mix(): void {
  for (let t = 16; t < 80; t++) {
    const word = words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]
    words[t] = (word << 1) | (word >>> 31)
  }
  let a = state[0]
  let b = state[1]
  let c = state[2]
  let d = state[3]
  let e = state[4]
  for (let t = 0; t < 20; t++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (~b & d)) + e + 0x5a827999 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 20; t < 40; t++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0x6ed9eba1 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 40; t < 60; t++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (b & d) | (c & d)) + e + 0x8f1bbcdc + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  for (let t = 60; t < 80; t++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + e + 0xca62c1d6 + words[t]) | 0
    e = d
    d = c
    c = (b << 30) | (b >>> 2)
    b = a
    a = next
  }
  state[0] += a
  state[1] += b
  state[2] += c
  state[3] += d
  state[4] += e
}

/** The ends of a flow, for its Community ID. */
export interface CommunityIdFlow {
  /** 4 or 6. */
  readonly ipVersion: number
  /** IANA protocol number. */
  readonly protocol: number
  /** Four words, most significant first; IPv4 in the last. */
  readonly sourceAddress: Uint32Array
  readonly destinationAddress: Uint32Array
  /** ICMP: type, and code or the type of the counterpart. Ignored for protocols without ports. */
  readonly sourcePort: number
  readonly destinationPort: number
}

const WITH_PORTS: readonly number[] = [ICMP, TCP, UDP, ICMPV6, SCTP]

/** Type to the type of its counterpart. The specification gives none for type 9. */
const ICMP_COUNTERPARTS = bothWays([8, 0], [13, 14], [15, 16], [17, 18]).set(10, 9)
const ICMPV6_COUNTERPARTS = bothWays([128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145])

function bothWays(...pairs: readonly (readonly [number, number])[]): Map<number, number> {
  return new Map([...pairs, ...pairs.map(([a, b]) => [b, a] as const)])
}

/** @param seed - 0 … 65,535; all tools at a site use the same. */
export function communityId(flow: CommunityIdFlow, seed = 0): string {
  const { protocol, ipVersion } = flow
  let { sourcePort, destinationPort } = flow
  let oneWay = false
  if (protocol === ICMP || protocol === ICMPV6) {
    const counterpart = (protocol === ICMP ? ICMP_COUNTERPARTS : ICMPV6_COUNTERPARTS).get(sourcePort)
    if (counterpart === undefined) oneWay = true
    else destinationPort = counterpart
  }
  const ports = WITH_PORTS.includes(protocol)
  if (!ports) sourcePort = destinationPort = 0
  const words = ipVersion === 4 ? 1 : 4
  let order = 0
  for (let w = 4 - words; w < 4 && order === 0; w++) {
    order = flow.sourceAddress[w] - flow.destinationAddress[w]
  }
  if (order === 0) order = sourcePort - destinationPort
  const swapped = order > 0 && !oneWay
  const first = swapped ? flow.destinationAddress : flow.sourceAddress
  const second = swapped ? flow.sourceAddress : flow.destinationAddress
  view.setUint16(0, seed)
  for (let w = 0; w < words; w++) {
    view.setUint32(2 + 4 * w, first[4 - words + w])
    view.setUint32(2 + 4 * words + 4 * w, second[4 - words + w])
  }
  const at = 2 + 8 * words
  message[at] = protocol
  message[at + 1] = 0
  if (ports) {
    view.setUint16(at + 2, swapped ? destinationPort : sourcePort)
    view.setUint16(at + 4, swapped ? sourcePort : destinationPort)
  }
  return `1:${encodeBase64(sha1(message, at + (ports ? 6 : 2), digest))}`
}

/** Input and result of the hash; nothing lasts between calls. */
const message = new Uint8Array(40)
const view = new DataView(message.buffer)
const digest = new Uint8Array(20)

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** Two characters for each twelve bits. */
const PAIRS = Array.from({ length: 4096 }, (_, bits) => ALPHABET[bits >> 6] + ALPHABET[bits & 63])

/** Of twenty bytes: 27 characters and a filler. */
function encodeBase64(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < 18; i += 3) {
    text += PAIRS[(bytes[i] << 4) | (bytes[i + 1] >> 4)] + PAIRS[((bytes[i + 1] & 15) << 8) | bytes[i + 2]]
  }
  return `${text}${PAIRS[(bytes[18] << 4) | (bytes[19] >> 4)]}${ALPHABET[(bytes[19] & 15) << 2]}=`
}
