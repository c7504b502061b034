/**
 * Counters: where every packet and every alert went, as one object of plain numbers.
 *
 *     captured = processed + dropped + filtered        dropped = droppedKernel + droppedAgent + droppedDuplicates
 *     processed = packets in flows + held + the sum of notInFlows
 *     raised = novel − held + announced + answered
 *     raised = suppressed + folded + given − summaries
 *     given + told + incidentReports = accepted + refused
 *     accepted = delivered + setAside + dropped + waiting, for each output (of a state folder with what earlier runs left waiting)
 *
 * exactly, at any moment at which no batch is being worked on.
 */
import type { FlowContract } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { createFlowJudge, deviceKeyOf, type Network, type Rarity, type Verdict } from '@oddflow/program'
import type { AlertPipeline } from '../alerts/alert-pipeline.js'
import type { BudgetReport, IncidentRateReport } from '../budget/alert-budget.js'
import type { Thresholds } from '../budget/thresholds.js'
import type { DeviceReport } from '../devices/device-watch.js'
import type { Evidence } from '../evidence/evidence.js'
import type { AnswerCounts } from '../incidents/answers.js'
import type { Incident, IncidentLevel } from '../incidents/incident.js'
import type { ModelsReport } from '../models/model-manager.js'
import type { Delivery } from '../outputs/delivery.js'
import type { AlertLog } from '../spool/alert-log.js'
import type { Metric } from './environment.js'
import type { SelfTestCounts } from './self-test.js'
import type { Watcher } from './watcher.js'

export interface AgentVerdict extends Verdict {
  /** That the score was compared with; null where there is no model to ask. */
  readonly threshold: number | null
  /** The first 16 hexadecimal digits of the model file's SHA-256; null where there is none. */
  readonly model: string | null
  /** The verdict of the model as it was trained, if it was updated since. */
  readonly shadow?: Pick<Verdict, 'score' | 'novel'> & { readonly threshold: number; readonly model: string }
  /** Novel to the active model, and normal to the model of this answer. */
  readonly answered?: 'normal'
  /** Given before the record ended; the watcher says so. */
  readonly early?: boolean
}

/** The verdict on a flow record by one model for all, or by the device's own. All share a contract, one table and one row. */
export interface Decider {
  readonly contract: FlowContract
  /** D numbers, to which an extractor writes its rows. */
  readonly row: Float64Array
  /** A record's row, where it has one, must be `row`. */
  decide(record: FlowRecord): AgentVerdict
  /** The same verdict, which nothing counts: for made traffic. */
  peek(record: FlowRecord): AgentVerdict
  /** What judges a device (its key), as decisions name it; null where there is no model yet. */
  modelOf(device: string): ModelInForce | null
  /** How rare the score of a decision is among normal flows; null if unknown. */
  rarity(decision: Pick<AgentVerdict, 'score' | 'model'>): Rarity | null
}

type ModelInForce = { readonly model: string; readonly threshold: number; readonly saved: SavedModel }

/** Throws ContractMismatchError for a model that knows nothing of flows. */
export function createModelDecider(
  saved: SavedModel,
  model: string,
  /** Decide on scores; the rule on flows of one packet is the model's. */
  thresholds: Thresholds,
  localNetworks: readonly Network[],
  /** D numbers; its own where none is given. */
  given?: Float64Array,
): Decider {
  const { contract, row, judge } = createFlowJudge(saved, given)
  const decisionOn = ({ score, rule, novel }: Verdict, threshold: number): AgentVerdict => ({
    score,
    rule,
    novel: score === null ? novel : !(score > threshold),
    threshold,
    model,
  })
  return {
    contract,
    row,
    decide(record) {
      const judgement = judge(record)
      const { score, rule, novel } = judgement
      if (score !== null) return decisionOn(judgement, thresholds.judge(record, score))
      if (novel && rule === 'one-packet') thresholds.noteOnePacketNovel()
      return decisionOn(judgement, saved.threshold.value)
    },
    peek(record) {
      const judgement = judge(record)
      if (judgement.score === null) return decisionOn(judgement, saved.threshold.value)
      return decisionOn(judgement, thresholds.of(deviceKeyOf(record, localNetworks)))
    },
    modelOf: (device) => ({ model, threshold: thresholds.of(device), saved }),
    rarity: ({ score }) => (score === null ? null : thresholds.rarity(score)),
  }
}

