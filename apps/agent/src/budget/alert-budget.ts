/**
 * AlertBudget: the thresholds of an agent that was told how many false alerts a day are bearable.
 *
 * With a calibration file the thresholds stand from the start, or the run is refused. Without one the agent
 * calibrates itself: all that it sees counts as normal, the model's own threshold decides meanwhile, and after
 * `calibrateHours` of watching the budget's thresholds take over, as soon as there are flows enough for them. A
 * threshold of a tail fit is replaced by a conformal one when there are flows enough for that; then calibrating is
 * over. Nothing that comes later moves a threshold, so an attack cannot make itself normal by going on for long.
 *
 * What has been calibrated is kept in the state folder every few minutes of watching. A kill loses the last few.
 *
 * The report says what was achieved: novel scores since the thresholds stand, a day (and device), with an exact
 * Poisson interval. True alerts are among them, so the rate of false ones is that or lower. Flows of one packet,
 * which have no score, are outside the budget.
 */

import { join } from 'node:path'
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
import type { FileSystem } from '../files/file-system.js'
import { readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { Metric } from '../pipeline/component.js'
import {
  type Calibration,
  createCalibrator,
  decodeCalibration,
  encodeCalibration,
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
    'False alerts a day that are bearable.',
    ({ falseAlertsPerDay }) => falseAlertsPerDay,
  ],
  ['budget_kept', "Whether the budget's thresholds stand.", ({ state }) => Number(state === 'kept')],
  ['budget_calibration_flows', 'Flows that it was calibrated with.', ({ calibration }) => calibration.flows],
  [
    'budget_flows_needed',
    'Flows that a conformal threshold needs.',
    ({ calibration }) => calibration.flowsNeeded,
  ],
  ['budget_expected_rate', 'Share of normal flows that alert.', ({ threshold }) => threshold?.expectedRate],
  ['budget_achieved_per_day', 'Alerts a day by score, true ones too.', ({ achieved }) => achieved?.perDay],
  ['budget_achieved_per_day_low', 'Its 95 % interval begins.', ({ achieved }) => achieved?.interval?.low],
  ['budget_achieved_per_day_high', 'Its 95 % interval ends.', ({ achieved }) => achieved?.interval?.high],
]

