/**
 * AttackFlows: flows of devices that are not watched, and so have no alert, that are part of an attack: with the peer and service of a
 * fact, of a scan with the peer alone. The latest are kept, of which a fact may say what they were.
 */
import type { FlowRecord } from '@oddflow/flows'
import type { Network } from '@oddflow/program'
import type { Alert } from '../alerts/alert.js'
import type { FlowEnd } from '../devices/fact-sources.js'
import { kindOfFact, MAY_BE_NORMAL, seriousKinds } from '../page/kinds.js'
import { type Incident, MAXIMUM_CONTACTS } from './incident.js'
import {
  type Contact,
  contactOf,
  contactOfRecord,
  type IncidentRows,
  isSameContact,
  pairOf,
} from './incident-rows.js'

/** More than a scan or a guesser has before the fact. */
const MAXIMUM_HELD = 256
/** Facts about services that differ. */
const SCANS: readonly string[] = ['port-scan', 'host-scan']

/** The peer of a fact that is no new device and no first contact. */
export interface AttackContact {
  readonly contact: Contact
  readonly isScan: boolean
  /** The device scans hosts: whatever else is new of it is part of that. */
  readonly isOfHosts: boolean
}

/** A flow without an alert, from both of its ends. */
interface HeldFlow {
  /** As seen from the device whose model would judge it. */
  readonly contact: Contact
  readonly ends: readonly FlowEnd[]
  readonly isNewContact: boolean
  startMicros: number
  readonly pair: number
  readonly row: Float64Array
}

/** Whether a flow is with a contact of an incident, whichever of the two ends that is seen from. */
function isPartOf(
  { contact, ends, isNewContact }: Pick<HeldFlow, 'contact' | 'ends' | 'isNewContact'>,
  { contact: { device, peer, service }, isScan, isOfHosts }: AttackContact,
): boolean {
  if (isOfHosts && isNewContact && device === contact.device) return true
  if (service !== contact.service && !(isScan && isNewContact)) return false
  return ends.some(({ key }, i) => device === key && peer === ends[1 - i]?.address)
}

/** Of an earlier run. */
export function attacksOf(incident: Incident, contacts: readonly Contact[]): AttackContact[] {
  if (seriousKinds(incident).length === 0) return []
  const { facts } = incident
  const isScan = facts.some(({ rule }) => SCANS.includes(rule))
  const isOfHosts = (device: string): boolean =>
    facts.some(({ rule, key }) => rule === 'host-scan' && key === device)
  return contacts.map((contact) => ({ contact, isScan, isOfHosts: isOfHosts(contact.device) }))
}

/** What facts of an incident are about. */
export interface OpenAttacks {
  readonly incident: Incident
  readonly attacks: AttackContact[]
}

export interface AttackFlowsOptions {
  readonly rows: Pick<IncidentRows, 'noteFlow'>
  readonly localNetworks: readonly Network[]
  /** A flow that a device's model may have learned turned out to be part of an attack. @param pair - of its addresses (addressPair) */
  readonly onAttackFlow?: (pair: number, startMicros: number) => void
}

export function createAttackFlows({ rows, localNetworks, onAttackFlow }: AttackFlowsOptions) {
  const held: HeldFlow[] = []
  return {
    /** A flow without an alert; its row is borrowed. True where it is part of an attack on one of its ends. */
    note(
      record: FlowRecord,
      isNewContact: boolean,
      attacksOn: (device: string) => OpenAttacks | undefined,
    ): boolean {
      const flow = { ...contactOfRecord(record, localNetworks), isNewContact }
      for (const { key } of flow.ends) {
        const of = attacksOn(key)
        if (of?.attacks.some((attack) => isPartOf(flow, attack)) !== true) continue
        if (record.row !== null) rows.noteFlow(of.incident.id, flow.contact, record.row.slice())
        return true
      }
      const { startMicros } = record
      if (record.row !== null)
        held.push({ ...flow, startMicros, pair: pairOf(record), row: record.row.slice() })
      if (held.length > MAXIMUM_HELD) held.shift()
      return false
    },
    /** Flows that came before their fact are its incident's; before a scan, those with a service that came once. */
    take({ incident, attacks }: OpenAttacks, alert: Alert): void {
      const { rule } = alert
      const kind = kindOfFact(rule)
      if (kind === null || MAY_BE_NORMAL.includes(kind)) return
      const isScan = SCANS.includes(rule)
      const attack = { contact: contactOf(alert), isScan, isOfHosts: rule === 'host-scan' }
      if (attacks.length < MAXIMUM_CONTACTS) attacks.push(attack)
      const found = held.filter(
        (flow) =>
          isPartOf(flow, attack) &&
          (!isScan || held.filter((each) => isSameContact(each.contact, flow.contact)).length === 1),
      )
      for (const flow of found) {
        rows.noteFlow(incident.id, flow.contact, flow.row)
        onAttackFlow?.(flow.pair, flow.startMicros)
        held.splice(held.indexOf(flow), 1)
      }
    },
    clockSet(byMicros: number): void {
      for (const flow of held) flow.startMicros += byMicros
    },
  }
}
