/** From a novel flow record to an alert in the log. */

import { type FlowRecord, protocolName } from '@oddflow/flows'
import { isInNetwork, isResponderDevice, type Network, type Rarity, reportedBytes } from '@oddflow/program'
import type { FoldSettings } from '../config/settings.js'
import { endOf } from '../devices/fact-sources.js'
import type { PeerName } from '../devices/peer-names.js'
import type { KeptEvidence } from '../evidence/evidence.js'
import type { AnswerBook } from '../incidents/answers.js'
import { encodeIncidentEvent, type Incident, type IncidentChange } from '../incidents/incident.js'
import type { IncidentBook } from '../incidents/incidents.js'
import type { LossHistory } from '../pipeline/conditions.js'
import type { AgentVerdict, Decider } from '../pipeline/counters.js'
import type { AlertLog } from '../spool/alert-log.js'
import { createAggregator } from './aggregate.js'
import {
  type Alert,
  type AlertDevice,
  type AlertRule,
  type FactRule,
  hashOfEnds,
  isFactRule,
} from './alert.js'
import { type AlertExplainer, encodeEve, encodeNotice, type Notice } from './eve.js'
import type { Suppression } from './suppress.js'

interface AlertContext {
  readonly localNetworks: readonly Network[]
  readonly labelsOf?: (key: string) => Pick<AlertDevice, 'name' | 'group'>
  readonly peerNamesOf?: (device: string, addresses: readonly string[]) => readonly PeerName[]
}

/** A verdict, or what takes its place in an alert of a device. */
type AlertGrounds = Omit<AgentVerdict, 'rule'> & {
  readonly rule: AlertRule
  readonly fact?: string
  /** A fact about the responder, whichever end is the device of a verdict. */
  readonly isOfResponder?: boolean
}

/** The id is a hash of model, flow and the record's place in it: a record that is judged again has the same id. */
export function makeAlert(
  record: FlowRecord,
  verdict: AlertGrounds,
  losses: Pick<Alert, 'lostPackets' | 'lostInWindow'>,
  rarity: Rarity | null,
  context: AlertContext,
): Alert {
  const { ipVersion, protocol, initiatorAddress, responderAddress } = record
  const isResponder = verdict.isOfResponder ?? isResponderDevice(record, context.localNetworks)
  const [own, other] = [endOf(record, isResponder), endOf(record, !isResponder)]
  const { initiator: initiatorBytes, responder: responderBytes } = reportedBytes(record)
  const model = verdict.model ?? ''
  const peerWords = isResponder ? initiatorAddress : responderAddress
  const peerIsLocal = context.localNetworks.some((network) => isInNetwork(network, peerWords, ipVersion))
  const idText = isFactRule(verdict.rule) ? `${model} ${verdict.rule}` : model
  const flow = {
    protocol: protocolName(protocol),
    source: (isResponder ? other : own).address,
    sourcePort: record.initiatorPort,
    destination: (isResponder ? own : other).address,
    destinationPort: record.responderPort,
    startMicros: record.startMicros,
    durationMicros: record.durationMicros,
    packets: record.packets,
    bytes: initiatorBytes + responderBytes,
    piece: record.pieceIndex,
  }
  const sourceWords = initiatorAddress.slice()
  const destinationWords = responderAddress.slice()
  const ends = { ipVersion, protocol, sourceWords, destinationWords, flow }
  const alert: Alert = {
    id: hashOfEnds(ends, record.startMicros, record.pieceIndex, idText).toString('hex', 0, 16),
    sourceWords,
    destinationWords,
    ipVersion,
    protocol,
    captureIndex: record.captureIndex,
    flowFirstPacketNumber: record.flowFirstPacketNumber,
    vlan: record.vlan,
    device: { mac: own.mac, address: own.address, ...context.labelsOf?.(own.key) },
    peer: other.address,
    peerKey: peerIsLocal ? other.key : null,
    flow,
    flowStartMicros: record.flowStartMicros,
    initiatorPackets: record.initiatorPackets,
    responderPackets: record.responderPackets,
    initiatorBytes,
    responderBytes,
    rule: verdict.rule,
    score: verdict.score,
    threshold: verdict.threshold,
    early: verdict.early === true,
    atMicros: record.startMicros + record.durationMicros,
    model: verdict.model,
    lostPackets: losses.lostPackets,
    lostInWindow: losses.lostInWindow,
    rarity,
    row: verdict.score === null ? null : (record.row?.slice() ?? null),
    folded: null,
  }
  // most have neither, and V8 builds an object with a spread by a slow path
  if (verdict.fact !== undefined) return { ...alert, fact: verdict.fact }
  return verdict.shadow === undefined ? alert : { ...alert, shadow: verdict.shadow }
}

interface AlertPipelineOptions {
  readonly context: AlertContext
  readonly suppression: Suppression
  /** Asked after `suppression`. */
  readonly alsoSuppresses?: (alert: Alert) => boolean
  /** Keeps packets of an alert that is given out; null where there are none. */
  readonly keepEvidence?: (alert: Alert) => KeptEvidence | null
  readonly onGiven?: (line: Uint8Array) => void
  /** What gathers alerts into incidents; null where devices are not kept. */
  readonly incidents: Pick<IncidentBook, 'note' | 'mutedBy' | 'advance' | 'clockSet' | 'flush'> | null
  /** What people said of them; null where there are none. */
  readonly answers: Pick<AnswerBook, 'isNormalFact' | 'noteSilenced'> | null
  readonly fold: FoldSettings | null
  readonly log: Pick<AlertLog, 'append'>
  readonly interfaceName: string | null
  /** D, the numbers of a row. */
  readonly dimension: number
  readonly explain: AlertExplainer
  readonly rarity: Decider['rarity']
  /** Told by alerts that no verdict is about: the model of all, where there is one. */
  readonly model: Pick<AgentVerdict, 'model' | 'threshold'>
  readonly lostPackets: () => number
  readonly losses: LossHistory
}

