/**
 * A table as data, before it is Markdown, LaTeX or CSV. A measured figure agrees with a published one within the cell's
 * allowed difference; a cell without a figure says what is missing.
 */
import type { Spread } from '@oddflow/evaluation'
import { sha256 } from '../machines/work.js'
import { encodeTrial, type Trial } from '../run/trial.js'
import type { Report } from './report.js'

interface CsvLine {
  readonly table: Table
  readonly label: string
  readonly column: string | undefined
  readonly cell: Cell
}

const CSV_COLUMNS: Readonly<Record<string, (line: CsvLine) => unknown>> = {
  table: ({ table }) => table.id,
  row: ({ label }) => label,
  column: ({ column }) => column,
  published_by: ({ table }) => table.source,
  published_mean: ({ cell }) => cell.published?.mean,
  published_sd: ({ cell }) => cell.published?.sd,
  measured_mean: ({ cell }) => cell.measured?.mean,
  measured_sd: ({ cell }) => cell.measured?.sd,
  measured_n: ({ cell }) => cell.measured?.n,
  missing: ({ cell }) => cell.missing,
  ratio: ({ cell }) => cell.ratio,
  allowed_difference: ({ cell }) => cell.allowed,
  agrees: ({ cell }) => cell.agrees,
  trials: ({ table }) => table.trials,
  trials_sha256: ({ table }) => table.trialsSha256,
}

export function renderCsv({ tables }: Report): string {
  const lines = tables.flatMap((table) =>
    table.rows.flatMap(({ label, cells }) =>
      cells.map((cell, i) => ({ table, label, column: table.columns[i], cell })),
    ),
  )
  const values = Object.values(CSV_COLUMNS)
  return [Object.keys(CSV_COLUMNS), ...lines.map((line) => values.map((value) => value(line)))]
    .map((cells) => `${cells.map(field).join(',')}\r\n`)
    .join('')
}

