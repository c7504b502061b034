/** AUC, detection time and space of every detector against the number n of training rows. */
import * as Plot from '@observablehq/plot'
import type { Trial } from '@oddflow/evaluation'
import { fixed, formatSpread } from './figures.js'
import { markdownTable } from './markdown.js'
import { PALETTE, renderFigure } from './svg-figure.js'
import { renderSweepPage } from './sweep-page.js'
import { datasetsOf, detectorsOf, type SweepPoint, sweepPoints } from './sweep-points.js'

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
    ...measures.map((measure) => [`sweep-rows-${measure}.svg`, chart(points, measure)] as const),
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

function chart(points: readonly SweepPoint[], measure: Measure): string {
  const { label, of, log } = MEASURES[measure]
  const detectors = detectorsOf(points)
  const datasets = datasetsOf(points)
  const colours = detectors.map((_, i) => PALETTE[i % PALETTE.length] ?? 'black')
  const rows = points.map((p) => ({
    dataset: p.dataset,
    detector: p.detector,
    n: p.trainRows,
    value: of(p).mean,
  }))
  return renderFigure({
    title: `${label} against the number of training rows`,
    description: rows.map((r) => `${r.dataset} ${r.detector} n ${r.n}: ${fixed(r.value, 3)}`).join('; '),
    width: 1000,
    height: 420,
    legend: detectors.map((name, i) => [name, colours[i] ?? 'black'] as const),
    plot: {
      marginLeft: 60,
      marginBottom: 44,
      x: { label: 'training rows', grid: true },
      y: log
        ? { type: 'log', label, grid: true, tickFormat: (v: number) => String(Number(v.toPrecision(2))) }
        : { label, grid: true },
      fx: { label: null, domain: datasets },
      color: { type: 'ordinal', domain: detectors, range: colours },
      marks: [
        Plot.line(rows, { x: 'n', y: 'value', fx: 'dataset', stroke: 'detector', strokeWidth: 1.5 }),
        Plot.dot(rows, { x: 'n', y: 'value', fx: 'dataset', fill: 'detector', r: 2.5 }),
      ],
    },
  })
}
