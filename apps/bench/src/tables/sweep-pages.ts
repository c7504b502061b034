/** The trials of a sweep as points: a data set and a setting each, with the mean and spread over training repeats. */
import * as Plot from '@observablehq/plot'
import { SCALER_NAMES } from '@oddflow/detectors'
import { millisPer100, type Spread, spread } from '@oddflow/evaluation'
import type { SweepName } from '../commands/sweep.js'
import { groupBy } from '../files.js'
import { median } from '../peers/run-peers.js'
import type { Trial } from '../run/trial.js'
import { LOGARITHMIC, PALETTE, renderCurves, renderFigure } from './figures.js'
import { fixed, formatSpread, hashTrials, markdownTable, plainText } from './table.js'

type SweepPoint = ReturnType<typeof sweepPoints>[number]

/** In the order of data set, detector, training rows and parameters. */
function sweepPoints(trials: readonly Trial[]) {
  const keyOf = ({ dataset, detector, trainRows, parameters }: Trial): string =>
    JSON.stringify([dataset, detector, String(trainRows).padStart(9, '0'), parameters])
  return [...groupBy(trials, keyOf)]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, same]) => {
      const [first] = same
      const over = (value: (trial: Trial) => number): Spread => spread(same.map(value))!
      return {
        dataset: first!.dataset,
        detector: first!.detector,
        parameters: first!.parameters,
        trainRows: first!.trainRows,
        /** Over all test rows where the data set has them apart, otherwise over the 300 + 300. */
        auc: over(({ results }) => results[0]!.auc),
        /** Of the median pass of each trial, which other work on the machine moves less than the mean. */
        testMillisPer100: over(({ testMillis, testRows }) => millisPer100([median(testMillis)], testRows)),
        spaceKilobytes: over(({ spaceNumbers }) => (8 * spaceNumbers) / 1000),
      }
    })
}

/** The first parameter of this name, at any depth: `k` is the start's. */
export function parameterOf(point: Pick<SweepPoint, 'parameters'>, name: string): number | string | null {
  const search = (value: unknown): number | string | null => {
    if (value === null || typeof value !== 'object') return null
    for (const [key, entry] of Object.entries(value)) {
      if (key === name && (typeof entry === 'number' || typeof entry === 'string')) return entry
      const found = search(entry)
      if (found !== null) return found
    }
    return null
  }
  return search(point.parameters)
}

const datasetsOf = (points: readonly SweepPoint[]): string[] =>
  [...new Set(points.map(({ dataset }) => dataset))].sort()

const detectorsOf = (points: readonly SweepPoint[]): string[] =>
  [...new Set(points.map(({ detector }) => detector))].sort()

/**
 * How far other work lengthened the times of trials. A load average does not say it; the mean and median pass over the
 * fastest pass of the same rows do.
 */

/** One sentence for the foot of a page; '' where the machine did nothing else, or nothing was timed twice. */
export function disturbance(trials: readonly Trial[]): string {
  const together = Math.max(1, ...trials.map(({ machine }) => machine.concurrency))
  const load = Math.max(0, ...trials.flatMap(({ loadAverage }) => loadAverage ?? []))
  const cpus = Math.min(...trials.map(({ machine }) => machine.logicalCpus))
  if (together === 1 && load <= cpus) return ''
  const there = `Other work shared the machine (load average up to ${load.toFixed(1)}, ${together} ${together === 1 ? 'trial' : 'trials'} at a time)`
  const timed = trials.filter(({ testMillis }) => testMillis.length > 1 && Math.min(...testMillis) > 0)
  if (timed.length === 0) return `${there}: AUC and space do not depend on that, times do.`
  const means = timed.map(({ testMillis: t }) => t.reduce((a, b) => a + b, 0) / t.length / Math.min(...t))
  const middles = timed.map(({ testMillis: t }) => median(t) / Math.min(...t))
  return (
    `${there}. AUC and space do not depend on that, times do. Against the fastest pass of its trial, ` +
    `the mean pass takes ${ratioSpread(means)}, the median pass ${ratioSpread(middles)}.`
  )
}

