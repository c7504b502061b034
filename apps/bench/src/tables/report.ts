/** All tables of one set of trials, with what was run where: what every format is made from. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import * as Plot from '@observablehq/plot'
import { findDisagreements, mergeTrials, type Spread, spread, type Trial } from '@oddflow/evaluation'
import { SWEEP_NAMES, type SweepName, sweepTrialKey } from '../commands/sweep.js'
import type { Manifest } from '../datasets/manifest.js'
import { type EmbeddingReading, type MixturePicture, type Point, readEmbeddings } from '../embeddings.js'
import { sha256 } from '../machines/digest.js'
import { readReadings } from '../machines/reading.js'
import { readPeerReadings } from '../peers/run-peers.js'
import { readSpeedReadings } from '../peers/speed.js'
import { readTrials } from '../run/trials-file.js'
import { STUDIES } from '../studies/registry.js'
import { fixed, formatSpread, PALETTE, renderFigure } from './figures.js'
import { disturbance } from './kjl-against-svm-page.js'
import { renderMachinesPage } from './machines-page.js'
import { aucTables, costTables, paperTables, referenceTables } from './paper-tables.js'
import { renderPeersPage, renderPeersSpeedPage } from './peers-pages.js'
import type { PaperFigures, ReferenceAuc } from './published.js'
import { renderNuSweep, renderRowsSweep, renderScalerSweep } from './sweep-pages.js'
import { hashTrials, markdownTable, type Table } from './table.js'

/** The paper's pictures of embeddings, drawn again: Cluster in Cluster, and mixtures over embedded normal rows. */

const PANEL_NAMES = { data: 'the data', kjl: 'after KJL', nystrom: 'after Nyström' } as const
const [FIRST, SECOND, INK] = [PALETTE[0]!, PALETTE[1]!, '#1d2126']

export function renderEmbeddingsPage(reading: EmbeddingReading): ReadonlyMap<string, string> {
  const { clusterInCluster: cic, mixtures } = reading
  const after = cic.straightLineAfter
  const page = `# Embeddings as pictures

Written by \`oddflow-bench tables\` from [embeddings.json](embeddings.json), which \`oddflow-bench embeddings\` writes; nothing here is typed in by hand.

## Cluster in Cluster

![Cluster in Cluster before and after KJL and Nyström](embedding-clusters.svg)

${cic.rows} simulated rows in two classes, m = ${cic.landmarks} landmarks, d = 2, bandwidth ${fixed(cic.bandwidth, 2)} (the 0.25-quantile of pair distances).
In the paper no straight line separates the two classes before an embedding, and one does after either embedding. The table
gives the share of all rows on the right side of the best straight line; one half is chance.

${markdownTable(
  ['', 'rows on the right side', 'least', 'most'],
  [
    ['the data', fixed(cic.straightLineBefore, 3), '', ''],
    ...(['kjl', 'nystrom'] as const).map((kind) => [
      `${PANEL_NAMES[kind]}, ${after[kind].length} draws`,
      formatSpread(spreadOf(after[kind]), 3),
      fixed(Math.min(...after[kind]), 3),
      fixed(Math.max(...after[kind]), 3),
    ]),
  ],
  1,
)}

Mean ± standard deviation over draws of the landmarks and, for KJL, of the sketch. KJL keeps two
random directions, so its draws differ; Nyström keeps the two directions of largest variance. The picture shows the first draw.

## The mixture over embedded normal rows

![Mixtures over embedded normal rows](embedding-mixtures.svg)

The first repeat of each set in d = 2 dimensions instead of 5, so that it can be drawn; components by QuickShift++, each an
ellipse at two standard deviations. No scaler, no support guard.

${markdownTable(
  ['', 'components', 'AUC with d = 2'],
  mixtures.map((m) => [nameOf(m), `${m.components.length}`, fixed(m.auc, 3)]),
  1,
)}

Seed ${reading.seed}. SHA-256 of the reading ${sha256(`${JSON.stringify(reading)}\n`)}.
`
  return new Map([
    ['embeddings.md', page],
    ['embedding-clusters.svg', clustersChart(reading)],
    ['embedding-mixtures.svg', mixturesChart(mixtures)],
  ])
}

/** There is always a draw. */
const spreadOf = (values: readonly number[]): Spread => spread(values) ?? { mean: 0, sd: null, n: 0 }

const nameOf = ({ dataset, detector }: MixturePicture): string => `${dataset}, ${detector}`

/** Each panel has a scale of its own, from 0 to 1: embeddings have no common unit. */
interface Place {
  readonly panel: string
  readonly x: number
  readonly y: number
  readonly kind: string
}

function placer(panel: string, all: readonly Point[]): (point: Point, kind: string) => Place {
  const range = (axis: 0 | 1): { low: number; size: number } => {
    const values = all.map((point) => point[axis])
    const low = Math.min(...values)
    return { low, size: Math.max(...values) - low || 1 }
  }
  const [x, y] = [range(0), range(1)]
  return (point, kind) => ({ panel, x: (point[0] - x.low) / x.size, y: (point[1] - y.low) / y.size, kind })
}

