/**
 * How far a scope has learned: the rate that its threshold is to keep, the rows that this takes, and whether a training is due.
 * Time is the packets'.
 *
 * The rate is the alert budget's over the scope's own flows a day (times its devices; over the network's flows where the budget is the
 * network's); without a budget that of one false alert a day of each device, and 1 % at most. Enough rows are those that the threshold
 * needs to keep its promise (rowsToLearn), or as many as there is room for.
 *
 * Rows held out of a training come from the same minutes as those that it learns. So a model proves itself by as many later flows as
 * were enough to train: no larger share of them may be novel than it promises, or one of any number. Otherwise it is trained again
 * with all rows.
 *
 * A device of few flows would take weeks for that. After `judgeHours` a model is made of FEWEST_ROWS rows or more, and another one each
 * time there are half as many again, until there are enough.
 */
import type { FlowContract } from '@oddflow/core'
import { budgetRate, type Threshold } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import type { BudgetSettings, DeviceSettings } from '../config/settings.js'
import type { Device } from '../devices/device.js'
import type { OwnModel } from '../page/api.js'
import type { Metric } from '../pipeline/environment.js'
import { isOfNow, type Learning, type ModelScope, noteOf } from './model-scopes.js'
import { FEWEST_ROWS, LEAST_ROWS, rowsToLearn } from './train.js'

export type LearningProgress = ReturnType<typeof createLearningProgress>

/** `open`: more flows are needed. */
type Proof = 'open' | 'kept' | 'broken'

/** Where no budget says otherwise, as `oddflow train`. */
const FALSE_POSITIVE_RATE = 0.01
const FALSE_ALERTS_PER_DAY = 1
/** Of the rows of a judged owner's model, with which another one is made. */
const MORE_ROWS = 1.5
const MICROS_PER_HOUR = 3_600_000_000
const MICROS_PER_DAY = 24 * MICROS_PER_HOUR