function ratioSpread(ratios: readonly number[]): string {
  const sorted = [...ratios].sort((a, b) => a - b)
  const most = sorted[Math.min(sorted.length - 1, Math.ceil(0.95 * sorted.length) - 1)]!
  return `${median(sorted).toFixed(2)} times as long (median of the trials; at most ${most.toFixed(2)} in 95 % of them)`
}

/** What every page says of how its figures came about. */
function sweepFooter(trials: readonly Trial[], hash: string | null): string {
  const machines = [
    ...new Set(
      trials.map(({ machine: m, versions }) =>
        plainText(`${m.cpu}, ${m.logicalCpus} logical CPUs, Node ${versions.node ?? '?'}`),
      ),
    ),
  ].sort()
  const repeats = new Set(trials.map(({ repeat }) => repeat)).size
  const busy = disturbance(trials)
  return `${trials.length} trials, ${repeats} training repeats; ${machines.join('; ')}.${busy === '' ? '' : ` ${busy}`} SHA-256 of the trials ${hash ?? 'none'}.`
}

/** AUC over scaler × bandwidth quantile × detector, untuned: a table a data set, and a picture of all cells. */
export function renderScalerSweep(trials: readonly Trial[]): ReadonlyMap<string, string> {
  const points = sweepPoints(trials)
  const page = renderSweepPage('scaler', trials, points, {
    title: 'AUC over scalers, bandwidths and detectors, untuned',
    about: `No support guard, OCSVM with nu = 0.5, k = 10 where a detector takes it. q is the quantile of pair distances that the
bandwidth is at; detectors without a bandwidth have one line. Mean over training repeats, AUC over all test rows; the
largest of each line stands out.`,
    pictures: ['![AUC by scaler, quantile and detector](sweep-scaler.svg)'],
    sections: (dataset, own) => [scalerTable(dataset, own)],
  })
  return new Map([
    ['sweep-scaler.md', page],
    ['sweep-scaler.svg', scalerChart(points)],
  ])
}

const lineOf = (point: SweepPoint): string => {
  const q = parameterOf(point, 'bandwidthQuantile')
  return q === null ? point.detector : `${point.detector}, q ${q}`
}

function scalerTable(dataset: string, points: readonly SweepPoint[]): string {
  const lines = [...new Set(points.map(lineOf))]
  const rows = lines.map((line) => {
    const own = SCALER_NAMES.map((scaler) =>
      points.find((p) => lineOf(p) === line && parameterOf(p, 'scaler') === scaler),
    )
    const best = Math.max(...own.map((point) => point?.auc.mean ?? 0))
    return [
      line,
      ...own.map((point) => {
        if (point === undefined) return 'not run'
        const text = fixed(point.auc.mean, 3)
        return point.auc.mean === best ? `**${text}**` : text
      }),
    ]
  })
  return `## ${dataset}\n\n${markdownTable(['', ...SCALER_NAMES], rows, 1)}`
}

