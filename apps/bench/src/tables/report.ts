/** All tables of one set of trials, with what was run where: what every format is made from. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DataError } from '@oddflow/core'
import { SWEEP_NAMES, type SweepName, sweepTrialKey } from '../commands/sweep.js'
import { type Manifest, readManifests } from '../datasets/manifest.js'
import { writeFileWhole } from '../files.js'
import { readReadings } from '../machines/reading.js'
import { note } from '../output.js'
import { readPeerReadings } from '../peers/run-peers.js'
import { readSpeedReadings } from '../peers/speed.js'
import { findDisagreements, mergeTrials, type Trial } from '../run/trial.js'
import { readTrials } from '../run/trials-file.js'
import { STUDIES } from '../studies/registry.js'
import { renderKjlAgainstSvm } from './kjl-against-svm-page.js'
import { renderMachinesPage } from './machines-page.js'
import {
  aucTables,
  costTables,
  type PaperFigures,
  paperTables,
  type ReferenceAuc,
  readPaperFigures,
  readReferenceAuc,
  referenceTables,
} from './paper-tables.js'
import { renderPeersPage, renderPeersSpeedPage } from './peers-pages.js'
import { disturbance, renderNuSweep, renderRowsSweep, renderScalerSweep } from './sweep-pages.js'
import { hashTrials, renderCsv, renderLatex, renderMarkdown, type Table } from './table.js'

const SWEEP_PAGES: Readonly<Record<SweepName, (trials: readonly Trial[]) => ReadonlyMap<string, string>>> = {
  nu: renderNuSweep,
  scaler: renderScalerSweep,
  rows: renderRowsSweep,
}

/** Name and content. `folder` holds sweep-nu.jsonl, machines.jsonl, …; the paper's tables are apart (tables.ts). */
export async function renderPages(folder: string): Promise<ReadonlyMap<string, string>> {
  const pages = new Map<string, string>()
  const readings = readReadings(join(folder, 'machines.jsonl'))
  if (readings.length > 0) pages.set('machines.md', renderMachinesPage(readings))
  const peers = readPeerReadings(join(folder, 'peers.jsonl'))
  if (peers.length > 0) pages.set('peers.md', renderPeersPage(peers))
  const speed = readSpeedReadings(join(folder, 'peers-speed.jsonl'))
  if (speed.length > 0) pages.set('peers-speed.md', renderPeersSpeedPage(speed))
  for (const study of STUDIES) {
    for (const [file, content] of await study.draw(folder)) pages.set(file, content)
  }
  for (const name of SWEEP_NAMES) {
    const path = join(folder, `sweep-${name}.jsonl`)
    if (!existsSync(path)) continue
    const trials = readTrials(path, (trial) => sweepTrialKey(name, trial))
    if (trials.length === 0) continue
    for (const [file, content] of SWEEP_PAGES[name](trials)) pages.set(file, content)
  }
  return pages
}

export interface Report {
  readonly tables: readonly Table[]
  /** A sentence each: machines, versions, differences between machines. */
  readonly about: readonly string[]
  readonly trials: readonly Trial[]
}

export function buildReport(
  runs: readonly (readonly Trial[])[],
  manifests: readonly Manifest[],
  paper: PaperFigures,
  reference: ReferenceAuc,
): Report {
  const trials = mergeTrials(...runs)
  return {
    trials,
    tables: [
      ...aucTables(trials),
      ...referenceTables(reference, trials),
      ...paperTables(paper, manifests, trials),
      ...costTables(trials),
    ],
    about: [...describeMachines(trials), ...differences(trials), total(trials)],
  }
}

function describeMachines(trials: readonly Trial[]): string[] {
  const names = [...new Set(trials.map(({ machine }) => machine.name))].sort()
  return names.map((name) => {
    const own = trials.filter(({ machine }) => machine.name === name)
    const machines = unique(
      own.map(
        ({ machine: m }) =>
          `${m.cpu}, ${m.logicalCpus} logical CPUs, ${(m.memoryBytes / 1e9).toFixed(1)} GB, ${m.operatingSystem}, ${m.architecture}`,
      ),
    )
    const versions = unique(
      own.map(({ versions: v }) =>
        Object.entries(v)
          .map(([key, version]) => `${key} ${version}`)
          .join(', '),
      ),
    )
    const busy = disturbance(own)
    return `Machine ${name}: ${machines.join('; ')}. Versions: ${versions.join('; ')}.${busy === '' ? '' : ` ${busy}`}`
  })
}

function differences(trials: readonly Trial[]): string[] {
  return findDisagreements(trials).map(
    ({ work, machines, aucs }) =>
      `Results differ between machines: ${work}: ${machines.map((m, i) => `${m} ${aucs[i]}`).join(', ')}.`,
  )
}

function total(trials: readonly Trial[]): string {
  const { trials: count, trialsSha256 } = hashTrials(trials)
  return trialsSha256 === null ? 'There are no trials.' : `All ${count} trials: SHA-256 ${trialsSha256}.`
}

const unique = (values: readonly string[]): string[] => [...new Set(values)].sort()

export function renderReport(report: Report): ReadonlyMap<string, string> {
  return new Map([
    ['paper-tables.md', renderMarkdown(report)],
    ['paper-tables.tex', renderLatex(report)],
    ['paper-tables.csv', renderCsv(report)],
    ...renderKjlAgainstSvm(report.trials),
  ])
}

interface TablesOptions {
  readonly manifests?: string
  readonly trials: readonly string[]
  /** Folder of what other commands measured: machines.jsonl, sweep-*.jsonl. */
  readonly results: string
  readonly out: string
}

export async function tables(options: TablesOptions): Promise<void> {
  const runs = options.trials.map((path) => {
    const trials = readTrials(path)
    if (trials.length === 0) throw new DataError(`${path}: holds no trials; run oddflow-bench reproduce`)
    return trials
  })
  const report = buildReport(runs, readManifests(options.manifests), readPaperFigures(), readReferenceAuc())
  const files = new Map([...renderReport(report), ...(await renderPages(options.results))])
  for (const [name, content] of files) writeFileWhole(join(options.out, name), content)
  note(
    `${options.out}: ${report.tables.length} tables of ${report.trials.length} trials in ${[...files.keys()].join(', ')}`,
  )
}