export function createLearningProgress(
  { learnFlows, learnHours, judgeHours }: DeviceSettings,
  budget: BudgetSettings | null,
  rowsPerScope: number,
  contract: FlowContract,
) {
  let latestMicros = 0
  const network = { flows: 0, firstMicros: Number.POSITIVE_INFINITY }
  const lastedMicros = (learning: Learning): number =>
    noteOf(learning, 'lastMicros') - noteOf(learning, 'firstMicros')

  const rateFor = (learning: Learning): number => {
    const own = perDay(noteOf(learning, 'flows'), lastedMicros(learning))
    if (budget === null) {
      const devices = Math.max(1, learning.devices.size)
      return Math.min(FALSE_POSITIVE_RATE, budgetRate(FALSE_ALERTS_PER_DAY * devices, own))
    }
    if (budget.per === 'network') {
      const all = perDay(network.flows, latestMicros - network.firstMicros)
      return budgetRate(budget.falseAlertsPerDay, Math.max(own, all))
    }
    return budgetRate(budget.falseAlertsPerDay * Math.max(1, learning.devices.size), own)
  }
  const rowsFor = (learning: Learning): number =>
    Math.min(rowsPerScope, Math.max(LEAST_ROWS, rowsToLearn(contract, rateFor(learning))))
  const isEnough = (learning: Learning): boolean =>
    learning.reservoir.count >= LEAST_ROWS &&
    noteOf(learning, 'flows') >= learnFlows &&
    lastedMicros(learning) >= learnHours * MICROS_PER_HOUR &&
    learning.reservoir.count >= rowsFor(learning)
  /** Flows of a proof. */
  const provesAfter = (learning: Learning): number => Math.max(learnFlows, rowsFor(learning))
  /** What the flows say that came after the model of one that learns. */
  const proof = ({ learning, model }: ModelScope): Proof => {
    if (learning === null || model === null) return 'open'
    const flows = noteOf(learning, 'provingFlows')
    if (flows < provesAfter(learning)) return 'open'
    // one of any number may be chance
    const most = Math.max(1, promisedShare(model.saved.threshold) * flows)
    return noteOf(learning, 'provingNovel') <= most ? 'kept' : 'broken'
  }
  /** `judgeHours` are over. */
  const isOverdue = (learning: Learning): boolean =>
    latestMicros - noteOf(learning, 'firstMicros') >= Math.max(learnHours, judgeHours) * MICROS_PER_HOUR
  /** Its model has proved itself, and is of as many rows as its promise takes. */
  const isTight = (of: ModelScope): boolean => {
    const { learning } = of
    if (learning === null || !isOfNow(of)) return false
    if (proof(of) !== 'kept') return false
    return noteOf(learning, 'judged') !== 1 || (of.record?.rows ?? 0) >= rowsFor(learning)
  }
  return {
    /** A verdict was given on this record. */
    note(record: FlowRecord): void {
      latestMicros = Math.max(latestMicros, record.startMicros + record.durationMicros)
      network.flows++
      network.firstMicros = Math.min(network.firstMicros, record.startMicros)
    },
    /** The packets' clock was set by so much. */
    clockSet(byMicros: number): void {
      latestMicros += byMicros
      network.firstMicros += byMicros
    },
    /** Packets have come up to this time. */
    advance(nowMicros: number): void {
      latestMicros = Math.max(latestMicros, nowMicros)
    },
    /** Of the latest end of a flow, or packet. */
    get latestMicros() {
      return latestMicros
    },
    rateFor,
    rowsFor,
    provesAfter,
    proof,
    isDue(of: ModelScope): boolean {
      const { learning } = of
      if (learning === null) return false
      const { count } = learning.reservoir
      const isJudged = noteOf(learning, 'judged') === 1
      if (isOverdue(learning) && !isJudged) return count >= FEWEST_ROWS
      if (noteOf(learning, 'flows') < noteOf(learning, 'nextFlows')) return false
      if (isJudged) {
        const rows = of.record?.rows ?? 0
        if (isOfNow(of) && proof(of) === 'broken') return true
        const more = Math.min(Math.ceil(MORE_ROWS * rows), rowsFor(learning))
        return count > rows && count >= Math.max(FEWEST_ROWS, more) && rows < rowsFor(learning)
      }
      return isOfNow(of) ? proof(of) === 'broken' : isEnough(learning)
    },
    isOverdue,
    /** It was judged with what it has shown, or has shown too little for a model. */
    isJudged: (learning: Learning): boolean =>
      noteOf(learning, 'judged') === 1 || (isOverdue(learning) && learning.reservoir.count < FEWEST_ROWS),
    isTight,
  }
}

/** The share of normal flows that may be novel: what was asked for, or what the rows allow. */
export function promisedShare({ falsePositiveRate, calibration }: Threshold): number {
  return Math.max(falsePositiveRate, calibration.bound)
}

/** Whether the rows of a device make its owner's model. @param hasBase - whether a model judges those without one of their own. */
export function mustLearn(
  { name, model, record, damage }: ModelScope,
  device: Device,
  hasBase: boolean,
): boolean {
  if (device.state !== 'learning') {
    // else nothing would judge it, or not what did before
    return device.state !== 'paused' && model === null && (damage === 'lost' || !hasBase)
  }
  // what a device shows until it is watched makes its model better
  if (model === null || (record !== null && name === device.key)) return true
  const { learningSinceMicros, firstSeenMicros } = device
  const trainedAt = record?.trainedAtMicros ?? Number.NEGATIVE_INFINITY
  return learningSinceMicros > firstSeenMicros && learningSinceMicros >= trainedAt
}

function perDay(flows: number, micros: number): number {
  return (Math.max(1, flows) * MICROS_PER_DAY) / Math.max(1, micros)
}

/**
 * The report on models made by the agent: for `models list`, `devices list`, the counters and the metrics. Plain
 * data of numbers and names; `reportScope` makes the part on one owner.
 */

