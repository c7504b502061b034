/** OCSVM over nu beside OC-KJL and OC-Nystrom over m, d and k: tables, and AUC against time and space as pictures. */
import * as Plot from '@observablehq/plot'
import type { Trial } from '@oddflow/evaluation'
import { fixed, formatSpread } from './figures.js'
import { markdownTable } from './markdown.js'
import { paretoFront } from './pareto-front.js'
import { PALETTE, renderFigure } from './svg-figure.js'
import { renderSweepPage } from './sweep-page.js'
import { datasetsOf, detectorsOf, parameterOf, type SweepPoint, sweepPoints } from './sweep-points.js'

const COSTS = {
  time: { label: 'detection, ms per 100 rows', of: (p: SweepPoint) => p.testMillisPer100.mean },
  space: { label: 'space, kB', of: (p: SweepPoint) => p.spaceKilobytes.mean },
} as const

export function renderNuSweep(trials: readonly Trial[]): ReadonlyMap<string, string> {
  const points = sweepPoints(trials)
  const page = renderSweepPage('nu', trials, points, {
    title: 'OCSVM over nu beside OC-KJL and OC-Nystrom',
    about: `The paper's OCSVM has nu = 0.5: at least half of the training rows are support vectors, and detection time and space are
in proportion to them. nu bounds their share from below, so a smaller one makes OCSVM cheaper. The question is what is
left of the savings then, and what it does to the AUC. Times are those of the median pass of each trial. Untuned: bandwidth at the 0.3-quantile of pair distances, no
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
      : [
          nameOf(found),
          ratio(found, 'testMillisPer100', svms, least),
          ratio(found, 'spaceKilobytes', svms, least),
        ]
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
    const front = paretoFront(points, COSTS[cost].of, (p) => p.auc.mean)
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
  cost: 'testMillisPer100' | 'spaceKilobytes',
  svms: readonly SweepPoint[],
  least: number,
): string {
  const costs = svms.filter(({ auc }) => auc.mean >= least).map((svm) => svm[cost].mean)
  return `${fixed(Math.min(...costs) / point[cost].mean, 1)} ×`
}

function nameOf(point: SweepPoint): string {
  if (point.detector === 'ocsvm') return `ocsvm, nu ${parameterOf(point, 'nu')}`
  return `${point.detector}, m ${parameterOf(point, 'm')}, d ${parameterOf(point, 'd')}, k ${parameterOf(point, 'k')}`
}

function chart(points: readonly SweepPoint[], cost: 'time' | 'space'): string {
  const { label, of } = COSTS[cost]
  const detectors = detectorsOf(points)
  const datasets = datasetsOf(points)
  const rows = points.map((p) => ({
    dataset: p.dataset,
    detector: p.detector,
    cost: of(p),
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
  return renderFigure({
    title: `AUC against ${cost === 'time' ? 'detection time' : 'space'}: OCSVM over nu, OC-KJL and OC-Nystrom over m, d, k`,
    description: `For each data set the points that nothing beats: ${front.map((f) => `${f.dataset} ${f.detector} AUC ${fixed(f.auc, 3)} at ${fixed(f.cost, 3)}`).join('; ')}. Axis: ${label}, logarithmic.`,
    width: 860,
    height: 420,
    legend: detectors.map((name, i) => [name, colours[i] ?? 'black'] as const),
    plot: {
      marginLeft: 50,
      marginBottom: 44,
      x: {
        type: 'log',
        label,
        grid: true,
        tickFormat: (value: number) => String(Number(value.toPrecision(2))),
      },
      y: { label: 'AUC', grid: true },
      fx: { label: null, domain: datasets },
      color: { type: 'ordinal', domain: detectors, range: colours },
      marks: [
        Plot.line(front, {
          x: 'cost',
          y: 'auc',
          fx: 'dataset',
          z: null,
          stroke: '#94a3b8',
          curve: 'step-after',
        }),
        Plot.line(svms, {
          x: 'cost',
          y: 'auc',
          fx: 'dataset',
          z: null,
          stroke: 'detector',
          strokeOpacity: 0.4,
        }),
        Plot.dot(rows, { x: 'cost', y: 'auc', fx: 'dataset', fill: 'detector', r: 3 }),
        Plot.dot(front, { x: 'cost', y: 'auc', fx: 'dataset', stroke: 'black', r: 5 }),
        // above and below in turn: the smallest nu stand close together
        ...([0, 1] as const).map((odd) =>
          Plot.text(
            svms.filter((_, i) => i % 2 === odd),
            { x: 'cost', y: 'auc', fx: 'dataset', text: 'nu', dy: odd === 0 ? -9 : 12, fontSize: 9 },
          ),
        ),
      ],
    },
  })
}
