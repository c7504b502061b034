/**
 * AUC of every detector as a picture: a panel a data set, a dot with its standard deviation for each detector, and
 * the independent implementation's figure as a ring where there is one. Drawn by Observable Plot into a document of
 * linkedom's; only the marks are kept, and the image around them has a title and a description in words.
 */
import * as Plot from '@observablehq/plot'
import { parseHTML } from 'linkedom'
import { fixed } from './figures.js'
import { escapeHtml } from './html-text.js'
import type { Table } from './table.js'

interface Point {
  readonly detector: string
  readonly dataset: string
  readonly auc: number
  readonly low: number
  readonly high: number
}

const WIDTH = 760
const MARGIN_LEFT = 130

/** `table`: of aucTables. `reference`: of referenceTables, for the rings. */
export function aucChart(table: Table, reference: Table | undefined): string {
  const measured = points(table, 'measured', ', all test rows')
  const known = reference === undefined ? [] : points(reference, 'published', '')
  const detectors = [...new Set(measured.map(({ detector }) => detector))]
  const rings = known.filter(({ detector }) => detectors.includes(detector))
  const height = 80 + table.columns.length * (24 + 20 * detectors.length)
  const { document } = parseHTML('<!doctype html><html><body></body></html>')
  const drawn = Plot.plot({
    document,
    className: 'plot',
    width: WIDTH,
    height,
    marginLeft: MARGIN_LEFT,
    marginRight: 110,
    marginBottom: 44,
    x: { domain: [0, 1], label: 'AUC', grid: true, ticks: 10 },
    y: { label: null, domain: detectors },
    fy: { label: null, domain: table.columns },
    marks: [
      Plot.ruleX([0.5], { className: 'chance' }),
      Plot.ruleY(measured, { y: 'detector', fy: 'dataset', x1: 'low', x2: 'high', className: 'spread' }),
      Plot.dot(measured, { y: 'detector', fy: 'dataset', x: 'auc', r: 4, className: 'measured' }),
      Plot.dot(rings, { y: 'detector', fy: 'dataset', x: 'auc', r: 6.5, className: 'reference' }),
    ],
  })
  drawn.querySelector('style')?.remove()
  const words = measured.map(({ dataset, detector, auc }) => `${dataset}, ${detector}: ${fixed(auc, 3)}`)
  return `<svg class="chart" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="${table.id}-title ${table.id}-desc"><title id="${table.id}-title">${escapeHtml(table.caption)}</title><desc id="${table.id}-desc">${escapeHtml(words.join('; '))}</desc>${compact(drawn.innerHTML, table.id)}</svg>`
}

/** Clip ids of the chart's own, two decimals of a pixel, and no labels of single marks. */
function compact(markup: string, id: string): string {
  return markup
    .replace(/plot-clip-\d+/g, `${id}-clip`)
    .replace(/-?\d+\.\d{3,}(?:e-?\d+)?/g, (digits) => String(Number(Number(digits).toFixed(2))))
    .replace(/ aria-(?:label|hidden|description)="[^"]*"/g, '')
}

function points(table: Table, which: 'measured' | 'published', suffix: string): Point[] {
  return table.rows
    .filter(({ label }) => label.endsWith(suffix))
    .flatMap(({ label, cells }) =>
      cells.flatMap((cell, i): Point[] => {
        const figure = cell[which]
        const dataset = table.columns[i]
        if (figure === null || dataset === undefined) return []
        const sd = figure.sd ?? 0
        return [
          {
            detector: label.slice(0, label.length - suffix.length),
            dataset,
            auc: figure.mean,
            low: Math.max(0, figure.mean - sd),
            high: Math.min(1, figure.mean + sd),
          },
        ]
      }),
    )
}
