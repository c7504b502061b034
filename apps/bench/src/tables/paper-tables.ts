/**
 * The paper's tables with what was measured in each cell. A column of the paper is measured on captures where they
 * were prepared, otherwise on the authors' rows, and the notes say on which.
 */
import { BASELINE, type Metric, type Spread, summarise, type Trial, trialsBehind } from '@oddflow/evaluation'
import type { Manifest } from '../datasets/manifest.js'
import type { PaperFigures, PaperRow } from './published.js'
import { type Cell, compare, hashTrials, type Published, type Table } from './table.js'

const METRIC_NAMES: Readonly<Record<PaperRow['metric'], string>> = {
  auc: 'AUC',
  'auc-retained': 'AUC retained',
  'train-millis-per-100': 'training, ms per 100 rows',
  'test-millis-per-100': 'detection, ms per 100 rows',
  'space-kilobytes': 'space, kB',
  'train-speedup': 'training speed-up',
  'test-speedup': 'detection speed-up',
  'space-reduction': 'space reduction',
}

export const AGREEMENT =
  'Agrees (✓): the figures differ by no more than their two standard deviations together; otherwise ✗. A time or speed-up whose standard deviation is above half of its mean is not judged (~): with such a spread nearly everything would agree.'

/** The data set that stands for a column: one with trials, captures before rows. */
export function measuredDataset(
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
  const parts = [METRIC_NAMES[row.metric]]
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
  const measured = summarise(trials, setting, metricOf(row))
  const scaled = row.metric === 'space-kilobytes' && measured !== null ? kilobytes(measured) : measured
  return compare(published, scaled, missingFor(row, manifest, trials), isTime(row) ? allowTime : allow)
}

const isTime = ({ metric }: PaperRow): boolean => metric.startsWith('train-') || metric.startsWith('test-')

/** Times are those of a machine that other work may have shared: too wide a spread judges nothing. */
function allowTime(published: Published, measured: Spread): number | null {
  return measured.sd !== null && measured.sd > measured.mean / 2 ? null : allow(published, measured)
}

function allow(published: Published, measured: Spread): number | null {
  return measured.sd === null ? null : published.sd + measured.sd
}

function metricOf({ metric, machine }: PaperRow): Metric {
  switch (metric) {
    case 'auc':
    case 'auc-retained':
      return { kind: metric, sample: 'protocol' }
    case 'space-kilobytes':
      return { kind: 'space-bytes' }
    case 'space-reduction':
      return { kind: metric }
    default:
      return { kind: metric, machine: machine ?? 'server' }
  }
}

/** The paper's kB: thousands of bytes. */
function kilobytes({ mean, sd, n }: Spread): Spread {
  return { mean: mean / 1000, sd: sd === null ? null : sd / 1000, n }
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
