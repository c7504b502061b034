/** Incidents a day, which a budget of false alerts is held against: people read incidents, not flow alerts. */
import { type Interval, poissonInterval } from '@oddflow/detectors'
import type { BudgetSettings } from '../config/settings.js'
import { MICROS_PER_DAY } from './calibration.js'

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
/** Longer without a packet is a clock that was set, or an agent that was not there. */
const LONGEST_SILENCE_MICROS = MICROS_PER_DAY / 24

/**
 * Counts incidents opened in this run, but for those answered as an attack. Time is that of the packets while devices are
 * watched; where the budget is a device's it is counted for each of them. @param budget - null where there is none.
 */
export function createIncidentRate(budget: Pick<BudgetSettings, 'falseAlertsPerDay' | 'per'> | null) {
  const incidents = new Set<string>()
  let opened = 0
  let latestMicros: number | null = null
  let exposureMicros = 0
  return {
    opened(incident: string): void {
      opened++
      if (incidents.size < MAXIMUM_REMEMBERED) incidents.add(incident)
    },
    /** @param watched - devices that are watched now */
    advance(nowMicros: number, watched: number): void {
      if (!Number.isFinite(nowMicros)) return
      const passed = latestMicros === null ? 0 : nowMicros - latestMicros
      // packets that are a little late take nothing back
      if (passed > 0 || passed < -LONGEST_SILENCE_MICROS || latestMicros === null) latestMicros = nowMicros
      const shares = budget?.per === 'network' ? Math.min(1, watched) : watched
      exposureMicros += Math.min(Math.max(0, passed), LONGEST_SILENCE_MICROS) * shares
    },
    report(isAttack: (incident: string) => boolean): IncidentRateReport {
      const attacks = [...incidents].filter(isAttack).length
      const days = exposureMicros / MICROS_PER_DAY
      const { low, high } = poissonInterval(opened - attacks)
      return {
        opened,
        attacks,
        perDay: days > 0 ? (opened - attacks) / days : null,
        interval: days > 0 ? { low: low / days, high: high / days } : null,
        allowedPerDay: budget?.falseAlertsPerDay ?? null,
      }
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
