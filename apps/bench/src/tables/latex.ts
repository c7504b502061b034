/** The report as LaTeX: one table environment each, to be \\input into a document that loads booktabs. */
import { disagreements, formatMeasured, formatRatio, formatSpread, provenance, tally } from './figures.js'
import type { Report } from './report.js'
import type { Table } from './table.js'

export function renderLatex({ tables, about }: Report): string {
  const head = ['Written by oddflow-bench tables; needs the package booktabs.', ...about]
  return `${head.map((text) => `% ${text}`).join('\n')}\n\n${tables.map(tableText).join('\n')}`
}

function tableText(table: Table): string {
  const lines: string[] = []
  for (const { label, cells, decimals, publishedDecimals } of table.rows) {
    const measured = cells.map((cell) => escapeLatex(formatMeasured(cell, decimals)))
    if (table.source === null) {
      lines.push(row([escapeLatex(label), ...measured]))
      continue
    }
    const published = cells.map((cell) =>
      cell.published === null ? '' : escapeLatex(formatSpread(cell.published, publishedDecimals)),
    )
    lines.push(
      row([`${escapeLatex(label)}, ${table.source}`, ...published]),
      row(['\\quad measured', ...measured]),
      ...(cells.some(({ ratio }) => ratio !== null)
        ? [row(['\\quad ratio', ...cells.map((cell) => escapeLatex(formatRatio(cell)))])]
        : []),
      '\\addlinespace',
    )
  }
  const below = [
    tally(table),
    ...disagreements(table).map(({ text }) => `Disagrees: ${text}.`),
    ...table.notes,
    provenance(table),
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
