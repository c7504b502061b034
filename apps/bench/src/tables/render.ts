/** The files of a report: name and content. */
import { renderCsv } from './csv.js'
import { renderKjlAgainstSvm } from './kjl-against-svm-page.js'
import { renderLatex } from './latex.js'
import { renderMarkdown } from './markdown.js'
import type { Report } from './report.js'

export function renderReport(report: Report): ReadonlyMap<string, string> {
  return new Map([
    ['paper-tables.md', renderMarkdown(report)],
    ['paper-tables.tex', renderLatex(report)],
    ['paper-tables.csv', renderCsv(report)],
    ...renderKjlAgainstSvm(report.trials),
  ])
}
