/**
 * Alerts as events of Suricata's EVE format (docs.suricata.io, "EVE JSON Format"; etc/schema.json there). Every field outside
 * `oddflow` is Suricata's, with its type and meaning. `src` is the flow's initiator. ICMP has a type and no ports. Suricata's
 * flow bytes are those of frames; ours are of the model's size measure.
 */

import { createHash } from 'node:crypto'
import { icmpCodeOf } from '@oddflow/capture'
import type { SavedModel } from '@oddflow/detectors'
import { communityId } from '@oddflow/flows'
import { createFlowExplainer, type FlowExplanation, jsonLine, rarityText } from '@oddflow/program'
import type { PeerName } from '../devices/peer-names.js'
import type { KeptEvidence } from '../evidence/evidence.js'
import type { AlertEvent, NoticeEvent } from '../web/alerts.js'
import { type Alert, type AlertRule, hashOfEnds, servicePort } from './alert.js'

/** As FlowExplanation has it, or another rule than the score. */
type AlertReason = FlowExplanation['reason'] | 'rule'

export interface AlertExplanation extends Omit<FlowExplanation, 'reason'> {
  readonly reason: AlertReason
  /** A sentence of the program's own words, numbers and addresses: nothing that a device could have chosen. */
  readonly summary: string
}

/** Takes up to some hundred scores, so alerts that are folded are not explained. */
export type AlertExplainer = (alert: Alert) => AlertExplanation

export function createAlertExplainer(saved: SavedModel): AlertExplainer {
  const explain = createFlowExplainer(saved)
  return (alert) => {
    const { row, score, threshold, flow, device } = alert
    if (row === null || score === null || threshold === null) return explainNothing(alert)
    const viewpoint = device.address === flow.source ? 'initiator' : 'responder'
    const found = explain({ row, score, threshold, packets: flow.packets, viewpoint })
    return { ...found, summary: summaryOf(alert, found.reason, found.reasons) }
  }
}

/** Of what no model can be asked about. */
export function explainNothing(alert: Alert): AlertExplanation {
  const reason = alert.rule === 'score' ? 'no-comparison' : 'rule'
  return {
    reason,
    reasons: [],
    summary: summaryOf(alert, reason, []),
    mode: null,
    features: [],
    nearestBytes: null,
  }
}

function summaryOf(alert: Alert, reason: AlertReason, reasons: readonly string[]): string {
  const { flow, device, peer, rule, rarity, folded, fact } = alert
  const what = `${flow.protocol} between ${device.mac ?? device.address} and ${peer}, port ${servicePort(flow)}`
  const count = folded === null ? '' : ` (${folded.count} more like it)`
  if (fact !== undefined) return `${fact}${count}`
  // flows of more packets may have gone there: the rule knows of none but those of one (flows: one-packet-rule.ts)
  if (rule === 'one-packet')
    return `one packet of ${what}: training had no single-packet flow to this service${count}`
  if (rule === 'new-device') return `${device.mac ?? device.address} is a new device; its first flow: ${what}`
  if (rule === 'device-flood')
    return `many new devices within a minute, the last of them ${device.mac ?? device.address}`
  const rare = rarity === null ? null : rarityText(rarity)
  const rest = `${rare === null ? '' : `; ${rare}`}${count}`
  if (reason === 'no-comparison')
    return `${what}: unlike normal flows; the model stores no normal flow for comparison${rest}`
  if (reasons.length === 0)
    return `${what}: differs from normal flows as a whole; no single feature explains the difference${rest}`
  return `${what}: ${reasons.join(', ')}${rest}`
}

const ICMP = 1
const ICMPV6 = 58
const PROTOCOL_NAMES: Readonly<Record<number, string>> = {
  [ICMP]: 'ICMP',
  6: 'TCP',
  17: 'UDP',
  [ICMPV6]: 'IPv6-ICMP',
  132: 'SCTP',
}

