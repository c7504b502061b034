/** The paper's tables with measured figures, from prepared captures or else from the authors' rows. */
import type { Spread } from '@oddflow/evaluation'
import { z } from 'zod'
import type { Manifest } from '../datasets/manifest.js'
import { packagePath, readShape } from '../files.js'
import type { TestSample, Trial, Tuning } from '../run/trial.js'
import { type Cell, compare, fixed, hashTrials, measuredCell, type Published, type Table } from './table.js'
import { BASELINE, type Setting, summarise, trialsBehind } from './trial-figures.js'

// ---- published figures, data files of this package: the paper's tables, and the AUCs of an independent implementation

const tuning = z.enum(['none', 'minimal'])
/** Mean and standard deviation, as printed. */
const figure = z.tuple([z.number(), z.number().min(0)])

const METRIC_NAMES = {
  auc: 'AUC',
  'auc-retained': 'AUC retained',
  'train-millis-per-100': 'training, ms per 100 rows',
  'test-millis-per-100': 'detection, ms per 100 rows',
  'space-kilobytes': 'space, kB',
  'train-speedup': 'training speed-up',
  'test-speedup': 'detection speed-up',
  'space-reduction': 'space reduction',
} as const
type MetricName = keyof typeof METRIC_NAMES

const paperFigures = z.strictObject({
  format: z.literal(1),
  source: z.string(),
  datasets: z.array(z.string()),
  tables: z.array(
    z.strictObject({
      /** Of the table in the paper's source. */
      label: z.string(),
      caption: z.string(),
      rows: z.array(
        z.strictObject({
          tuning,
          features: z.string(),
          detector: z.string(),
          metric: z.enum(Object.keys(METRIC_NAMES) as [MetricName, ...MetricName[]]),
          machine: z.enum(['server', 'rspi', 'nano']).nullable(),
          figures: z.record(z.string(), figure),
        }),
      ),
    }),
  ),
})

const referenceAuc = z.strictObject({
  format: z.literal(1),
  source: z.string(),
  rows: z.array(
    z.strictObject({
      tuning,
      /** As trials name it: the reference of a centred sketch is `…-centred`. */
      detector: z.string(),
      runs: z.number().int().min(2),
      figures: z.record(z.string(), figure),
    }),
  ),
})

export type PaperFigures = z.infer<typeof paperFigures>
export type PaperRow = PaperFigures['tables'][number]['rows'][number]
export type ReferenceAuc = z.infer<typeof referenceAuc>

export const readPaperFigures = (): PaperFigures => read('paper-figures.json', paperFigures)
export const readReferenceAuc = (): ReferenceAuc => read('reference-auc.json', referenceAuc)

function read<T>(name: string, shape: z.ZodType<T>): T {
  return readShape(shape, packagePath(`published/${name}`), 'published')
}

// ---- tables

const SAMPLE_NAMES: Readonly<Record<TestSample, string>> = { all: 'all test rows', protocol: '300 + 300' }
const TUNING_NAMES: Readonly<Record<Tuning, string>> = { none: 'no tuning', minimal: 'minimal tuning' }

/**
 * Tables beyond the paper: AUC of every detector, and of an independent implementation on the same rows. One table for
 * each tuning and feature set that has trials.
 */
