/**
 * Alert: one flow record that is new, with what a person needs to find the flow elsewhere and to see why. Times are the
 * capture's. The same packets and the same model give the same alert, with the same id.
 */
import { createHash } from 'node:crypto'
import type { Rarity, VerdictRule } from '@oddflow/program'
import type { MutingAnswer } from '../incidents/answer.js'
import type { AgentVerdict } from '../pipeline/counters.js'

/** Rules of alerts about a device without a verdict. */
export const FACT_RULES = [
  'new-device',
  'device-flood',
  'device-ready',
  'port-scan',
  'host-scan',
  'password-guessing',
  'request-flood',
  'dns-tunnel',
  'new-device-contact',
  'address-taken',
  'arp-conflict',
  'nd-conflict',
  'address-flood',
  'first-contact',
  'unusual-hour',
  'contacts-full',
] as const
export type FactRule = (typeof FACT_RULES)[number]
export type AlertRule = VerdictRule | FactRule

export function isFactRule(rule: AlertRule): rule is FactRule {
  return FACT_RULES.some((each) => each === rule)
}

export interface AlertFlow {
  readonly protocol: string
  readonly source: string
  readonly sourcePort: number
  readonly destination: string
  readonly destinationPort: number
  readonly startMicros: number
  /** Up to the verdict; the flow may continue. */
  readonly durationMicros: number
  readonly packets: number
  readonly bytes: number
  /** 0 for a flow's first record; a long flow has more, each with its own start. */
  readonly piece: number
}

/** The end of the flow that the alert is about. */
export interface AlertDevice {
  /** null where the link has no addresses. */
  readonly mac: string | null
  readonly address: string
  /** By a person or by the device itself, which may call itself anything. */
  readonly name?: string
  readonly group?: string
}

export interface Alert {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** With the ends, equal for all records of a flow. */
  readonly captureIndex: number
  readonly flowFirstPacketNumber: number
  /** Four words each, as packets have them. */
  readonly sourceWords: Uint32Array
  readonly destinationWords: Uint32Array
  readonly ipVersion: number
  /** IANA number. */
  readonly protocol: number
  /** Of the flow's first packet; 0 where it had no tag. */
  readonly vlan: number
  readonly device: AlertDevice
  readonly peer: string
  /** Its key as a device (MAC address, or address), where it is of the local networks; else null. */
  readonly peerKey: string | null
  readonly flow: AlertFlow
  /** Of the whole flow; `flow.startMicros` is that of the piece. */
  readonly flowStartMicros: number
  readonly initiatorPackets: number
  readonly responderPackets: number
  readonly initiatorBytes: number
  readonly responderBytes: number
  readonly rule: AlertRule
  /** Of a fact: what happened, as a sentence of the program's own words, numbers and addresses. */
  readonly fact?: string
  /** null where another rule than the score decided. */
  readonly score: number | null
  /** null where there is no model, or none was asked. */
  readonly threshold: number | null
  /** The verdict was given before the flow had ended. */
  readonly early: boolean
  /** Time of the last packet that the verdict knows of. */
  readonly atMicros: number
  /** The first 16 hexadecimal digits of the model file's SHA-256; null where no model judged. */
  readonly model: string | null
  /** Packets that did not reach the agent up to now, from which an alert may be wrong. */
  readonly lostPackets: number
  /** Of those, since the flow began: what it may miss. */
  readonly lostInWindow: number
  readonly rarity: Rarity | null
  /** The features that were scored, D numbers; null where there is no score. */
  readonly row: Float64Array | null
  /** The verdict of the model as it was trained, if it was updated since. */
  readonly shadow?: NonNullable<AgentVerdict['shadow']>
  /** Of the incident that it belongs to (incidents/incidents.ts). */
  readonly incident?: string
  /** The answer for which it goes to the EVE file alone (incidents/answer.ts). */
  readonly muted?: MutingAnswer
  readonly folded: FoldedAlerts | null
}

interface FoldedAlerts {
  /** Alerts that this one stands for, which were not given out themselves. */
  readonly count: number
  readonly firstMicros: number
  readonly lastMicros: number
  /** Different peers and services among them, counted up to a bound. */
  readonly peers: number
  readonly services: number
  readonly firstId: string
}

const HASHED = new DataView(new ArrayBuffer(8 * 14))

/** SHA-256 of a flow's ends and what tells its record or flow from others between them. */
export function hashOfEnds(
  {
    ipVersion,
    protocol,
    sourceWords,
    destinationWords,
    flow,
  }: Pick<Alert, 'ipVersion' | 'protocol' | 'sourceWords' | 'destinationWords' | 'flow'>,
  first: number,
  second: number,
  text: string,
): Buffer {
  let at = 0
  const put = (number: number): void => {
    HASHED.setFloat64(at, number)
    at += 8
  }
  put(ipVersion)
  put(protocol)
  for (let w = 0; w < 4; w++) put(sourceWords[w])
  for (let w = 0; w < 4; w++) put(destinationWords[w])
  put(flow.sourcePort)
  put(flow.destinationPort)
  put(first)
  put(second)
  return createHash('sha256').update(HASHED).update(text).digest()
}

/** The port of the service: the lower one, as in the rule on flows of one packet. */
export function servicePort({ sourcePort, destinationPort }: AlertFlow): number {
  return Math.min(sourcePort, destinationPort)
}
