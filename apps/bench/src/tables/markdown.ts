/** The report as Markdown: a table each, three lines a row where there is something to compare with. */
import { disagreements, formatMeasured, formatRatio, formatSpread, provenance, tally } from './figures.js'
import type { Report } from './report.js'
import type { Table, TableRow } from './table.js'

const HEAD = `# The paper's tables, measured

Written by \`oddflow-bench tables\` from [trials.jsonl](trials.jsonl), which \`oddflow-bench reproduce\` writes; nothing here is typed in
by hand. Each figure is mean ± standard deviation over training repeats. AUC retained, speed-ups and space reductions are
against the mean of OCSVM (each repeat's ratio; their mean ± standard deviation). A cell without a measured figure says
what is missing: *no data*, *not run*, *no ocsvm*, or the machine that was not at hand. A ratio is measured ÷ published.`

export function renderMarkdown({ tables, about }: Report): string {
  return `${[HEAD, list(about.map(plainText)), ...tables.map(tableText)].join('\n\n')}\n`
}

function tableText(table: Table): string {
  const header = ['', ...table.columns]
  const lines = table.rows.flatMap((row) => rowLines(row, table.source))
  const disagree = disagreements(table).map(({ text }) => text)
  const summary = tally(table)
  return [
    `## ${table.caption}`,
    markdownTable(header, lines, 1),
    ...(summary === null ? [] : [summary]),
    ...(disagree.length === 0 ? [] : [`Disagree:\n\n${list(disagree)}`]),
    list(table.notes),
    `\`${table.id}\`: ${provenance(table)}`,
  ].join('\n\n')
}

function rowLines(
  { label, cells, decimals, publishedDecimals }: TableRow,
  source: string | null,
): string[][] {
  const measured = cells.map((cell) => formatMeasured(cell, decimals))
  if (source === null) return [[label, ...measured]]
  const published = cells.map((cell) =>
    cell.published === null ? '' : formatSpread(cell.published, publishedDecimals),
  )
  return [
    [`**${label}**, ${source}`, ...published],
    ['measured', ...measured],
    ...(cells.some(({ ratio }) => ratio !== null) ? [['ratio', ...cells.map(formatRatio)]] : []),
  ]
}

/** The first `left` columns are of words, the others of figures. */
export function markdownTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  left: number,
): string {
  const rule = header.map((_, i) => (left === 0 || i < left ? '---' : '--:'))
  return [header, rule, ...rows]
    .map((cells) => line(cells.map((cell) => cell.replaceAll('|', '\\|'))))
    .join('\n')
}

/**
 * Words that came from a machine, as Markdown that shows them and does nothing else: names of processors and systems
 * are told by whoever runs a trial there.
 */
export function plainText(text: string): string {
  return text.replace(/[\\`*<>[\]]/g, (sign) => (sign === '<' ? '&lt;' : sign === '>' ? '&gt;' : `\\${sign}`))
}

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
const list = (items: readonly string[]): string => items.map((item) => `- ${item}`).join('\n')