function scalerChart(points: readonly SweepPoint[]): string {
  const datasets = datasetsOf(points)
  const lines = detectorsOf(points).flatMap((detector) => [
    ...new Set(points.filter((p) => p.detector === detector).map(lineOf)),
  ])
  const cells = points.map((p) => ({
    dataset: p.dataset,
    line: lineOf(p),
    scaler: String(parameterOf(p, 'scaler')),
    auc: p.auc.mean,
    text: fixed(p.auc.mean, 2).replace(/^0/, ''),
  }))
  return renderFigure({
    title: 'AUC by scaler, bandwidth quantile q and detector, untuned; darker is better',
    description: cells.map((c) => `${c.dataset} ${c.line} ${c.scaler}: ${fixed(c.auc, 3)}`).join('; '),
    width: 900,
    height: 60 + 19 * lines.length,
    legend: [],
    plot: {
      marginLeft: 150,
      marginTop: 40,
      padding: 0.04,
      x: { type: 'band', domain: [...SCALER_NAMES], label: null, axis: 'bottom' },
      y: { type: 'band', domain: lines, label: null },
      fx: { label: null, domain: datasets, axis: 'top' },
      color: { type: 'linear', domain: [0.4, 1], clamp: true, scheme: 'blues' },
      marks: [
        Plot.cell(cells, { x: 'scaler', y: 'line', fx: 'dataset', fill: 'auc' }),
        Plot.text(cells, {
          x: 'scaler',
          y: 'line',
          fx: 'dataset',
          text: 'text',
          fontSize: 10,
          fill: (c: { auc: number }) => (c.auc > 0.8 ? 'white' : 'black'),
        }),
      ],
    },
  })
}

/** AUC, detection time and space of every detector against the number n of training rows. */
const MEASURES = {
  auc: { label: 'AUC', decimals: 3, log: false, of: (p: SweepPoint) => p.auc },
  time: {
    label: 'detection, ms per 100 rows',
    decimals: 3,
    log: true,
    of: (p: SweepPoint) => p.testMillisPer100,
  },
  space: { label: 'space, kB', decimals: 1, log: true, of: (p: SweepPoint) => p.spaceKilobytes },
} as const
type Measure = keyof typeof MEASURES

export function renderRowsSweep(trials: readonly Trial[]): ReadonlyMap<string, string> {
  const points = sweepPoints(trials)
  const measures = Object.keys(MEASURES) as Measure[]
  const page = renderSweepPage('rows', trials, points, {
    title: 'AUC, detection time and space against the number of training rows',
    about: `The first n training rows of each repeat. Untuned: bandwidth at the 0.3-quantile of pair distances, no scaler, no support guard,
OCSVM with nu = 0.5. Mean ± standard deviation over training repeats, AUC over all test rows. OCSVM's model and KDE's grow
with n; an embedding with a mixture, landmarks, trees and components do not.`,
    pictures: [
      ...measures.map((measure) => `![${MEASURES[measure].label} against n](sweep-rows-${measure}.svg)`),
    ],
    sections: (dataset, own) => measures.map((measure) => table(dataset, own, measure)),
  })
  return new Map([
    ['sweep-rows.md', page],
    ...measures.map((measure) => [`sweep-rows-${measure}.svg`, rowsChart(points, measure)] as const),
  ])
}

function table(dataset: string, points: readonly SweepPoint[], measure: Measure): string {
  const { label, of, decimals } = MEASURES[measure]
  const sizes = [...new Set(points.map(({ trainRows }) => trainRows))].sort((a, b) => a - b)
  const rows = detectorsOf(points).map((detector) => [
    detector,
    ...sizes.map((n) => {
      const point = points.find((p) => p.detector === detector && p.trainRows === n)
      return point === undefined ? 'not run' : formatSpread(of(point), decimals)
    }),
  ])
  return `## ${dataset}: ${label}\n\n${markdownTable(['', ...sizes.map((n) => `n = ${n}`)], rows, 1)}`
}

function rowsChart(points: readonly SweepPoint[], measure: Measure): string {
  const { label, of, log } = MEASURES[measure]
  const curves = detectorsOf(points).flatMap((detector) =>
    points
      .filter((p) => p.detector === detector)
      .map((p) => ({ panel: p.dataset, curve: detector, x: p.trainRows, y: of(p).mean })),
  )
  return renderCurves(`${label} against the number of training rows`, curves, ['training rows', label], log)
}

/** The points that no other beats: none is at least as cheap and at least as good, and better in one of the two. */
export function paretoFront<T>(
  points: readonly T[],
  cost: (point: T) => number,
  worth: (point: T) => number,
): T[] {
  const sorted = [...points].sort((a, b) => cost(a) - cost(b) || worth(b) - worth(a))
  let best = Number.NEGATIVE_INFINITY
  return sorted.filter((point) => {
    if (worth(point) <= best) return false
    best = worth(point)
    return true
  })
}

