/** The trials of a sweep as points: a data set and a setting each, with the mean and spread over training repeats. */
import { millisPer100, type Spread, spread, type Trial } from '@oddflow/evaluation'
import { median } from '../peers/median.js'
import { disturbance } from './disturbance.js'
import { plainText } from './markdown.js'

export interface SweepPoint {
  readonly dataset: string
  readonly detector: string
  readonly parameters: Trial['parameters']
  readonly trainRows: number
  /** Over all test rows where the data set has them apart, otherwise over the 300 + 300. */
  readonly auc: Spread
  /** Of the median pass of each trial, which other work on the machine moves less than the mean. */
  readonly testMillisPer100: Spread
  readonly spaceKilobytes: Spread
}

/** In the order of data set, detector, training rows and parameters. */
export function sweepPoints(trials: readonly Trial[]): SweepPoint[] {
  const groups = new Map<string, Trial[]>()
  for (const trial of trials) {
    const key = JSON.stringify([
      trial.dataset,
      trial.detector,
      String(trial.trainRows).padStart(9, '0'),
      trial.parameters,
    ])
    groups.set(key, [...(groups.get(key) ?? []), trial])
  }
  return [...groups.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, same]) => {
      const [first] = same
      const over = (value: (trial: Trial) => number): Spread => spread(same.map(value))!
      return {
        dataset: first!.dataset,
        detector: first!.detector,
        parameters: first!.parameters,
        trainRows: first!.trainRows,
        auc: over(({ results }) => results[0]!.auc),
        testMillisPer100: over(({ testMillis, testRows }) => millisPer100([median(testMillis)], testRows)),
        spaceKilobytes: over(({ spaceNumbers }) => (8 * spaceNumbers) / 1000),
      }
    })
}

/** What stands in the parameters under a name, however deep: `k` is the start's. */
export function parameterOf(point: Pick<SweepPoint, 'parameters'>, name: string): number | string | null {
  const search = (value: unknown): number | string | null => {
    if (value === null || typeof value !== 'object') return null
    for (const [key, entry] of Object.entries(value)) {
      if (key === name && (typeof entry === 'number' || typeof entry === 'string')) return entry
      const found = search(entry)
      if (found !== null) return found
    }
    return null
  }
  return search(point.parameters)
}

export const datasetsOf = (points: readonly SweepPoint[]): string[] =>
  [...new Set(points.map(({ dataset }) => dataset))].sort()

export const detectorsOf = (points: readonly SweepPoint[]): string[] =>
  [...new Set(points.map(({ detector }) => detector))].sort()

/** What every page says of how its figures came about. */
export function sweepFooter(trials: readonly Trial[], hash: string | null): string {
  const machines = [
    ...new Set(
      trials.map(({ machine: m, versions }) =>
        plainText(`${m.cpu}, ${m.logicalCpus} logical CPUs, Node ${versions.node ?? '?'}`),
      ),
    ),
  ].sort()
  const repeats = new Set(trials.map(({ repeat }) => repeat)).size
  const busy = disturbance(trials)
  return `${trials.length} trials, ${repeats} training repeats; ${machines.join('; ')}.${busy === '' ? '' : ` ${busy}`} SHA-256 of the trials ${hash ?? 'none'}.`
}