function clustersChart({ clusterInCluster }: EmbeddingReading): string {
  const places = clusterInCluster.panels.flatMap(({ what, inner, outer }) => {
    const place = placer(PANEL_NAMES[what], [...inner, ...outer])
    return [...inner.map((p) => place(p, 'inner class')), ...outer.map((p) => place(p, 'outer class'))]
  })
  const after = clusterInCluster.straightLineAfter
  return renderFigure({
    title: 'Cluster in Cluster before and after an embedding in two dimensions',
    description: `A ring around a ball. The best straight line has ${fixed(clusterInCluster.straightLineBefore, 3)} of the rows on the right side before, ${fixed(spreadOf(after.kjl).mean, 3)} after KJL and ${fixed(spreadOf(after.nystrom).mean, 3)} after Nyström.`,
    width: 900,
    height: 340,
    legend: [
      ['inner class', FIRST],
      ['outer class', SECOND],
    ],
    plot: panels(
      clusterInCluster.panels.map(({ what }) => PANEL_NAMES[what]),
      [
        Plot.dot(places, {
          x: 'x',
          y: 'y',
          fx: 'panel',
          fill: ({ kind }: Place) => (kind === 'inner class' ? FIRST : SECOND),
          r: 1.4,
        }),
      ],
    ),
  })
}

function mixturesChart(mixtures: readonly MixturePicture[]): string {
  const drawn = mixtures.map((picture) => {
    const ellipses = picture.components.map(({ mean, covariance }) => ellipse(mean, covariance))
    const place = placer(nameOf(picture), [...picture.normal, ...ellipses.flat()])
    const inside = ({ x, y }: Place): boolean => x >= 0 && x <= 1 && y >= 0 && y <= 1
    return {
      normal: picture.normal.map((p) => place(p, 'normal')),
      // a novelty that lies far off would leave the rest as one dot
      novel: picture.novel.map((p) => place(p, 'novel')).filter(inside),
      outlines: ellipses.flatMap((points, j) => points.map((p) => place(p, `${nameOf(picture)} ${j}`))),
    }
  })
  return renderFigure({
    title: 'Mixtures over embedded normal rows, d = 2',
    description: mixtures.map((m) => `${nameOf(m)}: ${m.components.length} components`).join('; '),
    width: Math.max(600, 300 * mixtures.length),
    height: 340,
    legend: [
      ['normal, training rows', FIRST],
      ['novel, test rows within the frame', SECOND],
      ['two standard deviations of a component', INK],
    ],
    plot: panels(mixtures.map(nameOf), [
      Plot.dot(
        drawn.flatMap(({ normal }) => normal),
        { x: 'x', y: 'y', fx: 'panel', fill: FIRST, r: 1.4, fillOpacity: 0.6 },
      ),
      Plot.dot(
        drawn.flatMap(({ novel }) => novel),
        { x: 'x', y: 'y', fx: 'panel', fill: SECOND, r: 1.4, fillOpacity: 0.6 },
      ),
      Plot.line(
        drawn.flatMap(({ outlines }) => outlines),
        { x: 'x', y: 'y', fx: 'panel', z: 'kind', stroke: INK, strokeWidth: 1.2 },
      ),
    ]),
  })
}

function panels(domain: readonly string[], marks: Plot.Markish[]): Plot.PlotOptions {
  const bare = { domain: [-0.03, 1.03], axis: null } as const
  return {
    marginTop: 30,
    x: bare,
    y: bare,
    fx: { label: null, domain: [...domain] },
    marks: [Plot.frame(), ...marks],
  }
}

/** 2 standard deviations around: mean + 2·L·(cos, sin), with LLᵀ the covariance. */
function ellipse(mean: Point, [xx, xy, yy]: MixturePicture['components'][number]['covariance']): Point[] {
  const a = Math.sqrt(xx)
  const b = a === 0 ? 0 : xy / a
  const c = Math.sqrt(Math.max(0, yy - b * b))
  return Array.from({ length: 49 }, (_, i): Point => {
    const angle = (i / 48) * 2 * Math.PI
    const [u, v] = [2 * Math.cos(angle), 2 * Math.sin(angle)]
    return [mean[0] + a * u, mean[1] + b * u + c * v]
  })
}

/**
 * Every generated page of the results, from the files of trials and readings in one folder: what `tables` writes, and
 * what the check of committed results compares. A file that is not there has no page.
 */

const SWEEP_PAGES: Readonly<Record<SweepName, (trials: readonly Trial[]) => ReadonlyMap<string, string>>> = {
  nu: renderNuSweep,
  scaler: renderScalerSweep,
  rows: renderRowsSweep,
}

/** Name and content. `folder` holds sweep-nu.jsonl, machines.jsonl, …; the paper's tables are apart (tables.ts). */
export function renderPages(folder: string): ReadonlyMap<string, string> {
  const pages = new Map<string, string>()
  const readings = readReadings(join(folder, 'machines.jsonl'))
  if (readings.length > 0) pages.set('machines.md', renderMachinesPage(readings))
  const peers = readPeerReadings(join(folder, 'peers.jsonl'))
  if (peers.length > 0) pages.set('peers.md', renderPeersPage(peers))
  const speed = readSpeedReadings(join(folder, 'peers-speed.jsonl'))
  if (speed.length > 0) pages.set('peers-speed.md', renderPeersSpeedPage(speed))
  const embeddings = readEmbeddings(join(folder, 'embeddings.json'))
  if (embeddings !== null) {
    for (const [file, content] of renderEmbeddingsPage(embeddings)) pages.set(file, content)
  }
  for (const study of STUDIES) {
    for (const [file, content] of study.draw(folder)) pages.set(file, content)
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