export function aucTables(trials: readonly Trial[]): Table[] {
  return detectorGroups(trials).map(({ tuning, features, tuningName, same, columns, detectors }) => {
    const rows = detectors.flatMap((detector) =>
      (['all', 'protocol'] as const).map((sample) => ({
        label: `${detector}, ${SAMPLE_NAMES[sample]}`,
        decimals: 3,
        publishedDecimals: 3,
        cells: columns.map((dataset) => {
          const setting = { dataset, features, tuning, detector }
          return measuredCell(summarise(same, setting, { kind: 'auc', sample }))
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
function detectorGroups(trials: readonly Trial[]) {
  return sorted(trials.map((trial) => trial.features)).flatMap((features) =>
    (['none', 'minimal'] as const).flatMap((tuning) => {
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

/** Times, space and ratios to OCSVM of every detector, on the machine that trained; a table for each tuning and features. */
const COSTS: Readonly<Partial<Record<MetricName, number>>> = {
  'train-millis-per-100': 2,
  'test-millis-per-100': 3,
  'space-kilobytes': 1,
  'auc-retained': 3,
  'train-speedup': 2,
  'test-speedup': 2,
  'space-reduction': 2,
}

export function costTables(trials: readonly Trial[]): Table[] {
  const machine = trials.find(({ trainMillis }) => trainMillis !== null)?.machine.name
  if (machine === undefined) return []
  return detectorGroups(trials).map(({ features, tuning, tuningName, same, columns, detectors }) => ({
    id: `costs-${features}-${tuning}`,
    caption: `Time and space of every detector, ${features}, ${tuningName}`,
    source: null,
    columns,
    rows: detectors.flatMap((detector) =>
      (Object.entries(COSTS) as [MetricName, number][]).map(([metric, decimals]) => ({
        label: `${detector}: ${METRIC_NAMES[metric]}${metric === 'auc-retained' ? ', all test rows' : ''}`,
        decimals,
        publishedDecimals: decimals,
        cells: columns.map((dataset) =>
          measuredCell(measure(same, { dataset, features, tuning, detector }, metric, machine, 'all')),
        ),
      })),
    ),
    notes: [
      `Mean ± standard deviation over training repeats, times on ${machine}. Retained AUC, speed-ups and reductions are against the mean of OCSVM.`,
    ],
    ...hashTrials(same),
  }))
}

const AGREEMENT =
  'Agrees (✓): the figures differ by no more than their two standard deviations together; otherwise ✗. A time or speed-up whose standard deviation is above half of its mean is not judged (~): with such a spread nearly everything would agree.'

/** The data set that stands for a column: one with trials, captures before rows. */
function measuredDataset(
  column: string,
  manifests: readonly Manifest[],
  trials: readonly Trial[],
): Manifest | undefined {
  const candidates = manifests
    .filter((manifest) => manifest.paperDataset === column)
    .sort((a, b) => (a.kind < b.kind ? -1 : 1))
  return candidates.find(({ name }) => trials.some(({ dataset }) => dataset === name))
}

export function paperTables(
  figures: PaperFigures,
  manifests: readonly Manifest[],
  trials: readonly Trial[],
): Table[] {
  const datasets = new Map(
    figures.datasets.map((column) => [column, measuredDataset(column, manifests, trials)]),
  )
  return figures.tables.map(({ label, caption, rows }) => {
    const columns = figures.datasets.filter((column) => rows.some((row) => column in row.figures))
    const used = columns.flatMap((column) => datasets.get(column) ?? [])
    const behind = rows.flatMap((row) =>
      used.flatMap(({ name }) => trialsBehind(trials, { ...row, dataset: name })),
    )
    return {
      id: label.replace(/^tab:/, '').replace(/[^A-Za-z0-9]+/g, '-'),
      caption,
      source: 'paper',
      columns,
      rows: rows.map((row) => ({
        label: labelOf(row, rows),
        decimals: row.metric.startsWith('auc') ? 3 : 2,
        publishedDecimals: 2,
        cells: columns.map((column) => cellOf(row, column, datasets.get(column), trials)),
      })),
      notes: [AGREEMENT, ...notesOn(columns, datasets)],
      ...hashTrials(behind),
    }
  })
}

function labelOf(row: PaperRow, rows: readonly PaperRow[]): string {
  const parts: string[] = [METRIC_NAMES[row.metric]]
  if (row.machine !== null) parts.push(`(${row.machine})`)
  if (rows.some(({ detector }) => detector !== row.detector)) parts.unshift(`${row.detector}:`)
  if (rows.some(({ features }) => features !== row.features)) parts.unshift(`${row.features}:`)
  return parts.join(' ')
}

function cellOf(
  row: PaperRow,
  column: string,
  manifest: Manifest | undefined,
  trials: readonly Trial[],
): Cell {
  const printed = row.figures[column]
  const published = printed === undefined ? null : { mean: printed[0], sd: printed[1] }
  if (manifest === undefined) return compare(published, null, 'no data', allow)
  const setting = { ...row, dataset: manifest.name }
  const measured = measure(trials, setting, row.metric, row.machine ?? 'server', 'protocol')
  return compare(published, measured, missingFor(row, manifest, trials), isTime(row) ? allowTime : allow)
}

const isTime = ({ metric }: PaperRow): boolean => metric.startsWith('train-') || metric.startsWith('test-')

/** Times are those of a machine that other work may have shared: too wide a spread judges nothing. */
function allowTime(published: Published, measured: Spread): number | null {
  return measured.sd !== null && measured.sd > measured.mean / 2 ? null : allow(published, measured)
}

function allow(published: Published, measured: Spread): number | null {
  return measured.sd === null ? null : published.sd + measured.sd
}

/** `sample`: of an AUC. The paper's kB are thousands of bytes. */
function measure(
  trials: readonly Trial[],
  setting: Setting,
  metric: MetricName,
  machine: string,
  sample: TestSample,
): Spread | null {
  switch (metric) {
    case 'auc':
    case 'auc-retained':
      return summarise(trials, setting, { kind: metric, sample })
    case 'space-kilobytes': {
      const bytes = summarise(trials, setting, { kind: 'space-bytes' })
      return bytes && { ...bytes, mean: bytes.mean / 1000, sd: bytes.sd && bytes.sd / 1000 }
    }
    case 'space-reduction':
      return summarise(trials, setting, { kind: metric })
    default:
      return summarise(trials, setting, { kind: metric, machine })
  }
}

function missingFor(
  { detector, tuning, features, machine, metric }: PaperRow,
  { name }: Manifest,
  trials: readonly Trial[],
): string {
  const same = trials.filter((t) => t.dataset === name && t.features === features && t.tuning === tuning)
  if (!same.some((trial) => trial.detector === detector)) return 'not run'
  const isRatio = !['auc', 'train-millis-per-100', 'test-millis-per-100', 'space-kilobytes'].includes(metric)
  if (isRatio && !same.some((trial) => trial.detector === BASELINE)) return `no ${BASELINE}`
  return machine === null ? 'not run' : `no ${machine}`
}

function notesOn(columns: readonly string[], datasets: ReadonlyMap<string, Manifest | undefined>): string[] {
  return columns.flatMap((column) => {
    const manifest = datasets.get(column)
    if (manifest === undefined) return []
    const note = manifest.kind === 'rows' && manifest.note !== null ? ` ${manifest.note}` : ''
    return [`${column} is measured on ${manifest.name}.${note}`]
  })
}
