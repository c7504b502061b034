/**
 * The two tables: captures scored, and flows flagged.
 *
 * On a narrow screen each row becomes a card with its column names beside the values (theme.ts). That takes the
 * table layout away, and with it, in some browsers, the table's meaning: the roles say it outright.
 */

import { html, type Markup, name } from './escape.js'
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatPercent,
  formatTime,
} from './format.js'
import type { FlaggedFlow, ReportCapture } from './report-data.js'

/** As many flagged flows as a page shows. */
export const FLAGGED_LIMIT = 200

interface Column<Row> {
  label: string
  numeric?: boolean
  cell: (row: Row) => Markup | string
}

export function captureTable(captures: readonly ReportCapture[]): Markup {
  if (captures.length === 0) return html`<p class="empty">No capture was scored.</p>`
  const columns: Column<ReportCapture>[] = [
    { label: 'Capture', cell: (c) => name(c.name) },
    { label: 'Role', cell: (c) => labelTag(c.role) },
    {
      label: 'Packets',
      numeric: true,
      cell: (c) => (c.packets === null ? 'rows only' : formatCount(c.packets)),
    },
    { label: 'Flows', numeric: true, cell: (c) => formatCount(c.flows) },
    { label: 'One-packet', numeric: true, cell: (c) => formatCount(c.onePacketFlows) },
    {
      label: 'Flagged',
      numeric: true,
      cell: (c) =>
        html`${formatCount(c.flagged)}${c.flows > 0 && html` (${formatPercent(c.flagged / c.flows)})`}`,
    },
  ]
  if (captures.some((c) => c.note !== undefined)) columns.push({ label: 'Note', cell: (c) => c.note ?? '' })
  return table('Captures scored', columns, captures)
}

export function flaggedTable(rows: readonly FlaggedFlow[]): Markup {
  const labelled = rows.some((row) => row.label !== undefined)
  const columns: Column<FlaggedFlow>[] = [
    { label: 'From', cell: (f) => name(f.source) },
    { label: 'To', cell: (f) => name(f.destination) },
    { label: 'Protocol', cell: (f) => name(f.protocol) },
    { label: 'Start', cell: (f) => formatTime(f.startMicros) },
    { label: 'Duration', numeric: true, cell: (f) => formatDuration(f.durationMicros) },
    { label: 'Packets', numeric: true, cell: (f) => formatCount(f.packets) },
    { label: 'Bytes', numeric: true, cell: (f) => formatBytes(f.bytes) },
    {
      label: 'Score',
      numeric: true,
      cell: (f) => (f.rule === 'one-packet' || f.score === null ? 'one packet' : formatNumber(f.score)),
    },
    ...(labelled
      ? [
          {
            label: 'Truth',
            cell: (f: FlaggedFlow) => (f.label === undefined ? 'unknown' : labelTag(f.label)),
          },
        ]
      : []),
    { label: 'Capture', cell: (f) => name(f.capture) },
  ]
  return table('Flows flagged as new', columns, rows)
}

function table<Row>(label: string, columns: readonly Column<Row>[], rows: readonly Row[]): Markup {
  const head = columns.map((c) => html`<th role="columnheader" scope="col"${numeric(c)}>${c.label}</th>`)
  const body = rows.map(
    (row) =>
      html`<tr role="row">${columns.map((c) => html`<td role="cell" data-label="${c.label}"${numeric(c)}><span>${c.cell(row)}</span></td>`)}</tr>\n`,
  )
  return html`<table role="table" aria-label="${label}"><thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">\n${body}</tbody></table>`
}

function numeric(column: { numeric?: boolean }): Markup | false {
  return column.numeric === true && html` class="n"`
}

/** Only the three known words become a class; anything else is shown as text. */
function labelTag(label: string): Markup {
  if (label === 'novel') return html`<span class="tag novel">✕ novel</span>`
  if (label === 'normal') return html`<span class="tag normal">● normal</span>`
  return html`${label}`
}