interface AlertBudgetOptions {
  readonly settings: BudgetSettings
  readonly model: string
  /** Its threshold decides while the agent calibrates itself. */
  readonly saved: Pick<SavedModel, 'threshold' | 'groups'>
  readonly localNetworks: readonly Network[]
  /** From a file: never changed. */
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

/** Throws DataError where a given calibration does not carry the budget. */
export function createAlertBudget(options: AlertBudgetOptions): Thresholds {
  const { settings, given, log, localNetworks } = options
  let calibrator = given === null ? createCalibrator(options.model, options.kept) : null
  const calibration = given ?? options.kept
  let calibrated = {
    flows: calibration?.scores.count ?? 0,
    watchedMicros: calibration?.watchedMicros ?? 0,
  }
  let current: BudgetThresholds | null = null
  let scores: TailScores | null = given?.scores ?? null
  let flowsNeeded: number | null = null
  let lastReason = ''
  let latestMicros: number | null = null
  let attemptAtMicros = settings.calibrateHours * MICROS_PER_HOUR
  let saveAtMicros = calibrated.watchedMicros + SAVE_MICROS
  let saving: Promise<void> = Promise.resolve()
  let alerts = 0
  let watchedMicros = 0
  const devices = new Set<string>()

  const save = (): void => {
    if (calibrator === null || options.save === null) return
    const snapshot = calibrator.snapshot()
    const write = options.save
    saving = saving.then(() => write(snapshot))
  }
  const adopt = (snapshot: Calibration): void => {
    const { thresholds, refusal } = budgetThresholds(settings, snapshot)
    if (thresholds === null) {
      flowsNeeded = refusal.rowsNeeded
      if (refusal.reason !== lastReason) log.info(`alert budget: still calibrating: ${refusal.reason}`)
      lastReason = refusal.reason
      return
    }
    const isFirst = current === null
    current = thresholds
    scores = snapshot.scores
    flowsNeeded = null
    const { method, value, expectedRate } = thresholds.strictest
    log.info(
      `alert budget: threshold ${value} (${method}, ${calibrated.flows} flows, rate ${expectedRate.toPrecision(3)})`,
    )
    if (isFirst) {
      alerts = 0
      watchedMicros = 0
    }
    if (method === 'conformal' && calibrator !== null) {
      save()
      calibrator = null
    }
  }
  const attempt = (): void => {
    if (calibrator === null || calibrated.watchedMicros < attemptAtMicros || calibrated.flows === 0) return
    // a tail fit takes a tenth of a second on a large machine: not more often than there is more to learn from
    attemptAtMicros = Math.max(calibrated.watchedMicros + MICROS_PER_HOUR, 1.1 * calibrated.watchedMicros)
    adopt(calibrator.snapshot())
  }

  if (given !== null) {
    const decided = budgetThresholds(settings, given)
    if (decided.thresholds === null) {
      const { refusal, flowsPerDay } = decided
      throw new DataError(
        `${refusalText(refusal, given.scores.count, flowsPerDay, settings)}; calibrate with more captures, or allow more alerts`,
      )
    }
    current = decided.thresholds
  } else attempt()

  return {
    judge(record: FlowRecord, score) {
      let device: string | null = null
      if (calibrator !== null) {
        device = deviceKeyOf(record, localNetworks)
        calibrator.addScore(score, device)
        calibrated = { flows: calibrator.flows, watchedMicros: calibrator.watchedMicros }
      }
      if (current === null) return options.saved.threshold.value
      if (score > current.highest && devices.size >= MAXIMUM_DEVICES) return current.highest
      device ??= deviceKeyOf(record, localNetworks)
      if (devices.size < MAXIMUM_DEVICES) devices.add(device)
      const threshold = current.byDevice ? current.of(device) : current.highest
      if (!(score > threshold)) alerts++
      return threshold
    },
    of(device) {
      if (current === null) return options.saved.threshold.value
      return current.byDevice ? current.of(device) : current.highest
    },
    rarity: (score) => (scores === null ? scoreRarity(options.saved, score) : rarityAmong(scores, score)),
    noteOnePacketNovel() {
      calibrator?.addOnePacketNovel()
    },
    advance(nowMicros) {
      if (!Number.isFinite(nowMicros)) return
      const passed = latestMicros === null ? 0 : nowMicros - latestMicros
      latestMicros = Math.max(latestMicros ?? nowMicros, nowMicros)
      if (!(passed > 0)) {
        // a clock that was set back: time goes on from there
        if (passed < -LONGEST_SILENCE_MICROS) latestMicros = nowMicros
        return
      }
      const counted = Math.min(passed, LONGEST_SILENCE_MICROS)
      if (current !== null) watchedMicros += counted
      if (calibrator === null) return
      calibrator.addWatched(counted)
      calibrated = { flows: calibrator.flows, watchedMicros: calibrator.watchedMicros }
      attempt()
      if (calibrated.watchedMicros < saveAtMicros) return
      saveAtMicros = calibrated.watchedMicros + SAVE_MICROS
      save()
    },
    report() {
      const days = watchedMicros / MICROS_PER_DAY
      const exposure = days * (settings.per === 'device' ? Math.max(1, devices.size) : 1)
      const interval = poissonInterval(alerts)
      return {
        state: current === null ? 'calibrating' : 'kept',
        falseAlertsPerDay: settings.falseAlertsPerDay,
        per: settings.per,
        calibration: {
          flows: calibrated.flows,
          hours: calibrated.watchedMicros / MICROS_PER_HOUR,
          flowsNeeded,
        },
        threshold: current?.strictest ?? null,
        achieved:
          current === null
            ? null
            : {
                alerts,
                days,
                devices: devices.size,
                perDay: exposure > 0 ? alerts / exposure : null,
                interval:
                  exposure > 0 ? { low: interval.low / exposure, high: interval.high / exposure } : null,
              },
      }
    },
    async close() {
      save()
      await saving
    },
  }
}

/** (1 + the scores that are as low) / (n + 1); above those that are kept nobody knows, and all count. */
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

/** What an agent that calibrates itself has kept for this model; null where there is none, or none that can be used. */
export async function readKeptCalibration(
  files: FileSystem,
  folder: string,
  model: string,
  log: Pick<Log, 'warn'>,
): Promise<Calibration | null> {
  const kept = await readStateOrSetAside(files, pathIn(folder), decodeCalibration, log)
  return kept?.model === model ? kept : null
}

export async function writeKeptCalibration(
  files: FileSystem,
  folder: string,
  calibration: Calibration,
): Promise<void> {
  await writeState(files, pathIn(folder), encodeCalibration(calibration))
}

function pathIn(folder: string): string {
  return join(folder, 'calibration.json')
}
