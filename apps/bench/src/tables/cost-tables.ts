/**
 * What the paper tabulates for its own methods, for every detector that has trials, simple baselines included: time of
 * training and of detection, space, and each beside OCSVM. One table a tuning and feature set; a row a detector and
 * metric. Times are those of the machine that trained.
 */
import { type Metric, type Spread, summarise, type Trial } from '@oddflow/evaluation'
import { detectorGroups } from './auc-tables.js'
import { compare, hashTrials, type Table } from './table.js'

const METRICS: readonly (readonly [name: string, decimals: number, of: (machine: string) => Metric])[] = [
  ['training, ms per 100 rows', 2, (machine) => ({ kind: 'train-millis-per-100', machine })],
  ['detection, ms per 100 rows', 3, (machine) => ({ kind: 'test-millis-per-100', machine })],
  ['space, kB', 1, () => ({ kind: 'space-bytes' })],
  ['AUC retained, all test rows', 3, () => ({ kind: 'auc-retained', sample: 'all' })],
  ['training speed-up', 2, (machine) => ({ kind: 'train-speedup', machine })],
  ['detection speed-up', 2, (machine) => ({ kind: 'test-speedup', machine })],
  ['space reduction', 2, () => ({ kind: 'space-reduction' })],
]

export function costTables(trials: readonly Trial[]): Table[] {
  const machine = trials.find(({ trainMillis }) => trainMillis !== null)?.machine.name
  if (machine === undefined) return []
  return detectorGroups(trials).map(({ features, tuning, tuningName, same, columns, detectors }) => ({
    id: `costs-${features}-${tuning}`,
    caption: `Time and space of every detector, ${features}, ${tuningName}`,
    source: null,
    columns,
    rows: detectors.flatMap((detector) =>
      METRICS.map(([name, decimals, of]) => ({
        label: `${detector}: ${name}`,
        decimals,
        publishedDecimals: decimals,
        cells: columns.map((dataset) => {
          const metric = of(machine)
          const found = summarise(same, { dataset, features, tuning, detector }, metric)
          return compare(
            null,
            metric.kind === 'space-bytes' ? thousands(found) : found,
            'not run',
            () => null,
          )
        }),
      })),
    ),
    notes: [
      `Mean ± standard deviation over training repeats, times on ${machine}. Retained AUC, speed-ups and reductions are against the mean of OCSVM.`,
    ],
    ...hashTrials(same),
  }))
}

function thousands(figure: Spread | null): Spread | null {
  if (figure === null) return null
  return { ...figure, mean: figure.mean / 1000, sd: figure.sd === null ? null : figure.sd / 1000 }
}
