/** `oddflow-bench tables`: trials and readings in, every generated page of the results out. */
import { join } from 'node:path'
import { DataError } from '@oddflow/core'
import { Command } from 'commander'
import { readManifests } from '../datasets/manifest.js'
import { writeFileWhole } from '../files.js'
import { note } from '../output.js'
import { readTrials } from '../run/trials-file.js'
import { readPaperFigures, readReferenceAuc } from '../tables/paper-tables.js'
import { buildReport, type Report, renderPages } from '../tables/report.js'
import { renderCsv, renderLatex, renderMarkdown } from '../tables/table.js'
import { names, RESULTS, TRIALS, withManifests } from './options.js'

export function tablesCommand(): Command {
  return withManifests(new Command('tables'))
    .description("write the paper's tables with the measured figures, from trials only")
    .option('--trials <files>', 'files of trials, separated by commas; several machines are merged', names, [
      TRIALS,
    ])
    .option('--results <dir>', 'folder with machines.jsonl and sweep-*.jsonl, for their pages', RESULTS)
    .option('--out <dir>', 'folder for paper-tables.md, .tex, .csv and the other pages', RESULTS)
    .addHelpText(
      'after',
      '\nExamples:\n  oddflow-bench tables\n  oddflow-bench tables --trials server.jsonl,rspi.jsonl --out results',
    )
    .action((options) => {
      tables(options)
    })
}

/** The files of a report: name and content. */

export function renderReport(report: Report): ReadonlyMap<string, string> {
  return new Map([
    ['paper-tables.md', renderMarkdown(report)],
    ['paper-tables.tex', renderLatex(report)],
    ['paper-tables.csv', renderCsv(report)],
  ])
}

interface TablesOptions {
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
  const report = buildReport(runs, readManifests(options.manifests), readPaperFigures(), readReferenceAuc())
  const files = new Map([...renderReport(report), ...renderPages(options.results)])
  for (const [name, content] of files) writeFileWhole(join(options.out, name), content)
  note(
    `${options.out}: ${report.tables.length} tables of ${report.trials.length} trials in ${[...files.keys()].join(', ')}`,
  )
}
