/** `oddflow-bench tables`: trials and readings in, every generated page of the results out. */
import { join } from 'node:path'
import { DataError } from '@oddflow/core'
import { OWN_MANIFESTS, readManifests } from '../datasets/read-manifests.js'
import { note, writeFileWhole } from '../output.js'
import { readTrials } from '../run/trials-file.js'
import { renderKjlAgainstSvm } from '../tables/kjl-against-svm-page.js'
import { readPaperFigures, readReferenceAuc } from '../tables/published.js'
import { buildReport, type Report, renderPages } from '../tables/report.js'
import { renderCsv, renderLatex, renderMarkdown } from '../tables/table.js'

/** The files of a report: name and content. */

export function renderReport(report: Report): ReadonlyMap<string, string> {
  return new Map([
    ['paper-tables.md', renderMarkdown(report)],
    ['paper-tables.tex', renderLatex(report)],
    ['paper-tables.csv', renderCsv(report)],
    ...renderKjlAgainstSvm(report.trials),
  ])
}

export interface TablesOptions {
  readonly manifests?: string
  readonly trials: readonly string[]
  /** Folder of what other commands measured: machines.jsonl, sweep-*.jsonl. */
  readonly results: string
  readonly out: string
}

export function tables(options: TablesOptions): void {
  const runs = options.trials.map((path) => {
    const trials = readTrials(path)
    if (trials.length === 0) throw new DataError(`${path}: holds no trials; run oddflow-bench reproduce`)
    return trials
  })
  const report = buildReport(
    runs,
    readManifests(options.manifests ?? OWN_MANIFESTS),
    readPaperFigures(),
    readReferenceAuc(),
  )
  const files = new Map([...renderReport(report), ...renderPages(options.results)])
  for (const [name, content] of files) writeFileWhole(join(options.out, name), content)
  note(
    `${options.out}: ${report.tables.length} tables of ${report.trials.length} trials in ${[...files.keys()].join(', ')}`,
  )
}
