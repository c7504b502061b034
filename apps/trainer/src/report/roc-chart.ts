/**
 * The receiver operating characteristic: share of novel flows found against share of normal flows flagged in
 * error, over all thresholds; novel is the positive class.
 *
 * Drawn as the step line it is, after points that no eye could tell apart have been dropped (a curve over 10,000
 * flows has as many corners). The model's own threshold is a diamond; the rates at fixed false-positive rates
 * are small circles. Points that are not finite or lie outside the unit square are left out.
 */

import * as Plot from '@observablehq/plot'
import { formatPercent, formatRatio } from './format.js'
import type { ReportRoc } from './report-data.js'
import type { ChartFrame } from './svg.js'

type Point = readonly [fpr: number, tpr: number]

const ROC_HEIGHT = 360

export function rocFrame(roc: ReportRoc, id: string, title = 'ROC curve'): ChartFrame {
  const marks = roc.tprAtFpr.map(
    ({ fpr, tpr }) => `${formatPercent(tpr)} of novel flows found at ${formatPercent(fpr)} false positives`,
  )
  const threshold = `the model's threshold finds ${formatPercent(roc.threshold.tpr)} at ${formatPercent(roc.threshold.fpr)} false positives`
  return {
    id,
    title,
    description: `True-positive rate against false-positive rate. Area under the curve ${formatRatio(roc.auc)}; ${[...marks, threshold].join('; ')}.`,
    height: ROC_HEIGHT,
  }
}

export function rocPlot(roc: ReportRoc): Plot.PlotOptions {
  const curve = curvePoints(roc)
  const fixed = roc.tprAtFpr.map(({ fpr, tpr }): Point => [fpr, tpr]).filter(inUnitSquare)
  const own = [[roc.threshold.fpr, roc.threshold.tpr] as const].filter(inUnitSquare)
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
  const percent = (rate: number): string => `${Math.round(rate * 100)} %`
  return {
    marginLeft: 56,
    marginRight: 24,
    marginTop: 28,
    marginBottom: 48,
    x: { domain: [0, 1], label: null },
    y: { domain: [0, 1], label: null },
    marks: [
      Plot.gridX(ticks, { className: 'grid' }),
      Plot.gridY(ticks, { className: 'grid' }),
      Plot.axisX(ticks, { tickFormat: percent, tickSize: 0, label: null }),
      Plot.axisY(ticks, { tickFormat: percent, tickSize: 0, label: null }),
      Plot.text(['normal flows flagged in error →'], {
        frameAnchor: 'bottom',
        dy: 42,
        className: 'axis-name',
      }),
      Plot.text(['↑ novel flows found'], {
        frameAnchor: 'top-left',
        dx: -50,
        dy: -22,
        textAnchor: 'start',
        className: 'axis-name',
      }),
      Plot.areaY(curve, { x: '0', y1: 0, y2: '1', className: 'roc-area' }),
      Plot.line(
        [
          [0, 0],
          [1, 1],
        ],
        { className: 'chance' },
      ),
      Plot.line(curve, { x: '0', y: '1', className: 'roc-line' }),
      Plot.dot(fixed, { r: 4, className: 'roc-fixed' }),
      Plot.dot(own, { r: 7, symbol: 'diamond', className: 'roc-own' }),
    ],
  }
}

/** The curve from (0, 0) to (1, 1), thinned to steps of a quarter of a pixel. */
export function curvePoints(roc: ReportRoc): Point[] {
  const grid = 1600
  const points: Point[] = [[0, 0]]
  let x = 0
  let y = 0
  const push = (fpr: number, tpr: number): void => {
    const column = Math.round(fpr * grid)
    const row = Math.round(tpr * grid)
    if (column === x && row === y) return
    x = column
    y = row
    const last = points[points.length - 1]!
    const before = points[points.length - 2]
    // A third point on the same horizontal or vertical run replaces the second.
    const along =
      before !== undefined &&
      ((before[0] === last[0] && last[0] === column / grid) ||
        (before[1] === last[1] && last[1] === row / grid))
    if (along) points.pop()
    points.push([column / grid, row / grid])
  }
  const length = Math.min(roc.fpr.length, roc.tpr.length)
  for (let i = 0; i < length; i++) {
    const point: Point = [roc.fpr[i]!, roc.tpr[i]!]
    if (inUnitSquare(point)) push(point[0], point[1])
  }
  push(1, 1)
  return points
}

function inUnitSquare([fpr, tpr]: Point): boolean {
  return fpr >= 0 && fpr <= 1 && tpr >= 0 && tpr <= 1
}
