/** `oddflow-bench merge FILE…`: what was measured by hand elsewhere, into readings and trials. */
import { readCarried } from '../machines/read-carried.js'
import { describeReadings, describeRecorded, recordReadings } from '../machines/record-readings.js'
import { print } from '../output/messages.js'

export interface MergeOptions {
  readonly trials: string
  readonly readings: string
}

/** Resolves to the exit code: 1 when bytes, scores or results were not the same. */
export function merge(files: readonly string[], options: MergeOptions): number {
  const carried = files.map(readCarried)
  let allEqual = true
  for (const [i, readings] of carried.entries()) {
    const recorded = recordReadings(readings, options)
    const { text, equal } = describeReadings(readings)
    print(`${files[i]}: ${readings[0]?.target ?? 'nothing'}: ${text}; ${describeRecorded(recorded)}`)
    allEqual &&= equal && recorded.unlike === 0
  }
  return allEqual ? 0 : 1
}
