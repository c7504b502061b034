/**
 * The report as one HTML page that stands alone: no script, nothing loaded, the same bytes for the same trials.
 * Charts of AUC first, then every table; light or dark as the reader has it.
 */
import { aucChart } from './auc-chart.js'
import { disagreements, formatMeasured, formatRatio, formatSpread, provenance, tally } from './figures.js'
import { escapeHtml as e } from './html-text.js'
import type { Report } from './report.js'
import type { Cell, Table, TableRow } from './table.js'

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

export function renderHtml({ tables, about }: Report): string {
  const charts = tables.filter(({ id }) => id.startsWith('auc-')).map((table) => chartSection(table, tables))
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>The paper's tables, measured – OddFlow</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>The paper’s tables, measured</h1>
<p>Mean ± standard deviation over training repeats. AUC retained, speed-ups and space reductions are against the mean of OCSVM. In each cell: the published figure, <strong>the measured one</strong>, and measured ÷ published. A cell without a measured figure says what is missing.</p>
${list(about)}
${charts.join('\n')}
<nav aria-label="Tables"><ul>${tables.map(({ id, caption }) => `<li><a href="#${id}">${e(caption)}</a></li>`).join('')}</ul></nav>
${tables.map(tableSection).join('\n')}
</main>
</body>
</html>
`
}

function chartSection(table: Table, tables: readonly Table[]): string {
  const tuning = table.id.slice(table.id.lastIndexOf('-') + 1)
  const reference = tables.find(({ id }) => id === `reference-${tuning}`)
  const ring = reference === undefined ? '' : ' Ring: an independent implementation on the same rows.'
  return `<figure><div class="scroll">${aucChart(table, reference)}</div><figcaption>${e(table.caption)}, over all test rows. Dot and line: mean and one standard deviation.${ring} The line at 0.5 is guessing.</figcaption></figure>`
}

function tableSection(table: Table): string {
  const disagree = disagreements(table).map(({ text }) => text)
  const summary = tally(table)
  return `<section aria-labelledby="${table.id}"><h2 id="${table.id}">${e(table.caption)}</h2>
<div class="scroll"><table><thead><tr><td></td>${table.columns.map((column) => `<th scope="col">${e(column)}</th>`).join('')}</tr></thead>
<tbody>
${table.rows.map((row) => `<tr><th scope="row">${e(row.label)}</th>${row.cells.map((cell) => cellHtml(cell, row, table.source)).join('')}</tr>`).join('\n')}
</tbody></table></div>
${summary === null ? '' : `<p>${e(summary)}</p>`}${disagree.length === 0 ? '' : `<details><summary>${disagree.length} disagree</summary>${list(disagree)}</details>`}
<details><summary>Notes</summary>${list(table.notes)}</details>
<p class="hash">${e(provenance(table))}</p></section>`
}

function cellHtml(cell: Cell, { decimals, publishedDecimals }: TableRow, source: string | null): string {
  const published =
    cell.published === null || source === null
      ? ''
      : `<span class="published" title="${e(source)}">${e(formatSpread(cell.published, publishedDecimals))}</span>`
  const measured = `<span class="${cell.measured === null ? 'missing' : 'measured'}">${e(formatMeasured(cell, decimals))}</span>`
  const ratio = cell.ratio === null ? '' : `<span class="ratio">× ${e(formatRatio(cell))}</span>`
  const kind = cell.agrees === false ? ' class="off"' : ''
  return `<td${kind}>${published}${measured}${ratio}</td>`
}

const list = (items: readonly string[]): string =>
  `<ul>${items.map((item) => `<li>${e(item)}</li>`).join('')}</ul>`

const STYLE = `
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #1d2126; --soft: #565d66; --line: #dcd9d2; --mark: #1b6a8a; --off: #b03a14; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e8e6e1; --soft: #a9afb7; --line: #383e46; --mark: #74bcdc; --off: #f59a74; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.75rem; line-height: 1.2; } h2 { font-size: 1.125rem; margin: 2.5rem 0 .5rem; }
p, li { max-width: 80ch; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; white-space: nowrap; }
th[scope=row] { text-align: left; font-weight: 600; white-space: normal; min-width: 11rem; }
td span { display: block; } .published, .missing, .ratio, .hash { color: var(--soft); }
.measured { font-weight: 600; } .off .ratio { color: var(--off); } .hash { font-size: .8125rem; }
figure { margin: 1.5rem 0; } .chart { width: 100%; height: auto; min-width: 40rem; max-width: 60rem; display: block; fill: currentColor; text-anchor: middle; font: 12px system-ui, sans-serif; }
.chart .chance { stroke: var(--soft); stroke-dasharray: 4 4; } .chart .spread { stroke: var(--mark); stroke-width: 2; }
.chart .measured { fill: var(--mark); stroke: none; } .chart .reference { fill: none; stroke: var(--off); stroke-width: 1.5; }
figcaption { color: var(--soft); max-width: 80ch; }
`
