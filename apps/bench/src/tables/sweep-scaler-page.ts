/** AUC over scaler × bandwidth quantile × detector, untuned: a table a data set, and a picture of all cells. */
import * as Plot from '@observablehq/plot'
import { SCALER_NAMES } from '@oddflow/core'
import type { Trial } from '@oddflow/evaluation'
import { fixed } from './figures.js'
import { markdownTable } from './markdown.js'
import { renderFigure } from './svg-figure.js'
import { renderSweepPage } from './sweep-page.js'
import { datasetsOf, detectorsOf, parameterOf, type SweepPoint, sweepPoints } from './sweep-points.js'

export function renderScalerSweep(trials: readonly Trial[]): ReadonlyMap<string, string> {
  const points = sweepPoints(trials)
  const page = renderSweepPage('scaler', trials, points, {
    title: 'AUC over scalers, bandwidths and detectors, untuned',
    about: `No support guard, OCSVM with nu = 0.5, k = 10 where a detector takes it. q is the quantile of pair distances that the
bandwidth is at; detectors without a bandwidth have one line. Mean over training repeats, AUC over all test rows; the
largest of each line stands out.`,
    pictures: ['![AUC by scaler, quantile and detector](sweep-scaler.svg)'],
    sections: (dataset, own) => [table(dataset, own)],
  })
  return new Map([
    ['sweep-scaler.md', page],
    ['sweep-scaler.svg', chart(points)],
  ])
}

const lineOf = (point: SweepPoint): string => {
  const q = parameterOf(point, 'bandwidthQuantile')
  return q === null ? point.detector : `${point.detector}, q ${q}`
}

function table(dataset: string, points: readonly SweepPoint[]): string {
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

function chart(points: readonly SweepPoint[]): string {
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