export type AgentCounters = ReturnType<typeof agentCounters>

export const PACKET_METRICS: readonly Metric<AgentCounters>[] = [
  [
    'packets_total',
    'Captured packets by fate.',
    ({ processed, droppedKernel, droppedAgent, droppedDuplicates, filtered }) => ({
      processed,
      dropped_kernel: droppedKernel,
      dropped_agent: droppedAgent,
      dropped_duplicates: droppedDuplicates,
      filtered,
    }),
    'fate',
  ],
  [
    'packets_not_in_flows_total',
    'Processed packets that belong to no flow, by reason.',
    ({ notInFlows }) => notInFlows,
    'reason',
  ],
  [
    'packets_doubtful_total',
    'Doubtful packets: duplicates, wrong IPv4 header checksums, expiring TTLs.',
    ({ check: { duplicatePackets, wrongChecksums, lastHopPackets } }) => ({
      duplicate: duplicatePackets,
      wrong_checksum: wrongChecksums,
      last_hop: lastHopPackets,
    }),
    'reason',
  ],
  [
    'packets_untimely_total',
    'Packets with timestamps out of order.',
    ({ reordered, timestampBackwards, fromFuture }) => ({
      reordered,
      simultaneous: timestampBackwards,
      from_future: fromFuture,
    }),
    'fate',
  ],
  ['clock_steps_total', "Steps of the packets' clock.", ({ clockSteps }) => clockSteps],
  ['capture_interruptions_total', 'Interruptions of the capture.', ({ interruptions }) => interruptions],
  ['overloads_total', 'Overloads.', ({ overloads }) => overloads],
  [
    'self_tests_total',
    'Synthetic attacks of the self-test, by result.',
    ({ selfTests: { flagged, missed, notNoticed } }) => ({ flagged, missed, not_noticed: notNoticed }),
    'result',
  ],
  ['flows_total', 'Flows started.', ({ flows }) => flows],
  [
    'flows_evicted_total',
    'Flows ended early because the flow table was full.',
    ({ evictedFlows }) => evictedFlows,
  ],
  [
    'verdicts_total',
    'Verdicts by rule.',
    ({ verdicts: { score, onePacket, notJudged } }) => ({
      score,
      one_packet: onePacket,
      not_judged: notJudged,
    }),
    'rule',
  ],
  [
    'novel_total',
    'Verdicts "novel" by rule.',
    ({ novel: { score, onePacket } }) => ({ score, one_packet: onePacket }),
    'rule',
  ],
]

export const ALERT_METRICS: readonly Metric<AgentCounters['alerts']>[] = [
  [
    'alerts_total',
    'Alerts by fate.',
    ({ given, suppressed, folded, held, refused, told, incidentReports: incident }) => ({
      given,
      suppressed,
      folded,
      held,
      refused,
      told,
      incident,
    }),
    'fate',
  ],
  ['output_delivered_total', 'Alerts delivered.', ({ delivered }) => delivered, 'output'],
  [
    'output_set_aside_total',
    'Alerts that the receiver refused individually.',
    ({ setAside }) => setAside,
    'output',
  ],
  ['output_dropped_total', 'Alerts lost because a queue was full.', ({ dropped }) => dropped, 'output'],
  ['output_waiting', 'Alerts waiting for an output.', ({ waiting }) => waiting, 'output'],
]

export interface IncidentsReport {
  /** Open now, by level. */
  readonly open: Readonly<Record<IncidentLevel, number>>
  readonly answers: AnswerCounts
  readonly rate: IncidentRateReport
}

