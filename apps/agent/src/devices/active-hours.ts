/**
 * ActiveHours: in which hours of the week a device is active, and whether an hour in which it never was is unusual of it.
 *
 * A bit for each of the 168 hours of a week (UTC). An hour that is new is worth a fact only where the device's own history makes that
 * rare: it was active on LEAST_DAYS days, and no hour was new on the last SETTLED_DAYS of them. So a device has at most one such
 * fact in SETTLED_DAYS, however it behaves. Days are counted, not measured: those on which the agent did not run say nothing, and a
 * step of the clock changes nothing that is kept.
 *
 * How rare facts are on data/week: docs/results/incidents.md.
 */

export interface ActiveHours {
  /** HOURS bits as hexadecimal digits; the first is the hour from Sunday 00:00 UTC on. */
  seen: string
  /** Days on which the device was active. */
  days: number
  /** The latest of them, since 1970. */
  day: number
  /** `days` when an hour was last new. */
  newAtDays: number
}

const HOURS = 168
const DIGITS = HOURS / 4
const LEAST_DAYS = 14
const SETTLED_DAYS = 7
const HOUR_MICROS = 3_600_000_000
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
/** 1970 began on a Thursday. */
const FIRST_WEEKDAY = 4

export function noHours(): ActiveHours {
  return { seen: '0'.repeat(DIGITS), days: 0, day: Number.MIN_SAFE_INTEGER, newAtDays: 0 }
}

/** Notes that a device is active. Returns the hour, and on how many days it was never in it, where that is unusual; else null. */
export function noteHour(hours: ActiveHours, atMicros: number): { hour: string; days: number } | null {
  const clockHour = Math.floor(atMicros / HOUR_MICROS)
  const day = Math.floor(clockHour / 24)
  // flows that are judged late are of before
  if (day > hours.day) {
    hours.day = day
    hours.days++
  } else if (day < hours.day - 1) {
    // the clock was set back
    hours.day = day
  }
  const ofWeek = (((clockHour + 24 * FIRST_WEEKDAY) % HOURS) + HOURS) % HOURS
  const digit = ofWeek >> 2
  const bit = 1 << (ofWeek & 3)
  const before = Number.parseInt(hours.seen.charAt(digit), 16)
  if ((before & bit) !== 0) return null
  hours.seen = `${hours.seen.slice(0, digit)}${(before | bit).toString(16)}${hours.seen.slice(digit + 1)}`
  const { days, newAtDays } = hours
  hours.newAtDays = days
  if (days <= LEAST_DAYS || days - newAtDays < SETTLED_DAYS) return null
  const from = ofWeek % 24
  const text = (hour: number): string => `${String(hour).padStart(2, '0')}:00`
  return { hour: `${WEEKDAYS[(ofWeek - from) / 24]} between ${text(from)} and ${text(from + 1)} UTC`, days }
}

/** null for a value that is none: its device then has none. */
export function hoursIn(value: unknown): ActiveHours | null {
  const { seen, days, day, newAtDays } = (value ?? {}) as Record<keyof ActiveHours, unknown>
  const isCount = (each: unknown): each is number => Number.isSafeInteger(each) && (each as number) >= 0
  if (typeof seen !== 'string' || !/^[0-9a-f]{42}$/.test(seen)) return null
  if (!isCount(days) || !isCount(newAtDays) || newAtDays > days || !Number.isSafeInteger(day)) return null
  return { seen, days, day: day as number, newAtDays }
}
