/**
 * AlertBudget: sets the thresholds for a number of false alerts per day (docs/alert-budget.md).
 *
 * A calibration file sets them at the start. Without one, all flows count as normal until `calibrateHours` and enough flows are there,
 * and the model's own threshold decides. A tail fit is later replaced by a conformal threshold. Nothing after that moves a threshold,
 * so an attack cannot make itself normal. Flows of one packet have no score and are outside the budget.
 */

import { DataError } from '@oddflow/core'
import {
  type BudgetThreshold,
  type Interval,
  poissonInterval,
  type SavedModel,
  type TailScores,
} from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import { deviceKeyOf, type Network, type Rarity, scoreRarity } from '@oddflow/program'
import type { BudgetSettings } from '../config/settings.js'
import type { Log } from '../log.js'
import type { Metric } from '../pipeline/environment.js'
import {
  type Calibration,
  type Calibrator,
  createCalibrator,
  MAXIMUM_DEVICES,
  MICROS_PER_DAY,
} from './calibration.js'
import { type BudgetThresholds, budgetThresholds, refusalText, type Thresholds } from './thresholds.js'

export interface BudgetReport {
  readonly state: 'calibrating' | 'kept'
  readonly falseAlertsPerDay: number
  readonly per: BudgetSettings['per']
  readonly calibration: {
    readonly flows: number
    readonly hours: number
    /** Flows that the conformal way needs, as far as the last attempt told; null before one and when it holds. */
    readonly flowsNeeded: number | null
  }
  /** Of the network's threshold, or the busiest device's; null while calibrating. */
  readonly threshold: BudgetThreshold | null
  /** Since the thresholds stand; null before. */
  readonly achieved: {
    readonly alerts: number
    readonly days: number
    readonly devices: number
    /** Alerts a day, of each device where the budget is a device's; null before any time has passed. */
    readonly perDay: number | null
    readonly interval: Interval | null
  } | null
}

export const BUDGET_METRICS: readonly Metric<BudgetReport>[] = [
  [
    'budget_false_alerts_per_day',
    'Average number of false alerts per day to allow.',
    ({ falseAlertsPerDay }) => falseAlertsPerDay,
  ],
  ['budget_kept', '1 if the thresholds keep the budget.', ({ state }) => Number(state === 'kept')],
  ['budget_calibration_flows', 'Flows in the calibration.', ({ calibration }) => calibration.flows],
  [
    'budget_flows_needed',
    'Flows needed for a conformal threshold.',
    ({ calibration }) => calibration.flowsNeeded,
  ],
  ['budget_expected_rate', 'Share of normal flows that alert.', ({ threshold }) => threshold?.expectedRate],
  [
    'budget_achieved_per_day',
    'Score alerts per day, true alerts included.',
    ({ achieved }) => achieved?.perDay,
  ],
  [
    'budget_achieved_per_day_low',
    'Lower end of the 95 % interval of score alerts per day.',
    ({ achieved }) => achieved?.interval?.low,
  ],
  [
    'budget_achieved_per_day_high',
    'Upper end of the 95 % interval of score alerts per day.',
    ({ achieved }) => achieved?.interval?.high,
  ],
]

interface AlertBudgetOptions {
  readonly settings: BudgetSettings
  readonly model: string
  /** Its threshold decides while the agent calibrates itself. */
  readonly saved: Pick<SavedModel, 'threshold' | 'groups'>
  readonly localNetworks: readonly Network[]
  readonly given: Calibration | null
  /** What an earlier run of an agent that calibrates itself has kept. */
  readonly kept: Calibration | null
  readonly save: ((calibration: Calibration) => Promise<void>) | null
  readonly log: Log
}

const MICROS_PER_HOUR = MICROS_PER_DAY / 24
const SAVE_MICROS = 300_000_000
/** Longer without a packet is a clock that was set, or an agent that was not there. */
const LONGEST_SILENCE_MICROS = MICROS_PER_HOUR

/** The time that packets cover: each call returns what passed since the one before. */
function createPacketTime(): (nowMicros: number) => number {
  let latestMicros: number | null = null
  return (nowMicros) => {
    if (!Number.isFinite(nowMicros)) return 0
    const passed = latestMicros === null ? 0 : nowMicros - latestMicros
    // packets that are a little late take nothing back; if the clock was set back, time continues from there
    if (passed > 0 || passed < -LONGEST_SILENCE_MICROS || latestMicros === null) latestMicros = nowMicros
    return Math.min(Math.max(0, passed), LONGEST_SILENCE_MICROS)
  }
}

