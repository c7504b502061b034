/**
 * What the paper does not tabulate: the AUC of every detector side by side, over all test rows and over the 300 + 300
 * that the paper draws; and the AUCs of an independent implementation on the same rows.
 */
import { type Spread, summarise, type TestSample, type Trial, type Tuning } from '@oddflow/evaluation'
import { fixed } from './figures.js'
import type { ReferenceAuc } from './published.js'
import { compare, hashTrials, type Published, type Table } from './table.js'

const SAMPLE_NAMES: Readonly<Record<TestSample, string>> = { all: 'all test rows', protocol: '300 + 300' }
const TUNING_NAMES: Readonly<Record<Tuning, string>> = { none: 'no tuning', minimal: 'minimal tuning' }

/** One table for each tuning and feature set that has trials. */
export function aucTables(trials: readonly Trial[]): Table[] {
  return detectorGroups(trials).map(({ tuning, features, tuningName, same, columns, detectors }) => {
    const rows = detectors.flatMap((detector) =>
      (['all', 'protocol'] as const).map((sample) => ({
        label: `${detector}, ${SAMPLE_NAMES[sample]}`,
        decimals: 3,
        publishedDecimals: 3,
        cells: columns.map((dataset) => {
          const setting = { dataset, features, tuning, detector }
          const measured = summarise(same, setting, { kind: 'auc', sample })
          return compare(null, measured, 'not run', () => null)
        }),
      })),
    )
    return {
      id: `auc-${features}-${tuning}`,
      caption: `AUC of every detector, ${features}, ${tuningName}`,
      source: null,
      columns,
      rows,
      notes: [
        ...samplingNotes(same),
        `Mean ± standard deviation over training repeats; the test rows are the same in all of them.${tuning === 'none' ? ' Bandwidth at the 0.25-quantile of pair distances.' : ' Bandwidth, and the number of components where there is one to choose, by the AUC over 75 + 75 validation rows.'}`,
      ],
      ...hashTrials(same),
    }
  })
}

/** What ± leaves out, since the test rows are the same in all repeats. */
function samplingNotes(trials: readonly Trial[]): string[] {
  const notes = (['all', 'protocol'] as const).flatMap((sample) => {
    const variances = trials.flatMap(({ results }) =>
      results.flatMap((result) => (result.sample === sample ? (result.aucVariance ?? []) : [])),
    )
    if (variances.length === 0) return []
    const [least, most] = [Math.min(...variances), Math.max(...variances)].map((v) => fixed(Math.sqrt(v), 3))
    return [`${least} to ${most} (${SAMPLE_NAMES[sample]})`]
  })
  if (notes.length === 0) return []
  return [
    `Other test rows would add a standard deviation of ${notes.join(', ')}, by DeLong; ± leaves it out.`,
  ]
}

const REFERENCE_RULE =
  'Agrees (✓): |Δ| ≤ max(0.02, 2.5·√(s₁²/n₁ + s₂²/n₂)) for means over n₁ and n₂ repeats; otherwise ✗.'

const LIKE_WITH_LIKE =
  'Like beside like: …-centred is KJL whose sketch is centred, without it KJL is that of the text. Where the reference has one of the two alone, the other stands in the tables of every detector.'

/** One table for each tuning that the reference has and that has trials. */
export function referenceTables(reference: ReferenceAuc, trials: readonly Trial[]): Table[] {
  return (['none', 'minimal'] as const).flatMap((tuning) => {
    const known = reference.rows.filter((row) => row.tuning === tuning)
    const columns = Object.keys(known[0]?.figures ?? {})
    const detectors = known.map(({ detector }) => detector)
    const behind = trials.filter(
      (trial) =>
        trial.features === 'iat-size' &&
        trial.tuning === tuning &&
        columns.includes(trial.dataset) &&
        detectors.includes(trial.detector),
    )
    if (behind.length === 0) return []
    return [
      {
        id: `reference-${tuning}`,
        caption: `AUC beside an independent implementation, ${TUNING_NAMES[tuning]}`,
        source: 'reference',
        columns,
        rows: known.map(({ detector, runs, figures }) => ({
          label: detector,
          decimals: 3,
          publishedDecimals: 3,
          cells: columns.map((dataset) => {
            const printed = figures[dataset]
            const setting = { dataset, features: 'iat-size', tuning, detector }
            return compare(
              printed === undefined ? null : { mean: printed[0], sd: printed[1] },
              summarise(behind, setting, { kind: 'auc', sample: 'all' }),
              'not run',
              (published, measured) => allowedFor(published, runs, measured),
            )
          }),
        })),
        notes: [REFERENCE_RULE, LIKE_WITH_LIKE, reference.source],
        ...hashTrials(behind),
      },
    ]
  })
}

function allowedFor(published: Published, runs: number, measured: Spread): number | null {
  if (measured.sd === null) return null
  const error = Math.sqrt((published.sd * published.sd) / runs + (measured.sd * measured.sd) / measured.n)
  return Math.max(0.02, 2.5 * error)
}

/** Trials of one tuning and feature set, with the data sets and detectors among them. */
export interface DetectorGroup {
  readonly tuning: Tuning
  readonly tuningName: string
  readonly features: string
  readonly same: readonly Trial[]
  readonly columns: readonly string[]
  readonly detectors: readonly string[]
}

export function detectorGroups(trials: readonly Trial[]): DetectorGroup[] {
  return sorted(trials.map((trial) => trial.features)).flatMap((features) =>
    (['none', 'minimal'] as const).flatMap((tuning): DetectorGroup[] => {
      const same = trials.filter((trial) => trial.tuning === tuning && trial.features === features)
      if (same.length === 0) return []
      const columns = sorted(same.map(({ dataset }) => dataset))
      const detectors = sorted(same.map(({ detector }) => detector))
      return [{ tuning, tuningName: TUNING_NAMES[tuning], features, same, columns, detectors }]
    }),
  )
}

function sorted(values: readonly string[]): string[] {
  return [...new Set(values)].sort()
}