function field(value: unknown): string {
  const text = value === null || value === undefined ? '' : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const HEAD = `# The paper's tables, measured

Written by \`oddflow-bench tables\` from [trials.jsonl](trials.jsonl), which \`oddflow-bench reproduce\` writes; nothing here is typed in
by hand. Each figure is mean ± standard deviation over training repeats. AUC retained, speed-ups and space reductions are
against the mean of OCSVM (each repeat's ratio; their mean ± standard deviation). A cell without a measured figure says
what is missing: *no data*, *not run*, *no ocsvm*, or the machine that was not at hand. A ratio is measured ÷ published.`

export function renderMarkdown({ tables, about }: Report): string {
  return `${[HEAD, list(about.map(plainText)), ...tables.map(renderTable)].join('\n\n')}\n`
}

export function renderTable(table: Table): string {
  const header = ['', ...table.columns]
  const lines = table.rows.flatMap((row) =>
    rowLines(table.source === null ? row : { ...row, label: `**${row.label}**` }, table.source),
  )
  const disagree = disagreements(table)
  const summary = tally(table)
  return [
    `## ${table.caption}`,
    markdownTable(header, lines, 1),
    ...(summary === null ? [] : [summary]),
    ...(disagree.length === 0 ? [] : [`Disagree:\n\n${list(disagree)}`]),
    list(table.notes),
    ...(table.trials === null ? [] : [`\`${table.id}\`: ${provenance(table)}`]),
  ].join('\n\n')
}

/** What was published, what was measured, and their ratios; of a table without a source, what was measured. */
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
    [`${label}, ${source}`, ...published],
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

/** The same of items: each column is its title and its cell of an item. */
export function tableOf<T>(
  items: readonly T[],
  left: number,
  columns: readonly (readonly [title: string, cell: (item: T) => string])[],
): string {
  const rows = items.map((item) => columns.map(([, cell]) => cell(item)))
  return markdownTable(
    columns.map(([title]) => title),
    rows,
    left,
  )
}

/** Escapes names of processors and systems, which another machine wrote, so that Markdown only shows them. */
export function plainText(text: string): string {
  return text.replace(/[\\`*<>[\]]/g, (sign) => (sign === '<' ? '&lt;' : sign === '>' ? '&gt;' : `\\${sign}`))
}

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
const list = (items: readonly string[]): string => items.map((item) => `- ${item}`).join('\n')

export function renderLatex({ tables, about }: Report): string {
  const head = ['Written by oddflow-bench; needs the package booktabs.', ...about]
  return `${head.map((text) => `% ${text}`).join('\n')}\n\n${tables.map(latexTable).join('\n')}`
}

function latexTable(table: Table): string {
  const lines = table.rows.flatMap((one) => {
    const made = rowLines(one, table.source).map((cells, i) =>
      row(cells.map((cell, column) => `${i > 0 && column === 0 ? '\\quad ' : ''}${escapeLatex(cell)}`)),
    )
    return table.source === null ? made : [...made, '\\addlinespace']
  })
  const below = [
    tally(table),
    ...disagreements(table).map((text) => `Disagrees: ${text}.`),
    ...table.notes,
    table.trials === null ? null : provenance(table),
  ].flatMap((text) => (text === null ? [] : [escapeLatex(text)]))
  return `\\begin{table}
\\centering
\\caption{${escapeLatex(table.caption)}}
\\label{tab:oddflow-${table.id}}
\\begin{tabular}{l${'r'.repeat(table.columns.length)}}
\\toprule
${row(['', ...table.columns.map(escapeLatex)])}
\\midrule
${lines.join('\n')}
\\bottomrule
\\end{tabular}

\\footnotesize ${below.join('\n\n')}
\\end{table}
`
}

const row = (cells: readonly string[]): string => `${cells.join(' & ')} \\\\`

const LATEX: Readonly<Record<string, string>> = {
  '\\': '\\textbackslash{}',
  '{': '\\{',
  '}': '\\}',
  '%': '\\%',
  '&': '\\&',
  '#': '\\#',
  _: '\\_',
  $: '\\$',
  '~': '\\textasciitilde{}',
  '^': '\\textasciicircum{}',
  '±': '$\\pm$',
  '−': '$-$',
  '÷': '$\\div$',
  '≤': '$\\le$',
  '·': '$\\cdot$',
  '√': '$\\surd$',
  Δ: '$\\Delta$',
  '²': '\\textsuperscript{2}',
  '₁': '\\textsubscript{1}',
  '₂': '\\textsubscript{2}',
  '✓': '$\\surd$',
  '✗': '$\\times$',
}

export function escapeLatex(text: string): string {
  return text.replace(/[\\{}%&#_$~^±−÷≤·√Δ²₁₂✓✗]/g, (c) => LATEX[c] ?? c)
}

export type Published = Readonly<Record<'mean' | 'sd', number>>

export interface Cell {
  readonly published: Published | null
  readonly measured: Spread | null
  /** Why nothing was measured; null where something was. */
  readonly missing: string | null
  /** measured ÷ published. */
  readonly ratio: number | null
  /** How far apart the two may be; null without both, where one has no standard deviation, or too wide a one. */
  readonly allowed: number | null
  readonly agrees: boolean | null
}

interface TableRow {
  readonly label: string
  /** Decimals that measured figures are shown with, and published ones: as they were printed. */
  readonly decimals: number
  readonly publishedDecimals: number
  /** One for each column of the table. */
  readonly cells: readonly Cell[]
}

export interface Table {
  /** Of letters, digits and hyphens; unique. */
  readonly id: string
  readonly caption: string
  /** What the published figure is called: the paper's, the reference's; null where there is none to compare with. */
  readonly source: string | null
  readonly columns: readonly string[]
  readonly rows: readonly TableRow[]
  /** How agreement is judged, and what else a reader must know. */
  readonly notes: readonly string[]
  /** How many are behind the table; null of a table that is not of trials. */
  readonly trials: number | null
  /** SHA-256 over the lines of the trials behind the table, sorted; null without any. */
  readonly trialsSha256: string | null
}

export function compare(
  published: Published | null,
  measured: Spread | null,
  missing: string,
  allow: (published: Published, measured: Spread) => number | null,
): Cell {
  const both = published !== null && measured !== null
  const allowed = both ? allow(published, measured) : null
  return {
    published,
    measured,
    missing: measured === null ? missing : null,
    ratio: both ? finite(measured.mean / published.mean) : null,
    allowed,
    agrees: both && allowed !== null ? Math.abs(measured.mean - published.mean) <= allowed : null,
  }
}

/** A cell without a published figure. */
export const measuredCell = (measured: Spread | null, missing = 'not run'): Cell =>
  compare(null, measured, missing, () => null)

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null)

/** Independent of the order of the trials and of repeated ones. */
export function hashTrials(trials: readonly Trial[]): { trials: number; trialsSha256: string | null } {
  const lines = [...new Set(trials.map(encodeTrial))].sort()
  if (lines.length === 0) return { trials: 0, trialsSha256: null }
  return { trials: lines.length, trialsSha256: sha256(`${lines.join('\n')}\n`) }
}

// ---- figures as text: fixed decimals, a true minus sign, ± only where there is a spread

export function formatSpread(
  figure: { readonly mean: number; readonly sd: number | null } | Published,
  decimals: number,
): string {
  const sd = figure.sd === null ? '' : ` ± ${fixed(figure.sd, decimals)}`
  return `${fixed(figure.mean, decimals)}${sd}`
}

function formatMeasured({ measured, missing }: Cell, decimals: number): string {
  return measured === null ? (missing ?? '') : formatSpread(measured, decimals)
}

function formatRatio(cell: Cell): string {
  const { ratio, agrees } = cell
  if (ratio === null) return ''
  return `${fixed(ratio, 2)}${isSpreadTooWide(cell) ? ' ~' : agrees === null ? '' : agrees ? ' ✓' : ' ✗'}`
}

export function fixed(value: number, decimals: number): string {
  const text = value.toFixed(decimals)
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '−')
}

/** Both figures have a standard deviation, and the rule of the table would not judge by it. */
function isSpreadTooWide({ published, measured, allowed }: Cell): boolean {
  return published !== null && measured !== null && measured.sd !== null && allowed === null
}

/** Every cell whose figures do not agree. */
function disagreements({ rows, columns }: Table): string[] {
  return rows.flatMap(({ label, cells, decimals }) =>
    cells.flatMap(({ published, measured, allowed, agrees }, i) => {
      if (agrees !== false || published === null || measured === null || allowed === null) return []
      const difference = fixed(measured.mean - published.mean, decimals)
      return [`${label}, ${columns[i]}: ${difference} (allowed ${fixed(allowed, decimals)})`]
    }),
  )
}

/** "12 of 15 cells agree", or "No cell to compare". */
function tally({ rows, source }: Table): string | null {
  if (source === null) return null
  const cells = rows.flatMap((row) => row.cells)
  const judged = cells.filter(({ agrees }) => agrees !== null)
  const agree = judged.filter(({ agrees }) => agrees === true).length
  const empty = cells.filter(({ measured }) => measured === null).length
  const first = judged.length === 0 ? 'No cell to compare' : `${agree} of ${judged.length} cells agree`
  const wide = cells.filter(isSpreadTooWide).length
  const unjudged = wide === 0 ? '' : `; ${wide} spread too far to be judged`
  return `${first}${unjudged}; ${empty} of ${cells.length} cells have no measured figure.`
}

function provenance({ trials, trialsSha256 }: Table): string {
  return trialsSha256 === null
    ? 'No trials.'
    : `${trials} ${trials === 1 ? 'trial' : 'trials'}, SHA-256 ${trialsSha256}.`
}