/** Ids are of the range that Suricata leaves to local rules (from 1,000,000). */
const SIGNATURES: Readonly<Record<AlertRule, Signature>> = {
  score: [1_790_001, 'unusual flow'],
  'one-packet': [1_790_002, 'unusual single-packet flow'],
  'new-device': [1_790_004, 'new device'],
  'device-flood': [1_790_005, 'flood of new devices'],
  'device-ready': [1_790_021, 'device ready to be watched'],
  'port-scan': [1_790_022, 'many ports of a device contacted'],
  'host-scan': [1_790_023, 'many hosts contacted by a device'],
  'new-device-contact': [1_790_024, 'new device contacted a watched device'],
  'address-taken': [1_790_025, 'address taken by a new device'],
  'arp-conflict': [1_790_026, 'address claimed by two devices'],
  'nd-conflict': [1_790_029, 'IPv6 address claimed by two devices'],
  'address-flood': [1_790_042, 'many addresses claimed by a device'],
  'first-contact': [1_790_027, 'first contact of a watched device'],
  'unusual-hour': [1_790_043, 'watched device active in an unusual hour'],
  'contacts-full': [1_790_028, 'contact table of a watched device is full'],
  'password-guessing': [1_790_040, 'possible password guessing'],
  'request-flood': [1_790_041, 'flood of requests'],
  'dns-tunnel': [1_790_044, 'possible DNS tunnel'],
  'not-judged': [1_790_003, 'flow not judged'],
}

/**
 * @param iface - the interface's name, null for a file.
 * @param evidence - the file that holds packets of the flow, and how many; null where there is none.
 * @param names - of the peer; outputs that are not to have them get the event without.
 */
export function eveEvent(
  alert: Alert,
  iface: string | null,
  explanation: AlertExplanation,
  evidence: KeptEvidence | null = null,
  names: readonly PeerName[] = [],
): AlertEvent & Record<string, unknown> {
  const { flow, protocol } = alert
  const isIcmp = protocol === ICMP || protocol === ICMPV6
  const ports = isIcmp
    ? {
        icmp_type: flow.sourcePort,
        icmp_code: icmpCodeOf(protocol === ICMPV6, flow.sourcePort, flow.destinationPort),
      }
    : { src_port: flow.sourcePort, dest_port: flow.destinationPort }
  const event = {
    timestamp: eveTime(alert.atMicros),
    flow_id: flowId(alert),
    ...(iface === null ? {} : { in_iface: iface }),
    event_type: 'alert',
    ...(alert.vlan === 0 ? {} : { vlan: [alert.vlan] }),
    src_ip: flow.source,
    dest_ip: flow.destination,
    ...ports,
    proto: PROTOCOL_NAMES[protocol] ?? String(protocol),
    // here and not when the alert is made, as the flow's id: most alerts of a flood are folded
    community_id: communityId({
      ipVersion: alert.ipVersion,
      protocol,
      sourceAddress: alert.sourceWords,
      destinationAddress: alert.destinationWords,
      sourcePort: flow.sourcePort,
      destinationPort: flow.destinationPort,
    }),
    alert: eveAlert(SIGNATURES[alert.rule], 'Anomalous traffic'),
    flow: {
      pkts_toserver: alert.initiatorPackets,
      pkts_toclient: alert.responderPackets,
      bytes_toserver: alert.initiatorBytes,
      bytes_toclient: alert.responderBytes,
      start: eveTime(alert.flowStartMicros),
    },
    oddflow: {
      id: alert.id,
      model: alert.model,
      rule: alert.rule,
      score: alert.score,
      threshold: alert.threshold,
      decision: alert.score === null || alert.threshold === null ? null : alert.score - alert.threshold,
      ...(alert.shadow === undefined ? {} : { shadow: alert.shadow }),
      early: alert.early,
      device: alert.device,
      flow,
      rarity: alert.rarity,
      ...explanation,
      lostPackets: alert.lostPackets,
      lostInWindow: alert.lostInWindow,
      ...(evidence === null ? {} : { evidence: evidence.file, evidencePackets: evidence.packets }),
      ...(alert.folded === null ? {} : { folded: alert.folded }),
      ...(alert.incident === undefined ? {} : { incident: alert.incident }),
      ...(alert.muted === undefined ? {} : { muted: alert.muted }),
      ...(names.length === 0 ? {} : { names }),
    },
  }
  // by a name, since the page does not look into all of it
  return event
}