export const INCIDENT_METRICS: readonly Metric<IncidentsReport>[] = [
  ['incidents_open', 'Open incidents by level.', ({ open }) => open, 'level'],
  [
    'incident_answers',
    'Active answers to incidents, by answer.',
    ({ answers }) => answers.standing,
    'answer',
  ],
  [
    'alerts_silenced_total',
    'Alerts that an answer mutes; only the EVE file has them.',
    ({ answers }) => answers.silencedAlerts,
  ],
  ['incidents_opened_total', 'Incidents reported as opened.', ({ rate }) => rate.opened],
  ['incidents_per_day', 'Incidents per day, without those answered as an attack.', ({ rate }) => rate.perDay],
  [
    'incidents_per_day_low',
    'Lower end of the 95 % interval of incidents per day.',
    ({ rate }) => rate.interval?.low,
  ],
  [
    'incidents_per_day_high',
    'Upper end of the 95 % interval of incidents per day.',
    ({ rate }) => rate.interval?.high,
  ],
  [
    'incidents_per_day_allowed',
    'Incidents per day that the budget allows.',
    ({ rate }) => rate.allowedPerDay,
  ],
  [
    'remote_answers_total',
    'Answers to incidents received by MQTT, by fate.',
    ({ answers }) => answers.remote,
    'fate',
  ],
  [
    'flows_answered_normal_total',
    'Flows that an answer "normal" made normal, and that the active model finds novel.',
    ({ answers }) => answers.normalFlows,
  ],
]

export function incidentsReport(
  incidents: readonly Incident[],
  answers: AnswerCounts,
  rate: IncidentRateReport,
): IncidentsReport {
  const open = { low: 0, medium: 0, high: 0 }
  for (const { state, level } of incidents) if (state === 'open') open[level]++
  return { open, answers, rate }
}

/** Reports of parts; null where there is no such part. */
interface CountedParts {
  readonly droppedKernel: number
  /** Of the recording of an interface; packets that passed meanwhile are not counted. */
  readonly interruptions: number
  /** Times that the agent left packets out (droppedAgent). */
  readonly overloads: number
  readonly devices: DeviceReport | null
  readonly models: ModelsReport | null
  readonly budget: BudgetReport | null
  readonly incidents: IncidentsReport | null
  readonly evidence: ReturnType<Evidence['report']> | null
  /** Synthetic attacks that the agent has sent itself. */
  readonly selfTests: SelfTestCounts
  readonly watcher: Watcher
  readonly alerts: ReturnType<AlertPipeline['totals']>
  readonly log: AlertLog
  readonly deliveries: readonly Delivery[]
}

export function agentCounters({ watcher, alerts, log, deliveries, ...parts }: CountedParts) {
  const flows = watcher.flowCounters()
  const { 'filtered-out': _, 'not-admitted': __, duplicate: ___, ...notInFlows } = flows.dropped
  const { judged, novel, filtered, early, frames, shed: droppedAgent } = watcher.counts
  const { droppedKernel } = parts
  const { droppedDuplicates } = watcher.check
  const byOutput = (count: (delivery: Delivery) => number): Record<string, number> =>
    Object.fromEntries(deliveries.map((delivery) => [delivery.name, count(delivery)]))
  return {
    captured: frames + droppedKernel,
    processed: flows.packets - filtered - droppedAgent - droppedDuplicates,
    dropped: droppedKernel + droppedAgent + droppedDuplicates,
    droppedAgent,
    droppedDuplicates,
    filtered,
    packetsInFlows: flows.packetsInFlows,
    notInFlows,
    /** Packets that wait for their turn, for at most a moment. */
    held: flows.heldPackets,
    check: { ...watcher.check },
    timestampBackwards: flows.timestampBackwards,
    reordered: flows.reorderedPackets,
    clockSteps: flows.clockSteps,
    /** With a time far ahead of those around them. */
    fromFuture: flows.futurePackets,
    flows: flows.flows,
    /** Without a verdict, or without the last: none at the end of an input. */
    openFlows: watcher.openFlows,
    evictedFlows: flows.evictedFlows,
    records: flows.records,
    verdicts: {
      total: judged.score + judged['one-packet'] + judged['not-judged'],
      early,
      score: judged.score,
      onePacket: judged['one-packet'],
      notJudged: judged['not-judged'],
    },
    ...parts,
    novel: { total: novel.score + novel['one-packet'], score: novel.score, onePacket: novel['one-packet'] },
    alerts: {
      ...alerts,
      accepted: log.acknowledged + log.pending + log.lost,
      refused: log.refused,
      delivered: byOutput(({ delivered }) => delivered),
      /** Refused by the receiver, each alone, and not sent again. */
      setAside: byOutput(({ setAside }) => setAside),
      dropped: byOutput(({ dropped }) => dropped),
      waiting: byOutput(({ backlog }) => backlog + log.pending),
    },
  }
}
