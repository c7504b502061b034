/**
 * Thresholds: which score is novel. The model's own for every flow, or an alert budget's.
 */

import { DataError } from '@oddflow/core'
import {
  type BudgetDecision,
  type BudgetRefusal,
  type BudgetThreshold,
  budgetRate,
  createBudgetCalibration,
  type SavedModel,
} from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { type Rarity, scoreRarity } from '@oddflow/program'
import type { BudgetSettings } from '../config/settings.js'
import type { BudgetReport } from './alert-budget.js'
import { type Calibration, MICROS_PER_DAY } from './calibration.js'

export interface BudgetThresholds {
  readonly of: (device: string) => number
  /** No device has a higher one. */
  readonly highest: number
  /** Whether devices have thresholds of their own. */
  readonly byDevice: boolean
  /** The one that is the hardest to give: the network's, or the busiest device's. */
  readonly strictest: BudgetThreshold
  /** Flows a day that it was made for. */
  readonly flowsPerDay: number
}

type ThresholdsOrRefusal =
  | { readonly thresholds: BudgetThresholds; readonly refusal: null }
  | { readonly thresholds: null; readonly refusal: BudgetRefusal; readonly flowsPerDay: number }

/**
 * Thresholds for the whole network, or for each device. The scores of all devices calibrate together; what is a device's own is
 * its rate of flows: at B false alerts a day, one with f flows a day is judged at the rate B / f, and one that was not seen as
 * the busiest that was. A budget holds for all devices or is refused: the busiest needs the most flows. Throws DataError for a
 * calibration that has no flow, or took no time.
 */
export function budgetThresholds(
  { falseAlertsPerDay, per }: Pick<BudgetSettings, 'falseAlertsPerDay' | 'per'>,
  calibration: Calibration,
): ThresholdsOrRefusal {
  const { scores, watchedMicros, flowsByDevice } = calibration
  if (scores.count === 0) throw new DataError('calibration: expected normal flows, found none')
  if (watchedMicros === 0) {
    throw new DataError('calibration: its flows span no time, so the number of flows a day is unknown')
  }
  const perDay = (flows: number): number => (flows * MICROS_PER_DAY) / watchedMicros
  const decide = createBudgetCalibration(scores)
  const at = (flowsPerDay: number): BudgetDecision => decide.at(budgetRate(falseAlertsPerDay, flowsPerDay))
  const busiest = per === 'network' ? scores.count : Math.max(...flowsByDevice.values())
  const flowsPerDay = perDay(busiest)
  const strictest = at(flowsPerDay)
  if (strictest.method === 'refused') return { thresholds: null, refusal: strictest, flowsPerDay }
  const byFlows = new Map<number, number>([[busiest, strictest.value]])
  const byDevice = new Map<string, number>()
  let highest = strictest.value
  if (per === 'device') {
    for (const [device, flows] of flowsByDevice) {
      let value = byFlows.get(flows)
      if (value === undefined) {
        const decision = at(perDay(flows))
        // a wider budget is never harder to keep; where its own way fails the strictest threshold keeps it too
        value = decision.method === 'refused' ? strictest.value : decision.value
        byFlows.set(flows, value)
      }
      byDevice.set(device, value)
      highest = Math.max(highest, value)
    }
  }
  return {
    thresholds: {
      of: (device) => byDevice.get(device) ?? strictest.value,
      highest,
      byDevice: per === 'device',
      strictest,
      flowsPerDay,
    },
    refusal: null,
  }
}

/** What a refused budget needs, for people. */
export function refusalText(
  refusal: BudgetRefusal,
  flows: number,
  flowsPerDay: number,
  { per }: Pick<BudgetSettings, 'per'>,
): string {
  const { rate, reason, rowsNeeded, tailRowsNeeded } = refusal
  const whose = per === 'device' ? 'the busiest device' : 'the network'
  const tail = tailRowsNeeded === null ? '' : `; a tail fit can be tried from ${tailRowsNeeded} flows on`
  return `the budget allows a share of ${rate.toPrecision(3)} of the ${Math.round(flowsPerDay)} flows a day of ${whose}: ${reason}; ${rowsNeeded} normal flows are needed, ${flows} are there${tail}`
}

export interface Thresholds {
  /** The threshold for a record with this score, which is novel iff it is not above it. Each record once. */
  judge(record: FlowRecord, score: number): number
  /** The threshold that `judge` would give now for records of a device, by its key; counts nothing. */
  of(device: string): number
  /** How rare a score is that is not above its threshold. */
  rarity(score: number): Rarity
  /** A flow of one packet was found new; no threshold decides on those. */
  noteOnePacketNovel(): void
  /** The packets' clock is at this time. */
  advance(nowMicros: number): void
  /** null where there is no budget. */
  report(): BudgetReport | null
  /** Saves its state. */
  close(): Promise<void>
}

const WITHOUT_BUDGET = {
  noteOnePacketNovel() {},
  advance() {},
  report: () => null,
  async close() {},
}

export function modelThresholds(saved: Pick<SavedModel, 'threshold' | 'groups'>): Thresholds {
  return {
    ...WITHOUT_BUDGET,
    judge: () => saved.threshold.value,
    of: () => saved.threshold.value,
    rarity: (score) => scoreRarity(saved, score),
  }
}

/** Of an agent whose models each bring their own: nothing here decides. */
export const ownThresholds: Thresholds = {
  ...WITHOUT_BUDGET,
  judge: () => Number.NaN,
  of: () => Number.NaN,
  rarity: () => ({ atMost: 1, flows: 0 }),
}
