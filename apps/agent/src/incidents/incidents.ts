/**
 * IncidentBook: gathers the alerts of a device into incidents, and reports when one opens, becomes much worse, and is over. The rules
 * are in docs/incidents.md, and the reasons for their numbers in docs/results/incidents.md.
 *
 * What another device of the network started belongs to the incident of that device, if it has one: a new device that scans three
 * others is one incident. The unusual flows of an attack belong to the incident of the device that is attacked, if that is open: a
 * flood is reported before its flows end. Flows of devices that are not watched have no alert; those of an attack are kept for an answer.
 *
 * Bounded: of MAXIMUM_ACTIVE gathering or open incidents the weakest gathering one makes room. Time is the packets'.
 */
import { parseMac } from '@oddflow/capture'
import type { FlowRecord } from '@oddflow/flows'
import { type Alert, type AlertRule, servicePort } from '../alerts/alert.js'
import { type AlertExplainer, eventId } from '../alerts/eve.js'
import { isGroup } from '../devices/contacts.js'
import { INCIDENT_KINDS, type IncidentKind, kindOfFact, seriousKinds } from '../page/kinds.js'
import type { MutingAnswer } from './answer.js'
import { type AttackContact, type AttackFlowsOptions, attacksOf, createAttackFlows } from './attack-flows.js'
import {
  emptyIncident,
  INCIDENT_LEVELS,
  type Incident,
  type IncidentChange,
  type IncidentLevel,
  MAXIMUM_ACTIVE,
  MAXIMUM_CONTACTS,
  MAXIMUM_FACTS,
  MAXIMUM_OVER,
} from './incident.js'
import { contactOf, type IncidentRows, isSameContact } from './incident-rows.js'
import { deviceText, namedFact, serviceText, summaryOf } from './sentences.js'
import { bytesOf, noVolume, type Volume, volumeFacts } from './volume.js'

interface IncidentBookOptions extends AttackFlowsOptions {
  /** Of an earlier run. */
  readonly known: readonly Incident[]
  readonly explain: AlertExplainer
  /** Keeps what answers are about. */
  readonly rows: Pick<IncidentRows, 'note' | 'noteFlow' | 'of'>
  /** The answer for which an incident is not reported now. */
  readonly mutedBy: (incident: Incident) => MutingAnswer | null
  readonly onChange: (incident: Incident, change: IncidentChange) => void
}

const MINUTE = 60_000_000
const HOUR = 60 * MINUTE
const OPEN_EVIDENCE = 16
/** Half of that: a first contact alone is most often a server that moved. */
const FIRST_CONTACT_EVIDENCE = 8
/** People use devices when they like. */
const UNUSUAL_HOUR_EVIDENCE = 4
/** What a device announces to all is less than what it does with one. */
const GROUP_SHARE = 0.25
/** Of unusual flows alone: those with one peer and service say little more after so many, at most twice as much in all. */
const REPEATED_FLOWS = 16
const MAXIMUM_REPEATED = 64
const FADE_MICROS = HOUR
const QUIET_MICROS = HOUR
/** An incident is much worse at this multiple of the evidence of its last report. */
const WORSE = 4
/** From a report to the next of the same kind: a flood would bring one for each step of its level. */
const WORSE_MICROS = 10_000_000
/** From the first packet of a new device, or the flow that opens an incident of unusual ones, to its report. */
const WAIT_MICROS = 5_000_000
/** The key of facts that concern no single device. */
const NETWORK = 'network'

/** Facts about the agent's own work. */
const NO_INCIDENT: readonly AlertRule[] = ['device-ready', 'contacts-full', 'not-judged']
const LEVEL_OF_KIND: Readonly<Record<IncidentKind, IncidentLevel>> = {
  'address-taken': 'high',
  'password-guessing': 'high',
  'dns-tunnel': 'high',
  upload: 'medium',
  download: 'medium',
  flood: 'medium',
  scan: 'medium',
  'first-contact': 'low',
  'new-device': 'low',
  'unusual-flows': 'low',
}

