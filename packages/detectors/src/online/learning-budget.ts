/**
 * LearningBudget: how much one device may teach in an hour.
 *
 * A watcher that learns by itself gives whoever talks most the most say. With a budget, a device's rows beyond so many in
 * an hour of its traffic are judged but not learnt. Hours are those of the rows' own times, so a replay decides alike.
 * Rows from files have no such limit: somebody chose the files.
 *
 * At most `maximumDevices` are remembered; when there are more, the one that has been silent longest is forgotten.
 */
import { ArgumentError } from '@oddflow/core'

export interface LearningBudget {
  /** Whether one more row of this device, of this time, may be learnt; if so it is counted. */
  take(device: string, timeMicros: number): boolean
  /** Rows that were refused so far. */
  readonly refused: number
}

const HOUR_MICROS = 3_600_000_000

export function createLearningBudget(rowsPerHour: number, maximumDevices = 10_000): LearningBudget {
  for (const [name, value] of Object.entries({ rowsPerHour, maximumDevices })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new ArgumentError(`${name}: expected a whole number of 1 or more, found ${value}`, name)
    }
  }
  const devices = new Map<string, { hour: number; rows: number }>()
  let refused = 0
  return {
    take(device, timeMicros) {
      const hour = Math.floor(timeMicros / HOUR_MICROS)
      const known = devices.get(device)
      // a time that goes back opens no new hour
      const entry = known === undefined ? { hour, rows: 0 } : known
      if (hour > entry.hour) {
        entry.hour = hour
        entry.rows = 0
      }
      devices.delete(device)
      devices.set(device, entry)
      if (devices.size > maximumDevices) devices.delete(devices.keys().next().value as string)
      if (entry.rows >= rowsPerHour) {
        refused++
        return false
      }
      entry.rows++
      return true
    },
    get refused() {
      return refused
    },
  }
}
