/**
 * The progress of a learning scope: the false positive rate of its threshold, the rows that this needs, and whether a training is due.
 * Time is the packets'.
 *
 * The rate is the alert budget divided by the flows per day of the scope (or of the network); without a budget, one false alert per day
 * and device, and at most 1 %. Enough rows are those that the threshold needs to keep this rate (rowsToLearn), or the maximum.
 *
 * Rows held out of a training come from the same minutes as the others, so a model must prove itself on the same number of later flows:
 * the novel share must not exceed its promise (one novel flow is always allowed). Otherwise it is retrained with all rows.
 *
 * A device with few flows would take weeks. After `judgeHours` a model is trained from FEWEST_ROWS rows or more, and again each time
 * there are half as many more, until there are enough.
 */
import type { FlowContract } from '@oddflow/core'
import { budgetRate, type Threshold } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import type { BudgetSettings, DeviceSettings } from '../config/settings.js'
import type { Metric } from '../pipeline/environment.js'
import type { ModelsReport } from './model-manager.js'
import { isOfNow, type Learning, type ModelScope, noteOf } from './model-scopes.js'
import { FEWEST_ROWS, LEAST_ROWS, rowsToLearn } from './train.js'
import type { OnlineReport } from './update.js'

export type LearningProgress = ReturnType<typeof createLearningProgress>

/** `open`: more flows are needed. */
type Proof = 'open' | 'kept' | 'broken'

/** Without a budget, as in `oddflow train`. */
const FALSE_POSITIVE_RATE = 0.01
const FALSE_ALERTS_PER_DAY = 1
/** Growth of the rows after which a judged scope gets another model. */
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
  /** Whether the flows since the model is active keep its promise. */
  const proof = ({ learning, model }: ModelScope): Proof => {
    if (learning === null || model === null) return 'open'
    const flows = noteOf(learning, 'provingFlows')
    if (flows < provesAfter(learning)) return 'open'
    // a single one may be chance
    const most = Math.max(1, promisedShare(model.saved.threshold) * flows)
    return noteOf(learning, 'provingNovel') <= most ? 'kept' : 'broken'
  }
  /** `judgeHours` are over. */
  const isOverdue = (learning: Learning): boolean =>
    latestMicros - noteOf(learning, 'firstMicros') >= Math.max(learnHours, judgeHours) * MICROS_PER_HOUR
  /** Its model is proven, and was trained from enough rows. */
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
    /** The packets' clock was set. */
    clockSet(byMicros: number): void {
      latestMicros += byMicros
      network.firstMicros += byMicros
    },
    /** Packets came up to this time. */
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
    /** It was trained at the end of judgeHours, or had too few rows for that. */
    isJudged: (learning: Learning): boolean =>
      noteOf(learning, 'judged') === 1 || (isOverdue(learning) && learning.reservoir.count < FEWEST_ROWS),
    isTight,
  }
}

/** The share of normal flows that may be flagged: as requested, or what the rows allow. */
export function promisedShare({ falsePositiveRate, calibration }: Threshold): number {
  return Math.max(falsePositiveRate, calibration.bound)
}

function perDay(flows: number, micros: number): number {
  return (Math.max(1, flows) * MICROS_PER_DAY) / Math.max(1, micros)
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

/** Scored flows of scopes with an updated model, by the verdicts of the updated and the trained model. */
export type ShadowCounts = Readonly<Record<'bothNormal' | 'bothNovel' | 'onlyNow' | 'onlyTrained', number>>

export type ScopeReport = ReturnType<typeof reportScope>

/**
 * A scope for the page, `models list`, `devices list` and the metrics. While it learns, `rows` are those in its reservoir and
 * `rowsNeeded` those that its threshold needs; otherwise `rows` are those of its model and `rowsNeeded` is null.
 */
export function reportScope(of: ModelScope, progress: LearningProgress) {
  const { learning, record } = of
  const threshold = of.model?.saved.threshold ?? null
  const proving =
    learning === null || !isOfNow(of)
      ? null
      : {
          /** `open`: more flows are needed; `broken`: more of them were novel than promised, and another model is trained. */
          state: progress.proof(of),
          /** Flows scored since the model is active, and flows needed. */
          flows: noteOf(learning, 'provingFlows'),
          needed: progress.provesAfter(learning),
          novel: noteOf(learning, 'provingNovel'),
        }
  return {
    owner: of.name,
    /** Where the model comes from (trained here, updated since, or given by the configuration), or its progress. */
    state: of.isWaiting ? 'waiting' : !isOfNow(of) ? 'learning' : record === null ? 'given' : record.source,
    /** Of the active model. */
    model: of.model?.id ?? null,
    /** To which a rollback goes. */
    previous: record?.previous?.slice(0, 16) ?? null,
    rows: learning?.reservoir.count ?? record?.rows ?? 0,
    rowsNeeded: learning === null ? null : progress.rowsFor(learning),
    /** Rows in the training of the active model; null for a given model, and without a model. */
    modelRows: record?.rows ?? null,
    /** What it promises: share of normal flows that it flags at most, on average. */
    falseAlarmShare: threshold === null ? null : promisedShare(threshold),
    /** Whether that is within what was asked for, and no proof is broken; null where no one knows. */
    keepsPromise: threshold === null ? null : threshold.calibration.guaranteed && proving?.state !== 'broken',
    /** For a learning device with an active model: the result of later flows for its promise; else null. */
    proving,
    /** The last training, where its model was refused since the rows had not settled; null after one that was accepted. */
    refused: of.refused,
    /** The model was found damaged: the previous one judges, or it is lost and trained again; null without damage. */
    damage: of.damage,
    /** Flows seen while learning. */
    flows: learning === null ? 0 : noteOf(learning, 'flows'),
    /** From the training of the active model; null without one. */
    unsettledShare: record?.unsettledShare ?? null,
  } as const
}
