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

interface Column<Row> {
  label: string
  /** Right-aligned on a wide screen. */
  numeric?: boolean
  /** Share of the table's width: one of the `w-` classes in theme.ts. */
  width: 'name' | 'address' | 'time' | 'number' | 'rate' | 'word'
  cell: (row: Row) => Markup | string
}

const ONE_PACKET_COLUMN: Column<ReportCapture> = {
  label: 'One-packet',
  width: 'number',
  numeric: true,
  cell: (c) => formatCount(c.onePacketFlows),
}

export function captureTable(captures: readonly ReportCapture[]): Markup {
  if (captures.length === 0) return html`<p class="empty">No capture was scored.</p>`
  const columns: Column<ReportCapture>[] = [
    { label: 'Capture', width: 'name', cell: (c) => name(c.name) },
    { label: 'Role', width: 'word', cell: (c) => labelTag(c.role) },
    {
      label: 'Packets',
      width: 'number',
      numeric: true,
      cell: (c) => (c.packets === null ? 'rows only' : formatCount(c.packets)),
    },
    { label: 'Flows', width: 'number', numeric: true, cell: (c) => formatCount(c.flows) },
    ...(captures.some((c) => c.onePacketFlows > 0) ? [ONE_PACKET_COLUMN] : []),
    {
      label: 'Flagged',
      width: 'rate',
      numeric: true,
      cell: (c) =>
        html`${formatCount(c.flagged)}${c.flows > 0 && html` (${formatPercent(c.flagged / c.flows)})`}`,
    },
  ]
  if (captures.some((c) => c.note !== undefined))
    columns.push({ label: 'Note', width: 'name', cell: (c) => (c.note === undefined ? '' : name(c.note)) })
  return table('Captures scored', columns, captures)
}

export function flaggedTable(rows: readonly FlaggedFlow[], label: string): Markup {
  const columns: Column<FlaggedFlow>[] = [
    { label: 'From', width: 'address', cell: (f) => name(f.source) },
    { label: 'To', width: 'address', cell: (f) => name(f.destination) },
    { label: 'Protocol', width: 'word', cell: (f) => name(f.protocol) },
    { label: 'Start (UTC)', width: 'time', cell: (f) => formatTime(f.startMicros) },
    { label: 'Duration', width: 'number', numeric: true, cell: (f) => formatDuration(f.durationMicros) },
    { label: 'Packets', width: 'number', numeric: true, cell: (f) => formatCount(f.packets) },
    { label: 'Bytes', width: 'number', numeric: true, cell: (f) => formatBytes(f.bytes) },
    {
      label: 'Score',
      width: 'number',
      numeric: true,
      cell: (f) => (f.rule === 'one-packet' || f.score === null ? 'one packet' : formatNumber(f.score)),
    },
    { label: 'Capture', width: 'name', cell: (f) => name(f.capture) },
  ]
  if (rows.some((row) => row.label !== undefined))
    columns.push({ label: 'Truth', width: 'word', cell: (f) => labelTag(f.label ?? 'unknown') })
  return table(label, columns, rows, ({ reasons = [] }) =>
    reasons.length === 0 ? null : name(reasons.join('; '), REASONS_LIMIT),
  )
}

/** Code points. */
const REASONS_LIMIT = 400

/** @param under what stands under a row, over all columns */
function table<Row>(
  label: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  under: (row: Row) => Markup | null = () => null,
): Markup {
  const head = columns.map(
    (c) =>
      html`<th role="columnheader" scope="col" class="w-${c.width}${c.numeric === true && ' n'}">${c.label}</th>`,
  )
  const body = rows.map((row) => {
    const more = under(row)
    return html`<tr role="row"${more !== null && html` class="told"`}>${columns.map((c) => html`<td role="cell" data-label="${c.label}" class="w-${c.width}${c.numeric === true && ' n'}"><span>${c.cell(row)}</span></td>`)}</tr>\n${more !== null && html`<tr role="row" class="why"><td role="cell" data-label="Why" class="w-name" colspan="${columns.length}"><span>${more}</span></td></tr>\n`}`
  })
  return html`<table role="table" aria-label="${label}"><thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">\n${body}</tbody></table>`
}

/** Only the three known words become a class; anything else is shown as text. */
function labelTag(label: string): Markup {
  if (label === 'novel') return html`<span class="tag novel">✕ novel</span>`
  if (label === 'normal') return html`<span class="tag normal">● normal</span>`
  return html`${label}`
}