/** Events a day with their interval of 95 %; null before any time has passed. */
function rateOf(events: number, days: number): { perDay: number | null; interval: Interval | null } {
  if (!(days > 0)) return { perDay: null, interval: null }
  const { low, high } = poissonInterval(events)
  return { perDay: events / days, interval: { low: low / days, high: high / days } }
}

/** Its constructor throws DataError where a given calibration does not carry the budget. */
export class AlertBudget implements Thresholds {
  readonly #options: AlertBudgetOptions
  /** null when calibrating is over. */
  #calibrator: Calibrator | null
  /** The calibrator; when calibrating is over, what it had. */
  #calibrated: { readonly flows: number; readonly watchedMicros: number }
  /** null while calibrating. */
  #current: BudgetThresholds | null = null
  #scores: TailScores | null
  #flowsNeeded: number | null = null
  #lastReason = ''
  readonly #passed = createPacketTime()
  #attemptAtMicros: number
  #saveAtMicros: number
  #saving: Promise<void> = Promise.resolve()
  #alerts = 0
  /** Since the thresholds stand. */
  #watchedMicros = 0
  readonly #devices = new Set<string>()

  constructor(options: AlertBudgetOptions) {
    const { settings, model, given } = options
    // scores of another model mean nothing
    const kept = options.kept?.model === model ? options.kept : null
    this.#options = options
    this.#calibrator = given === null ? createCalibrator(model, kept) : null
    const [flows, watchedMicros] = [given?.scores.count ?? 0, given?.watchedMicros ?? 0]
    this.#calibrated = this.#calibrator ?? { flows, watchedMicros }
    this.#scores = given?.scores ?? null
    this.#attemptAtMicros = settings.calibrateHours * MICROS_PER_HOUR
    this.#saveAtMicros = this.#calibrated.watchedMicros + SAVE_MICROS
    if (given === null) {
      this.#attempt()
      return
    }
    const decided = budgetThresholds(settings, given)
    if (decided.thresholds === null) {
      const { refusal, flowsPerDay } = decided
      throw new DataError(
        `${refusalText(refusal, given.scores.count, flowsPerDay, settings)}; calibrate with more captures, or allow more alerts`,
      )
    }
    this.#current = decided.thresholds
  }