/** OCSVM over nu beside OC-KJL and OC-Nystrom over m, d and k: tables, and AUC against time and space as pictures. */
export function renderNuSweep(trials: readonly Trial[]): ReadonlyMap<string, string> {
  const points = sweepPoints(trials)
  const page = renderSweepPage('nu', trials, points, {
    title: 'OCSVM over nu beside OC-KJL and OC-Nystrom',
    about: `The paper's OCSVM has nu = 0.5: at least half of the training rows are support vectors, and detection time and space are
in proportion to them. nu bounds their share from below, so a smaller one makes OCSVM cheaper. How much do
OC-KJL and OC-Nyström still save then, and how does the AUC change? Times are those of the median pass of each trial. Untuned: bandwidth at the 0.3-quantile of pair distances, no
scaler, no support guard. Mean ± standard deviation over training repeats, AUC over all test rows.`,
    pictures: [
      '![AUC against detection time](sweep-nu-time.svg)',
      '![AUC against space](sweep-nu-space.svg)',
    ],
    sections: section,
  })
  return new Map([
    ['sweep-nu.md', page],
    ['sweep-nu-time.svg', chart(points, 'time')],
    ['sweep-nu-space.svg', chart(points, 'space')],
  ])
}

function section(dataset: string, points: readonly SweepPoint[]): string[] {
  const svms = points.filter(({ detector }) => detector === 'ocsvm')
  const others = points.filter(({ detector }) => detector !== 'ocsvm')
  const half = svms.find((point) => parameterOf(point, 'nu') === 0.5)
  const cheapest = (least: number): string[] => {
    const good = others.filter(({ auc }) => auc.mean >= least)
    const found = [...good].sort((a, b) => a.testMillisPer100.mean - b.testMillisPer100.mean)[0]
    return found === undefined
      ? ['none', '', '']
      : [nameOf(found), ratio(found, 'time', svms, least), ratio(found, 'space', svms, least)]
  }
  const table = markdownTable(
    ['nu', 'AUC', 'ms per 100 rows', 'kB', 'cheapest other with that AUC', 'time saved', 'space saved'],
    svms.map((point) => [
      `${parameterOf(point, 'nu')}`,
      formatSpread(point.auc, 3),
      formatSpread(point.testMillisPer100, 3),
      formatSpread(point.spaceKilobytes, 1),
      ...cheapest(point.auc.mean),
    ]),
    1,
  )
  const fronts = (['time', 'space'] as const).map((cost) => {
    const front = paretoFront(
      points,
      (p) => MEASURES[cost].of(p).mean,
      (p) => p.auc.mean,
    )
    const rows = front.map((p) => [
      nameOf(p),
      formatSpread(p.auc, 3),
      fixed(p.testMillisPer100.mean, 3),
      fixed(p.spaceKilobytes.mean, 1),
    ])
    return `Nothing measured is at least as good and needs less ${cost}:\n\n${markdownTable(['', 'AUC', 'ms per 100 rows', 'kB'], rows, 1)}`
  })
  return [
    `## ${dataset}`,
    table,
    `*Time saved* and *space saved* are against the cheapest OCSVM of this table with at least the AUC of the line${half === undefined ? '' : ', not against nu = 0.5'}. The other is picked after the fact, by its AUC over the test rows: what could be had, not what a user without labels would have chosen.`,
    ...fronts,
  ]
}

/** How many times the cheapest OCSVM of at least that AUC takes what `point` takes. */
function ratio(
  point: SweepPoint,
  cost: 'time' | 'space',
  svms: readonly SweepPoint[],
  least: number,
): string {
  const { of } = MEASURES[cost]
  const costs = svms.filter(({ auc }) => auc.mean >= least).map((svm) => of(svm).mean)
  return `${fixed(Math.min(...costs) / of(point).mean, 1)} ×`
}