/** State in memory only; the resulting reasons are saved. */
interface Working {
  readonly incident: Incident
  strongest: Alert | null
  /** By the device in unusual flows. */
  readonly volume: Volume
  /** Unusual flows by peer and service, of those that a peer began by service alone; of at most MAXIMUM_REPEATED. */
  readonly repeated: Map<string, number>
  reportedMicros: number
  /** Flows of devices that are not watched are part of it where they are with one of these. */
  readonly attacks: AttackContact[]
  /** Since when its first report waits. */
  waitsMicros: number | null
}

export class IncidentBook {
  readonly #options: IncidentBookOptions
  readonly #attackFlows: ReturnType<typeof createAttackFlows>
  /** By device. */
  readonly #active = new Map<string, Working>()
  readonly #over: Incident[] = []
  #changes = 0
  #reports = 0
  #advancedMicros = 0
  /** Flows that are judged late are of before. */
  #latestMicros = 0

  constructor(options: IncidentBookOptions) {
    this.#options = options
    this.#attackFlows = createAttackFlows(options)
    for (const incident of options.known) {
      if (incident.state === 'over') this.#over.push(incident)
      else {
        const attacks = attacksOf(incident, options.rows.of(incident.id).contacts)
        this.#active.set(incident.key, workingOf(incident, attacks))
      }
    }
  }

  // Evidence.

  /**
   * Takes an alert that no rule suppresses. Returns the id of its incident; null if the alert belongs to no incident.
   * @param atMicros - of the clock as it is now
   */
  note(alert: Alert, atMicros: number): string | null {
    if (NO_INCIDENT.includes(alert.rule)) return null
    // a recording has no clock but its packets; flows that are judged late do not set it back
    if (atMicros - this.#advancedMicros >= MINUTE || this.#advancedMicros - atMicros >= HOUR)
      this.advance(atMicros)
    const key = alert.rule === 'device-flood' ? NETWORK : (alert.device.mac ?? alert.device.address)
    const working = this.#workingFor(alert, key, atMicros)
    const { incident } = working
    this.#changes++
    incident.beginMicros = Math.min(incident.beginMicros, atMicros - alert.flow.durationMicros)
    incident.endMicros = Math.max(incident.endMicros, atMicros)
    countContact(incident, key, alert)
    this.#options.rows.note(incident.id, alert)
    this.#attackFlows.take(working, alert)
    if (alert.rule === 'score' || alert.rule === 'one-packet') noteFlow(working, alert)
    else noteFact(incident, alert.rule, key, atMicros, namedFact(alert))
    if (alert.rule === 'score')
      for (const { rule, fact } of volumeFacts(working.volume, alert, atMicros, this.#options.explain))
        noteFact(incident, rule, key, atMicros, `${deviceText(alert.device)} ${fact}`)
    incident.kind = kindOf(incident)
    incident.level = levelOf(incident)
    this.#latestMicros = Math.max(this.#latestMicros, atMicros)
    this.#reportChange(working)
    return incident.id
  }

  /**
   * A flow of a device that is not watched, and so has no alert; its row is borrowed. Where it is with a peer and service of an open
   * incident, an answer is about it too; of a scan, where it is with the peer. True where it is to train no model.
   * @param isNewContact - the device did not use the service with that peer before: usual flows to a host that is scanned are no part of that
   */
  noteHeld(record: FlowRecord, isNewContact: boolean): boolean {
    const isPart = this.#attackFlows.note(record, isNewContact, (device) => this.#active.get(device))
    if (isPart) this.#changes++
    return isPart
  }

  #workingFor(alert: Alert, key: string, atMicros: number): Working {
    const isResponder = alert.device.address === alert.flow.destination
    const byPeer = isResponder ? this.#current(alert.peerKey, atMicros) : undefined
    const found = byPeer ?? this.#attacked(alert, atMicros) ?? this.#current(key, atMicros)
    if (found !== undefined) {
      fade(found.incident, atMicros)
      return found
    }
    this.#makeRoom()
    const fresh = workingOf(beginIncident(alert, key, atMicros))
    this.#active.set(key, fresh)
    return fresh
  }

  /** The incident of a device that is not over. */
  #current(key: string | null, atMicros: number): Working | undefined {
    const working = key === null ? undefined : this.#active.get(key)
    if (working === undefined || !isOver(working.incident, atMicros)) return working
    this.#end(working)
    return undefined
  }

  /** The open incident of the device that the initiator of an unusual flow attacks with it. */
  #attacked(alert: Alert, atMicros: number): Working | undefined {
    const isFlow = alert.rule === 'score' || alert.rule === 'one-packet'
    const { peerKey, device, flow } = alert
    if (!isFlow || peerKey === null || device.address !== flow.source) return undefined
    const working = this.#active.get(peerKey)
    if (working === undefined || isOver(working.incident, atMicros)) return undefined
    const seen = { ...contactOf(alert), device: peerKey, peer: device.address }
    return working.attacks.some(({ contact }) => isSameContact(contact, seen)) ? working : undefined
  }