export type AlertPipeline = ReturnType<typeof createAlertPipeline>

/** Kinds of alerts that are folded at the same time; about 1 kB each, and a row. */
const MAXIMUM_KINDS = 2048
const LEAST_KINDS = 128
const ROW_BYTES = 2 * 1_048_576

function openAggregator(
  { windowSeconds, kindsPerDevice }: FoldSettings,
  dimension: number,
  emit: (alert: Alert) => void,
) {
  const rows = Math.floor(ROW_BYTES / (8 * dimension))
  const maximumKinds = Math.max(LEAST_KINDS, Math.min(MAXIMUM_KINDS, rows))
  return createAggregator({ windowMicros: windowSeconds * 1_000_000, kindsPerDevice, maximumKinds, emit })
}

/** The incident that an alert belongs to, and the answer that mutes it. */
function gather(
  made: Alert,
  isNovel: boolean,
  endMicros: number,
  { incidents, answers }: Pick<AlertPipelineOptions, 'incidents' | 'answers'>,
): Pick<Alert, 'incident' | 'muted'> {
  const isNormal = !isNovel || answers?.isNormalFact(made) === true
  const incident = isNormal ? null : (incidents?.note(made, endMicros) ?? null)
  // one that is not reported gathers evidence all the same: it may become another kind
  const mutedBy = incident === null ? null : (incidents?.mutedBy(incident) ?? null)
  const muted = isNormal ? 'normal' : mutedBy
  if (muted !== null) answers?.noteSilenced()
  return { ...(incident === null ? {} : { incident }), ...(muted === null ? {} : { muted }) }
}

/** An alert of each novel record, unless it is suppressed; folded with similar ones, encoded, appended to the log. */
export function createAlertPipeline(options: AlertPipelineOptions) {
  const { context, log, interfaceName } = options
  let { suppression } = options
  const totals = {
    raised: 0,
    /** Novel verdicts on devices that are not watched. */
    held: 0,
    /** Alerts about devices without a verdict. */
    announced: 0,
    /** Flows that an answer made normal, which the EVE file has. */
    answered: 0,
    suppressed: 0,
    given: 0,
    /** Events of the agent itself. */
    told: 0,
    incidentReports: 0,
  }
  const put = (line: Uint8Array): void => {
    log.append(line)
    options.onGiven?.(line)
  }
  const emit = (alert: Alert): void => {
    totals.given++
    const explanation = options.explain(alert)
    const names = context.peerNamesOf?.(alert.device.mac ?? alert.device.address, [alert.peer])
    if (alert.muted !== undefined) log.append(encodeEve(alert, interfaceName, explanation, null, names))
    else put(encodeEve(alert, interfaceName, explanation, options.keepEvidence?.(alert) ?? null, names))
  }
  const aggregator = options.fold === null ? null : openAggregator(options.fold, options.dimension, emit)
  const take = (record: FlowRecord, verdict: AlertGrounds, clockMicros = 0): void => {
    totals.raised++
    if (!verdict.novel) totals.answered++
    const lostPackets = options.lostPackets()
    const startMicros = record.startMicros + clockMicros
    const endMicros = startMicros + record.durationMicros
    options.losses.note(endMicros, lostPackets)
    const losses = { lostPackets, lostInWindow: options.losses.since(startMicros) }
    const rarity = options.rarity(verdict)
    const made = makeAlert(record, verdict, losses, rarity, context)
    if (suppression.take(made) !== null || options.alsoSuppresses?.(made) === true) {
      totals.suppressed++
      return
    }
    const alert = Object.assign(made, gather(made, verdict.novel, endMicros, options))
    if (aggregator === null) emit(alert)
    else aggregator.add(alert, endMicros)
  }
  return {
    /** @param clockMicros - by how much the packets' clock was set since the record began */
    raise: (record: FlowRecord, verdict: AgentVerdict, clockMicros?: number): void =>
      take(record, verdict, clockMicros),
    /** A novel verdict of which no alert is to be given. */
    hold(): void {
      totals.held++
    },
    /** A fact about a device, without a verdict; `fact` is its sentence, if the rule is not enough. */
    announce(record: FlowRecord, rule: FactRule, fact?: string, isOfResponder?: boolean): void {
      totals.announced++
      const said = {
        ...(fact === undefined ? {} : { fact }),
        ...(isOfResponder === undefined ? {} : { isOfResponder }),
      }
      take(record, { score: null, novel: true, rule, early: false, ...said, ...options.model })
    },
    tell(notice: Notice): void {
      totals.told++
      put(encodeNotice(notice, interfaceName))
    },
    report(incident: Incident, change: IncidentChange): void {
      totals.incidentReports++
      const peers = incident.contacts.map(({ peer }) => peer)
      const names = context.peerNamesOf?.(incident.key, [...new Set(peers)])
      put(encodeIncidentEvent(incident, change, interfaceName, names))
    },
    suppressBy(next: Suppression): void {
      suppression = next
    },
    advance(nowMicros: number): void {
      aggregator?.advance(nowMicros)
      options.incidents?.advance(nowMicros)
    },
    /** The packets' clock was set: waiting alerts keep their remaining time. */
    clockSet(byMicros: number): void {
      aggregator?.clockSet(byMicros)
      options.losses.clockSet(byMicros)
      options.incidents?.clockSet(byMicros)
    },
    flush(): void {
      aggregator?.flush()
      options.incidents?.flush()
    },
    totals: () => ({
      ...totals,
      folded: aggregator?.folded ?? 0,
      summaries: aggregator?.summaries ?? 0,
    }),
  }
}