function nameOf(point: SweepPoint): string {
  if (point.detector === 'ocsvm') return `ocsvm, nu ${parameterOf(point, 'nu')}`
  return `${point.detector}, m ${parameterOf(point, 'm')}, d ${parameterOf(point, 'd')}, k ${parameterOf(point, 'k')}`
}

function chart(points: readonly SweepPoint[], cost: 'time' | 'space'): string {
  const { label, of } = MEASURES[cost]
  const detectors = detectorsOf(points)
  const datasets = datasetsOf(points)
  const rows = points.map((p) => ({
    dataset: p.dataset,
    detector: p.detector,
    cost: of(p).mean,
    auc: p.auc.mean,
    nu: p.detector === 'ocsvm' ? `${parameterOf(p, 'nu')}` : '',
  }))
  const front = datasets.flatMap((dataset) =>
    paretoFront(
      rows.filter((row) => row.dataset === dataset),
      (row) => row.cost,
      (row) => row.auc,
    ),
  )
  const svms = rows.filter(({ detector }) => detector === 'ocsvm')
  const colours = detectors.map((_, i) => PALETTE[i] ?? 'black')
  const channels = { x: 'cost', y: 'auc', fx: 'dataset' } as const
  return renderFigure({
    title: `AUC against ${cost === 'time' ? 'detection time' : 'space'}: OCSVM over nu, OC-KJL and OC-Nystrom over m, d, k`,
    description: `For each data set the points that nothing beats: ${front.map((f) => `${f.dataset} ${f.detector} AUC ${fixed(f.auc, 3)} at ${fixed(f.cost, 3)}`).join('; ')}. Axis: ${label}, logarithmic.`,
    width: 860,
    height: 420,
    legend: detectors.map((name, i) => [name, colours[i] ?? 'black'] as const),
    plot: {
      marginLeft: 50,
      marginBottom: 44,
      x: { label, grid: true, ...LOGARITHMIC },
      y: { label: 'AUC', grid: true },
      fx: { label: null, domain: datasets },
      color: { type: 'ordinal', domain: detectors, range: colours },
      marks: [
        Plot.line(front, { ...channels, z: null, stroke: '#94a3b8', curve: 'step-after' }),
        Plot.line(svms, { ...channels, z: null, stroke: 'detector', strokeOpacity: 0.4 }),
        Plot.dot(rows, { ...channels, fill: 'detector', r: 3 }),
        Plot.dot(front, { ...channels, stroke: 'black', r: 5 }),
        // above and below in turn: the smallest nu stand close together
        ...([0, 1] as const).map((odd) =>
          Plot.text(
            svms.filter((_, i) => i % 2 === odd),
            { ...channels, text: 'nu', dy: odd === 0 ? -9 : 12, fontSize: 9 },
          ),
        ),
      ],
    },
  })
}

interface SweepPage {
  readonly title: string
  readonly about: string
  /** In Markdown. */
  readonly pictures: readonly string[]
  /** `points` are those of the data set. */
  sections(dataset: string, points: readonly SweepPoint[]): readonly string[]
}

function renderSweepPage(
  name: SweepName,
  trials: readonly Trial[],
  points: readonly SweepPoint[],
  { title, about, pictures, sections }: SweepPage,
): string {
  const parts = [
    `# ${title}`,
    `Written by \`oddflow-bench tables\` from [sweep-${name}.jsonl](sweep-${name}.jsonl), which \`oddflow-bench sweep ${name}\` writes; nothing here is typed in by hand.`,
    about,
    ...pictures,
    ...datasetsOf(points).flatMap((dataset) =>
      sections(
        dataset,
        points.filter((p) => p.dataset === dataset),
      ),
    ),
    sweepFooter(trials, hashTrials(trials).trialsSha256),
  ]
  return `${parts.join('\n\n')}\n`
}