/**
 * What the page shows of a scope (page/api.ts), and how far its learning is. Of one that learns, `rows` are those in its reservoir
 * and `rowsNeeded` those that its threshold needs; of another, `rows` are those of its model and `rowsNeeded` is null.
 */
export interface ScopeReport extends OwnModel {
  /** Flows seen while learning. */
  readonly flows: number
  /** The result of the training of the active model; null without one. `refused` has the result of a refused training. */
  readonly unsettledShare: number | null
}

export interface ModelsReport {
  readonly owners: { readonly waiting: number; readonly learning: number; readonly withModel: number }
  readonly trainings: TrainingCounts
  /** null where models do not learn on. */
  readonly learning: OnlineReport | null
  readonly reservoirBytes: number
  readonly reservoirBytesMaximum: number
  /** Models found damaged at the start. */
  readonly damaged: number
}

export const MODEL_METRICS: readonly Metric<ModelsReport>[] = [
  [
    'models',
    'Owners of models made by the agent, by state.',
    ({ owners: { learning, waiting, withModel } }) => ({ learning, waiting, with_model: withModel }),
    'state',
  ],
  ['trainings_total', 'Trainings by result.', ({ trainings }) => trainings, 'result'],
  [
    'learning_rows_bytes',
    'Memory of the rows collected for training, in bytes.',
    ({ reservoirBytes }) => reservoirBytes,
  ],
]

export const LEARNING_METRICS: readonly Metric<OnlineReport>[] = [
  ['online_rows_total', 'Rows of watched devices, by fate in online learning.', ({ rows }) => rows, 'fate'],
  ['online_rounds_total', 'Rounds of online learning by result.', ({ rounds }) => rounds, 'result'],
  [
    'shadow_verdicts_total',
    'Scored flows by the verdicts of the updated model and the trained model.',
    ({ shadow }) => shadow,
    'verdict',
  ],
]

type TrainingCounts = Readonly<Record<'accepted' | 'unsettled' | 'failed', number>>

export interface OnlineReport {
  /** Of watched devices, by what became of them; `refused` were in rounds that the guard had undone. */
  readonly rows: {
    readonly learnt: number
    readonly heldBack: number
    readonly disregarded: number
    readonly refused: number
    readonly overBudget: number
    readonly crowded: number
  }
  readonly rounds: { readonly accepted: number; readonly refused: number; readonly failed: number }
  readonly shadow: ShadowCounts
}

/** Scored flows of owners whose model has learnt on, by whether it and the model as it was trained find them novel. */
export type ShadowCounts = Readonly<Record<'bothNormal' | 'bothNovel' | 'onlyNow' | 'onlyTrained', number>>

export function reportScope(of: ModelScope, progress: LearningProgress): ScopeReport {
  const { learning, record } = of
  const threshold = of.model?.saved.threshold ?? null
  const proving =
    learning === null || !isOfNow(of)
      ? null
      : {
          state: progress.proof(of),
          flows: noteOf(learning, 'provingFlows'),
          needed: progress.provesAfter(learning),
          novel: noteOf(learning, 'provingNovel'),
        }
  return {
    owner: of.name,
    state: of.isWaiting ? 'waiting' : !isOfNow(of) ? 'learning' : record === null ? 'given' : record.source,
    model: of.model?.id ?? null,
    previous: record?.previous?.slice(0, 16) ?? null,
    rows: learning?.reservoir.count ?? record?.rows ?? 0,
    rowsNeeded: learning === null ? null : progress.rowsFor(learning),
    modelRows: record?.rows ?? null,
    falseAlarmShare: threshold === null ? null : promisedShare(threshold),
    keepsPromise: threshold === null ? null : threshold.calibration.guaranteed && proving?.state !== 'broken',
    proving,
    refused: of.refused,
    damage: of.damage,
    flows: learning === null ? 0 : noteOf(learning, 'flows'),
    unsettledShare: record?.unsettledShare ?? null,
  }
}