/** Equal for all records of a flow; below 2^53. */
function flowId(alert: Alert): number {
  const hash = hashOfEnds(alert, alert.captureIndex, alert.flowFirstPacketNumber, '')
  return Number(hash.readBigUInt64BE(0) >> 11n)
}

export function encodeEve(
  alert: Alert,
  iface: string | null,
  explanation: AlertExplanation,
  evidence: KeptEvidence | null = null,
  names: readonly PeerName[] = [],
): Uint8Array {
  return new TextEncoder().encode(jsonLine(eveEvent(alert, iface, explanation, evidence, names)))
}

/** Of an event: the number and the text of its kind. */
export type Signature = readonly [id: number, text: string]

/** No packet is dropped for it. @param severity - as Suricata counts: 1 is the highest */
export function eveAlert([id, text]: Signature, category: string, severity = 3) {
  const signature = `OddFlow: ${text}`
  return { action: 'allowed', gid: 1, rev: 1, signature_id: id, signature, category, severity }
}

/** What an event about no single flow begins with. @param iface - the interface's name, null for a file */
export function eventHead(atMicros: number, iface: string | null) {
  return { timestamp: eveTime(atMicros), ...(iface === null ? {} : { in_iface: iface }) }
}

/** 32 hexadecimal digits. */
export function eventId(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

/** "2024-03-01T10:20:30.123456+0000". Packets' times are within 2^53 microseconds of 1970: years of four digits. */
export function eveTime(micros: number): string {
  const millis = Math.floor(micros / 1000)
  const rest = String(micros - 1000 * millis).padStart(3, '0')
  return `${new Date(millis).toISOString().slice(0, -1)}${rest}+0000`
}

/**
 * Notice: an event about the agent itself, such as an overload. Notices go where alerts go, in the same order, and are not
 * suppressed or folded. In EVE they are alerts without addresses; `oddflow` has `id`, `rule`, `summary` and numbers by name.
 */

export type NoticeRule = keyof typeof NOTICE_SIGNATURES

export interface Notice {
  readonly rule: NoticeRule
  readonly atMicros: number
  readonly summary: string
  readonly numbers?: Readonly<Record<string, number>>
}

const NOTICE_SIGNATURES = {
  degraded: [1_790_006, 'agent degraded'],
  recovered: [1_790_007, 'agent recovered'],
  'blind-model': [1_790_008, 'model that notices no synthetic attack'],
  'overload-entered': [1_790_009, 'overload: the agent drops packets'],
  'overload-left': [1_790_010, 'overload is over'],
  'state-damaged': [1_790_011, 'damage in the state folder'],
  'fleet-model': [1_790_012, 'a model of the fleet is in use, or refused'],
} as const satisfies Readonly<Record<string, Signature>>

/** One line of JSON without its line feed. @param iface - the interface's name, null for a file. */
export function encodeNotice(notice: Notice, iface: string | null): Uint8Array {
  const { rule, atMicros, summary, numbers = {} } = notice
  const id = eventId(`${atMicros} ${rule} ${summary}`)
  const event = {
    ...eventHead(atMicros, iface),
    event_type: 'alert',
    alert: eveAlert(NOTICE_SIGNATURES[rule], 'Not Suspicious Traffic'),
    oddflow: { id, rule, summary, ...numbers },
  }
  // what the page looks into
  const checked: NoticeEvent = event
  return new TextEncoder().encode(jsonLine(checked))
}
