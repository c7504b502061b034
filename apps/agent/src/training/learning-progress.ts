/**
 * How far the learning of an owner is: the rate that its threshold is to keep, the rows that this takes, and whether a
 * training is due.
 *
 * The rate is the alert budget's over the owner's own flows a day (times its devices; of the whole network's flows where the
 * budget is the network's), or 1 % without one. Enough is what the threshold's promise takes (rowsToLearn), or as many rows
 * as there are places for: then the model says what it promises instead.
 *
 * Rows held out of a training come from the same minutes as those that it learns, and say nothing of what comes later. So a
 * model proves itself: as many scored flows as were enough to train (`learnFlows`, and the rows), all of them later than it, and
 * among them no larger share of novel ones than it promises. Where there is, the model is broken, and another one is made of all rows, those of the proof too.
 *
 * Time is the packets'.
 */
import type { FlowContract } from '@oddflow/core'
import { budgetRate } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import type { Device } from '../devices/device.js'
import type { BudgetSettings, DeviceSettings } from '../settings.js'
import { isOfNow, type Learning, noteOf, type Owner } from './owner-book.js'
import { LEAST_ROWS, rowsToLearn } from './train-rows.js'

export interface LearningProgress {
  /** A verdict was given on this record. */
  note(record: FlowRecord): void
  /** The packets' clock was set by so much. */
  clockSet(byMicros: number): void
  /** Of the latest end of a flow. */
  readonly latestMicros: number
  rateFor(learning: Learning): number
  rowsFor(learning: Learning): number
  isDue(of: Owner): boolean
  /** Flows of a proof. */
  provesAfter(learning: Learning): number
  /** What the flows say that came after the model of one that learns. */
  proof(of: Owner): Proof
}

/** `open`: more flows are needed. */
export type Proof = 'open' | 'kept' | 'broken'

/** Where no budget says otherwise, as `oddflow train`. */
const FALSE_POSITIVE_RATE = 0.01
const MICROS_PER_HOUR = 3_600_000_000
const MICROS_PER_DAY = 24 * MICROS_PER_HOUR

export function createLearningProgress(
  { learnFlows, learnHours }: DeviceSettings,
  budget: BudgetSettings | null,
  rowsPerOwner: number,
  contract: FlowContract,
): LearningProgress {
  let latestMicros = 0
  const network = { flows: 0, firstMicros: Number.POSITIVE_INFINITY }
  const lastedMicros = (learning: Learning): number =>
    noteOf(learning, 'lastMicros') - noteOf(learning, 'firstMicros')

  const rateFor = (learning: Learning): number => {
    if (budget === null) return FALSE_POSITIVE_RATE
    const own = perDay(noteOf(learning, 'flows'), lastedMicros(learning))
    if (budget.per === 'network') {
      const all = perDay(network.flows, latestMicros - network.firstMicros)
      return budgetRate(budget.falseAlertsPerDay, Math.max(own, all))
    }
    return budgetRate(budget.falseAlertsPerDay * Math.max(1, learning.devices.size), own)
  }
  const rowsFor = (learning: Learning): number =>
    Math.min(rowsPerOwner, Math.max(LEAST_ROWS, rowsToLearn(contract, rateFor(learning))))
  const isEnough = (learning: Learning): boolean =>
    learning.reservoir.count >= LEAST_ROWS &&
    noteOf(learning, 'flows') >= learnFlows &&
    lastedMicros(learning) >= learnHours * MICROS_PER_HOUR &&
    learning.reservoir.count >= rowsFor(learning)
  const provesAfter = (learning: Learning): number => Math.max(learnFlows, rowsFor(learning))
  const proof = ({ learning, model }: Owner): Proof => {
    if (learning === null || model === null) return 'open'
    const flows = noteOf(learning, 'provingFlows')
    if (flows < provesAfter(learning)) return 'open'
    const { bound } = model.saved.threshold.calibration
    return noteOf(learning, 'provingNovel') <= bound * flows ? 'kept' : 'broken'
  }
  return {
    note(record) {
      latestMicros = Math.max(latestMicros, record.startMicros + record.durationMicros)
      network.flows++
      network.firstMicros = Math.min(network.firstMicros, record.startMicros)
    },
    clockSet(byMicros) {
      latestMicros += byMicros
      network.firstMicros += byMicros
    },
    get latestMicros() {
      return latestMicros
    },
    rateFor,
    rowsFor,
    provesAfter,
    proof,
    isDue(of) {
      const { learning } = of
      if (learning === null || noteOf(learning, 'flows') < noteOf(learning, 'nextFlows')) return false
      return isOfNow(of) ? proof(of) === 'broken' : isEnough(learning)
    },
  }
}

/** Whether the rows of a device make its owner's model. @param hasBase - whether a model judges those without one of their own. */
export function mustLearn({ name, model, record, damage }: Owner, device: Device, hasBase: boolean): boolean {
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
