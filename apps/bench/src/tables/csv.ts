/** The report as CSV (RFC 4180): one line a cell, figures with all their digits. */
import type { Report } from './report.js'

const COLUMNS = [
  'table',
  'row',
  'column',
  'published_by',
  'published_mean',
  'published_sd',
  'measured_mean',
  'measured_sd',
  'measured_n',
  'missing',
  'ratio',
  'allowed_difference',
  'agrees',
  'trials',
  'trials_sha256',
] as const

export function renderCsv({ tables }: Report): string {
  const lines = tables.flatMap((table) =>
    table.rows.flatMap(({ label, cells }) =>
      cells.map((cell, i) => [
        table.id,
        label,
        table.columns[i],
        table.source,
        cell.published?.mean,
        cell.published?.sd,
        cell.measured?.mean,
        cell.measured?.sd,
        cell.measured?.n,
        cell.missing,
        cell.ratio,
        cell.allowed,
        cell.agrees,
        table.trials,
        table.trialsSha256,
      ]),
    ),
  )
  return [COLUMNS, ...lines].map((values) => `${values.map(field).join(',')}\r\n`).join('')
}

function field(value: unknown): string {
  const text = value === null || value === undefined ? '' : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