  #makeRoom(): void {
    if (this.#active.size < MAXIMUM_ACTIVE) return
    const all = [...this.#active.values()]
    const gathering = all.filter(({ incident }) => incident.state === 'gathering')
    const least = (of: Working[], by: (incident: Incident) => number): Working =>
      of.reduce((lowest, each) => (by(each.incident) < by(lowest.incident) ? each : lowest))
    this.#end(
      gathering.length > 0
        ? least(gathering, ({ evidence }) => evidence)
        : least(all, ({ endMicros }) => endMicros),
    )
  }

  // Reports.

  #report(incident: Incident, change: IncidentChange): void {
    incident.reports++
    const { kind, level, totalEvidence } = incident
    incident.reported = { kind, level, evidence: totalEvidence, kinds: seriousKinds(incident).length }
    this.#reports++
    this.#changes++
    this.#options.onChange(incident, change)
  }

  /** Reports that it opens, is of a graver kind, or became much worse, the last WORSE_MICROS after the report before. */
  #reportChange(working: Working, mayWait = true): void {
    const { incident, strongest, reportedMicros } = working
    const { explain, mutedBy } = this.#options
    const change = changeOf(incident)
    if (change === null || (mayWait && isPremature(working, this.#latestMicros))) return
    if (!isOtherKind(incident) && Math.abs(this.#latestMicros - reportedMicros) < WORSE_MICROS) return
    incident.state = 'open'
    if (strongest !== null) incident.reasons = [...explain(strongest).reasons]
    incident.summary = summaryOf(incident)
    if (mutedBy(incident) !== null) return
    working.reportedMicros = this.#latestMicros
    this.#report(incident, change)
  }

  #end(working: Working): void {
    const { incident } = working
    this.#active.delete(incident.key)
    this.#changes++
    if (incident.state === 'gathering') this.#reportChange(working, false)
    if (incident.state !== 'open') return
    incident.state = 'over'
    incident.summary = summaryOf(incident)
    this.#over.push(incident)
    if (this.#over.length > MAXIMUM_OVER) this.#over.shift()
    if (incident.reported !== null && this.#options.mutedBy(incident) === null) this.#report(incident, 'over')
  }

  // Time.

  /** Ends incidents that have been quiet for long, and reports what has waited. */
  advance(nowMicros: number): void {
    this.#advancedMicros = nowMicros
    this.#latestMicros = nowMicros
    for (const working of [...this.#active.values()]) {
      if (isOver(working.incident, nowMicros)) this.#end(working)
      else this.#reportChange(working)
    }
  }

  /** No more packets are to come: reports what waits. */
  flush(): void {
    for (const working of this.#active.values())
      if (working.incident.state === 'gathering') this.#reportChange(working, false)
  }

  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void {
    this.#latestMicros += byMicros
    this.#attackFlows.clockSet(byMicros)
    for (const working of this.#active.values()) {
      const { incident } = working
      working.reportedMicros += byMicros
      if (working.waitsMicros !== null) working.waitsMicros += byMicros
      incident.beginMicros += byMicros
      incident.endMicros += byMicros
      for (const fact of incident.facts) {
        fact.firstMicros += byMicros
        fact.lastMicros += byMicros
      }
    }
    if (this.#active.size > 0) this.#changes++
  }

  // Read from outside.

  /** The answer for which the incident with this id is not reported; null where there is none. */
  mutedBy(id: string): MutingAnswer | null {
    for (const { incident } of this.#active.values())
      if (incident.id === id) return this.#options.mutedBy(incident)
    return null
  }

  /** All incidents (gathering, open, over), oldest first. */
  all(): readonly Incident[] {
    return [...this.#over, ...[...this.#active.values()].map(({ incident }) => incident)]
  }

  /** Grows with each change; `reports` with each that was reported. */
  get changes(): number {
    return this.#changes
  }

  get reports(): number {
    return this.#reports
  }
}

function workingOf(incident: Incident, attacks: AttackContact[] = []): Working {
  return {
    incident,
    strongest: null,
    volume: noVolume(),
    repeated: new Map(),
    reportedMicros: 0,
    attacks,
    waitsMicros: null,
  }
}

function beginIncident(alert: Alert, key: string, atMicros: number): Incident {
  return emptyIncident({
    id: eventId(`${key} ${alert.id} ${atMicros}`),
    key,
    device: key === NETWORK ? { mac: null, address: NETWORK } : { ...alert.device },
    beginMicros: atMicros - alert.flow.durationMicros,
    endMicros: atMicros,
  })
}

/** A new device, or unusual flows: what comes next often says more, in one report. */
function isPremature(working: Working, nowMicros: number): boolean {
  const { state, kind, beginMicros } = working.incident
  if (state !== 'gathering' || !['new-device', 'unusual-flows'].includes(kind)) return false
  working.waitsMicros ??= kind === 'new-device' ? beginMicros : nowMicros
  const waitedMicros = nowMicros - working.waitsMicros
  return waitedMicros >= 0 && waitedMicros < WAIT_MICROS
}

/** An open one after a quiet hour; one that gathers when its evidence has faded. */
function isOver({ state, evidence, endMicros }: Incident, nowMicros: number): boolean {
  return nowMicros - endMicros >= (state === 'open' ? QUIET_MICROS : evidence * FADE_MICROS)
}

function fade(incident: Incident, atMicros: number): void {
  const quietMicros = Math.max(0, atMicros - incident.endMicros)
  incident.evidence = Math.max(0, incident.evidence - quietMicros / FADE_MICROS)
}

function addEvidence(incident: Incident, amount: number): void {
  incident.evidence += amount
  incident.totalEvidence += amount
}

function noteFlow(working: Working, alert: Alert): void {
  const { incident } = working
  incident.flows++
  const { sent, received } = bytesOf(alert)
  incident.sentBytes += sent.bytes
  incident.receivedBytes += received.bytes
  const { rarity } = alert
  const rareness = rarity === null ? 1 : Math.min(1, Math.max(0, Math.log10(1 / rarity.atMost) / 2))
  addEvidence(incident, rareness * (isToGroup(alert) ? GROUP_SHARE : 1) * repeatedShare(working, alert))
  if (alert.score === null) return
  const { strongest } = working
  if (rarity !== null && (incident.rarity === null || rarity.atMost < incident.rarity.atMost))
    incident.rarity = { atMost: rarity.atMost, flows: rarity.flows }
  if (strongest?.score == null || marginOf(alert) > marginOf(strongest)) working.strongest = alert
}

/** A client that tries again and again, or a server that is down, is no worse with each try: the level is that of what else happens. */
function repeatedShare({ incident, repeated }: Working, { device, peer, flow }: Alert): number {
  const began = device.address === flow.destination ? '' : peer
  const key = `${began} ${serviceText(flow.protocol, servicePort(flow))}`
  const flows = (repeated.get(key) ?? 0) + 1
  if (flows > 1 || repeated.size < MAXIMUM_REPEATED) repeated.set(key, flows)
  const isAlone = seriousKinds(incident).length === 0 && incident.evidence >= OPEN_EVIDENCE
  return isAlone && flows > REPEATED_FLOWS ? (REPEATED_FLOWS / flows) ** 2 : 1
}

/** Multicast and broadcast. */
function isToGroup({ ipVersion, destinationWords, peerKey }: Alert): boolean {
  const mac = (peerKey === null ? null : parseMac(peerKey)) ?? new Uint8Array(6)
  return isGroup(ipVersion, destinationWords, Uint8Array.from(mac))
}

/** How far below the threshold. */
function marginOf({ score, threshold }: Alert): number {
  return score === null || threshold === null ? 0 : threshold - score
}

/** The same of a further device, or once more, is 1. */
function noteFact(incident: Incident, rule: string, key: string, atMicros: number, fact: string): void {
  const { facts } = incident
  addEvidence(incident, facts.some((each) => each.rule === rule) ? 1 : evidenceOf(rule))
  const same = facts.find((each) => each.rule === rule && each.key === key)
  if (same !== undefined) {
    same.count++
    same.lastMicros = Math.max(same.lastMicros, atMicros)
    same.fact = fact
    return
  }
  if (facts.length >= MAXIMUM_FACTS) {
    // a scan of many devices must not hide another kind
    const isSpare = (each: string): boolean =>
      each !== rule && facts.filter((of) => of.rule === each).length > 1
    const place = facts.map((each) => isSpare(each.rule)).lastIndexOf(true)
    if (place < 0 || facts.some((each) => each.rule === rule)) return
    facts.splice(place, 1)
  }
  facts.push({ rule, key, count: 1, firstMicros: atMicros, lastMicros: atMicros, fact })
}

function evidenceOf(rule: string): number {
  if (rule === 'unusual-hour') return UNUSUAL_HOUR_EVIDENCE
  return rule === 'first-contact' ? FIRST_CONTACT_EVIDENCE : OPEN_EVIDENCE
}

/** Of an alert of another device, that device is the peer; a device with several addresses is none of its own peers. */
function countContact({ key: own, device: of, contacts }: Incident, key: string, alert: Alert): void {
  const { peer: other, device, flow } = alert
  const [first, second] = key === own ? [other, device.address] : [device.address, other]
  const peer = first === of.address ? second : first
  const service = serviceText(flow.protocol, servicePort(flow))
  const same = contacts.find((each) => each.peer === peer && each.service === service)
  if (same !== undefined) same.alerts++
  else if (contacts.length < MAXIMUM_CONTACTS) contacts.push({ peer, service, alerts: 1 })
}

function rankOf(kind: IncidentKind): number {
  return INCIDENT_KINDS.indexOf(kind)
}

function kindOf({ facts }: Incident): IncidentKind {
  const kinds = facts.map(({ rule }) => kindOfFact(rule) ?? 'unusual-flows')
  return kinds.reduce<IncidentKind>(
    (first, kind) => (rankOf(kind) < rankOf(first) ? kind : first),
    'unusual-flows',
  )
}

/** By its kind, and one step for each WORSE times the evidence that opens one. */
function levelOf({ kind, totalEvidence }: Incident): IncidentLevel {
  let level = INCIDENT_LEVELS.indexOf(LEVEL_OF_KIND[kind])
  for (let most = WORSE * OPEN_EVIDENCE; totalEvidence >= most; most *= WORSE) level++
  return INCIDENT_LEVELS[Math.min(level, INCIDENT_LEVELS.length - 1)] as IncidentLevel
}

/** It was not reported yet, or is of a kind, or has facts of one, that its last report did not have. */
function isOtherKind(incident: Incident): boolean {
  const { reported, kind } = incident
  const kinds = seriousKinds(incident).length
  return kind !== reported?.kind || kinds > (reported.kinds ?? kinds)
}

/** The change to report. */
function changeOf(incident: Incident): IncidentChange | null {
  const { reported, level, totalEvidence } = incident
  if (reported === null) return incident.evidence >= OPEN_EVIDENCE ? 'opened' : null
  const isWorse =
    totalEvidence >= WORSE * reported.evidence ||
    isOtherKind(incident) ||
    INCIDENT_LEVELS.indexOf(level) > INCIDENT_LEVELS.indexOf(reported.level)
  return isWorse ? 'worse' : null
}