  judge(record: FlowRecord, score: number): number {
    const { localNetworks, saved } = this.#options
    const current = this.#current
    let device: string | null = null
    if (this.#calibrator !== null) {
      device = deviceKeyOf(record, localNetworks)
      this.#calibrator.addScore(score, device)
    }
    if (current === null) return saved.threshold.value
    if (score > current.highest && this.#devices.size >= MAXIMUM_DEVICES) return current.highest
    device ??= deviceKeyOf(record, localNetworks)
    if (this.#devices.size < MAXIMUM_DEVICES) this.#devices.add(device)
    const threshold = this.of(device)
    if (!(score > threshold)) this.#alerts++
    return threshold
  }

  of(device: string): number {
    const current = this.#current
    if (current === null) return this.#options.saved.threshold.value
    return current.byDevice ? current.of(device) : current.highest
  }

  rarity(score: number): Rarity {
    return this.#scores === null ? scoreRarity(this.#options.saved, score) : rarityAmong(this.#scores, score)
  }

  noteOnePacketNovel(): void {
    this.#calibrator?.addOnePacketNovel()
  }

  advance(nowMicros: number): void {
    const passed = this.#passed(nowMicros)
    if (passed === 0) return
    if (this.#current !== null) this.#watchedMicros += passed
    if (this.#calibrator === null) return
    this.#calibrator.addWatched(passed)
    this.#attempt()
    if (this.#calibrated.watchedMicros < this.#saveAtMicros) return
    this.#saveAtMicros = this.#calibrated.watchedMicros + SAVE_MICROS
    this.#save()
  }

  report(): BudgetReport {
    const { falseAlertsPerDay, per } = this.#options.settings
    const { flows, watchedMicros } = this.#calibrated
    return {
      state: this.#current === null ? 'calibrating' : 'kept',
      falseAlertsPerDay,
      per,
      calibration: { flows, hours: watchedMicros / MICROS_PER_HOUR, flowsNeeded: this.#flowsNeeded },
      threshold: this.#current?.strictest ?? null,
      achieved: this.#current === null ? null : this.#achieved(),
    }
  }

  async close(): Promise<void> {
    this.#save()
    await this.#saving
  }

  #achieved(): BudgetReport['achieved'] {
    const alerts = this.#alerts
    const devices = this.#devices.size
    const days = this.#watchedMicros / MICROS_PER_DAY
    const exposure = days * (this.#options.settings.per === 'device' ? Math.max(1, devices) : 1)
    return { alerts, days, devices, ...rateOf(alerts, exposure) }
  }

  #save(): void {
    const { save } = this.#options
    if (this.#calibrator === null || save === null) return
    const snapshot = this.#calibrator.snapshot()
    this.#saving = this.#saving.then(() => save(snapshot))
  }

  #attempt(): void {
    const { flows, watchedMicros } = this.#calibrated
    if (this.#calibrator === null || watchedMicros < this.#attemptAtMicros || flows === 0) return
    // a tail fit takes a tenth of a second on a large machine: not more often than there is more to learn from
    this.#attemptAtMicros = Math.max(watchedMicros + MICROS_PER_HOUR, 1.1 * watchedMicros)
    this.#adopt(this.#calibrator.snapshot())
  }

  #adopt(snapshot: Calibration): void {
    const { settings, log } = this.#options
    const { thresholds, refusal } = budgetThresholds(settings, snapshot)
    if (thresholds === null) {
      this.#flowsNeeded = refusal.rowsNeeded
      if (refusal.reason !== this.#lastReason) log.info(`alert budget: still calibrating: ${refusal.reason}`)
      this.#lastReason = refusal.reason
      return
    }
    if (this.#current === null) {
      this.#alerts = 0
      this.#watchedMicros = 0
    }
    this.#current = thresholds
    this.#scores = snapshot.scores
    this.#flowsNeeded = null
    const { method, value, expectedRate } = thresholds.strictest
    log.info(
      `alert budget: threshold ${value} (${method}, ${this.#calibrated.flows} flows, rate ${expectedRate.toPrecision(3)})`,
    )
    if (method === 'conformal') {
      this.#save()
      const { flows, watchedMicros } = this.#calibrated
      this.#calibrated = { flows, watchedMicros }
      this.#calibrator = null
    }
  }
}

/** (1 + the scores that are as low) / (n + 1); above the stored scores the share is unknown, and all count. */
function rarityAmong({ count, lowest }: TailScores, score: number): Rarity {
  let low = 0
  let high = lowest.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (lowest[middle] <= score) low = middle + 1
    else high = middle
  }
  const asLow = low === lowest.length ? count : low
  return { atMost: (1 + asLow) / (count + 1), flows: count }
}

/** Incidents a day, which a budget of false alerts is held against: people read incidents, not flow alerts. */

export interface IncidentRateReport {
  readonly opened: number
  /** Of these, answered as an attack. */
  readonly attacks: number
  /** Incidents a day that were no attack, of each watched device where the budget is a device's; null before any time has passed. */
  readonly perDay: number | null
  /** Of 95 %. */
  readonly interval: Interval | null
  /** Of the budget; null where there is none. */
  readonly allowedPerDay: number | null
}

/** More are counted, and taken for no attacks. */
const MAXIMUM_REMEMBERED = 4096

/**
 * Counts incidents opened in this run, but for those answered as an attack. Time is that of the packets while devices are
 * watched; where the budget is a device's it is counted for each of them. @param budget - null where there is none.
 */
export function createIncidentRate(budget: Pick<BudgetSettings, 'falseAlertsPerDay' | 'per'> | null) {
  const incidents = new Set<string>()
  let opened = 0
  const passed = createPacketTime()
  let exposureMicros = 0
  return {
    opened(incident: string): void {
      opened++
      if (incidents.size < MAXIMUM_REMEMBERED) incidents.add(incident)
    },
    /** @param watched - devices that are watched now */
    advance(nowMicros: number, watched: number): void {
      const shares = budget?.per === 'network' ? Math.min(1, watched) : watched
      exposureMicros += passed(nowMicros) * shares
    },
    report(isAttack: (incident: string) => boolean): IncidentRateReport {
      const attacks = [...incidents].filter(isAttack).length
      // the first minutes say nothing of a day: a run of less than a day counts as one
      const days = exposureMicros === 0 ? 0 : Math.max(1, exposureMicros / MICROS_PER_DAY)
      const allowedPerDay = budget?.falseAlertsPerDay ?? null
      return { opened, attacks, ...rateOf(opened - attacks, days), allowedPerDay }
    },
  }
}

/** A sentence where more than the budget is certain; null else. */
export function overBudgetText({ perDay, interval, allowedPerDay }: IncidentRateReport): string | null {
  if (perDay === null || interval === null || allowedPerDay === null || interval.low <= allowedPerDay)
    return null
  const number = (value: number): string => String(Number(value.toPrecision(2)))
  return `${number(perDay)} incidents a day (at least ${number(interval.low)}), ${number(allowedPerDay)} allowed by the budget: answer them, or calibrate again`
}
