import * as Plot from '@observablehq/plot'
import { parseHTML } from 'linkedom'
import {
  formatCount,
  formatPercent,
  formatQuantity,
  formatRatio,
  html,
  type Markup,
  trusted,
} from './format.js'
import type { FlowLabel, ReportEllipse, ReportEmbedding, ReportRoc } from './report-data.js'

/**
 * Observable Plot without a browser: marks in, the inside of an <svg> out. The <svg> around Plot's marks is ours, with
 * a title and description for screen readers, no <style>, and clip ids that do not depend on earlier charts.
 */

/** All charts are drawn on this width and scaled by CSS; text sizes follow the screen (format.ts). */
export const CHART_WIDTH = 400

export interface ChartFrame {
  /** Unique in the page; letters, digits and hyphens. */
  id: string
  title: string
  /** What the chart shows, in words, for those who do not see it. */
  description: string
  height: number
}

/** Draws a plot and wraps it in an accessible <svg>. Inside a page it inherits the page's colours. */
export function chartSvg(frame: ChartFrame, options: Plot.PlotOptions): Markup {
  return html`<svg class="chart" ${headOf(frame)}${plotMarks(frame, options)}</svg>`
}

/** A standalone file: with namespace, size and a style for light and dark. */
export function standaloneSvg(frame: ChartFrame, options: Plot.PlotOptions, style: string): string {
  const size = 1.6
  const svg = html`<svg xmlns="http://www.w3.org/2000/svg" class="chart standalone" width="${CHART_WIDTH * size}" height="${frame.height * size}" ${headOf(frame)}<style>${trusted(style)}</style><rect class="paper" width="100%" height="100%"/>${plotMarks(frame, options)}</svg>`
  return `<?xml version="1.0" encoding="UTF-8"?>\n${svg.text}\n`
}

function headOf({ id, title, description, height }: ChartFrame): Markup {
  return html`viewBox="0 0 ${CHART_WIDTH} ${height}" role="img" aria-labelledby="${id}-title ${id}-desc"><title id="${id}-title">${title}</title><desc id="${id}-desc">${description}</desc>`
}

/** The box of a chart with room for the names of its axes. */
export const CHART_BOX = { marginLeft: 56, marginRight: 24, marginTop: 28, marginBottom: 48 } as const

/** The names of both axes. */
export function axisNames(x: string, y: string, dx = 0): Plot.Markish[] {
  const below = dx === 0 ? {} : { dx }
  return [
    Plot.text([x], { frameAnchor: 'bottom', ...below, dy: 42, className: 'axis-name' }),
    Plot.text([y], {
      frameAnchor: 'top-left',
      dx: -50,
      dy: -22,
      textAnchor: 'start',
      className: 'axis-name',
    }),
  ]
}

function plotMarks(frame: ChartFrame, options: Plot.PlotOptions): Markup {
  const { document } = parseHTML('<!doctype html><html><body></body></html>')
  const drawn = Plot.plot({
    ...options,
    document,
    className: 'plot',
    width: CHART_WIDTH,
    height: frame.height,
  })
  drawn.querySelector('style')?.remove()
  return html`<g class="marks">${trusted(compact(drawn.innerHTML, frame.id))}</g>`
}

function compact(markup: string, id: string): string {
  const seen = new Map<string, string>()
  return (
    markup
      .replace(/plot-clip-\d+/g, (found) => {
        const known = seen.get(found) ?? `${id}-clip-${seen.size + 1}`
        seen.set(found, known)
        return known
      })
      .replace(/-?\d+\.\d{3,}(?:e-?\d+)?/g, (digits) => String(Number(Number(digits).toFixed(2))))
      // a screen reader gets title, description and caption; labels of single marks would be noise
      .replace(/ aria-(?:label|hidden)="[^"]*"/g, '')
  )
}

/**
 * The receiver operating characteristic; novel is the positive class. A diamond marks the model's threshold, circles the
 * rates at fixed false-positive rates. Points outside the unit square are left out.
 */

type Point = readonly [fpr: number, tpr: number]

const ROC_HEIGHT = 360

export function rocFrame(roc: ReportRoc, id: string): ChartFrame {
  const marks = roc.tprAtFpr.map(
    ({ fpr, tpr }) => `${formatPercent(tpr)} of novel flows found at ${formatPercent(fpr)} false positives`,
  )
  const threshold = `the model's threshold finds ${formatPercent(roc.threshold.tpr)} at ${formatPercent(roc.threshold.fpr)} false positives`
  return {
    id,
    title: 'ROC curve',
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
    ...CHART_BOX,
    x: { domain: [0, 1], label: null },
    y: { domain: [0, 1], label: null },
    marks: [
      Plot.gridX(ticks, { className: 'grid' }),
      Plot.gridY(ticks, { className: 'grid' }),
      Plot.axisX(ticks, { tickFormat: percent, tickSize: 0, label: null }),
      Plot.axisY(ticks, { tickFormat: percent, tickSize: 0, label: null }),
      ...axisNames('normal flows flagged in error →', '↑ novel flows found'),
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

// Quantiles decide what a chart shows, since novel scores may be 10,000 times further off than normal ones. What lies
// beyond is counted and stated.

/** The end of every axis: sums and differences of larger numbers would overflow. */
export const FURTHEST = 1e100

/** A number brought within ± FURTHEST; what is not a number stays so. */
export function within(value: number): number {
  return Math.max(-FURTHEST, Math.min(FURTHEST, value))
}

/** The finite values, sorted, as a copy. */
export function sortedFinite(values: Iterable<number>): Float64Array {
  const finite: number[] = []
  for (const value of values) if (Number.isFinite(value)) finite.push(value)
  return Float64Array.from(finite).sort()
}

/** Quantile by linear interpolation (type 7) of sorted values; NaN when there are none. */
export function quantileSorted(sorted: Float64Array, q: number): number {
  if (sorted.length === 0) return Number.NaN
  const position = q * (sorted.length - 1)
  const below = Math.floor(position)
  const low = sorted[below]!
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!
  // Weighted rather than low + f·(high − low): the difference of two huge values may overflow.
  const f = position - below
  return f === 0 ? low : low * (1 - f) + high * f
}

/** At most `limit` elements, spread evenly over the list. */
function thin<T>(items: readonly T[], limit: number): readonly T[] {
  if (items.length <= limit) return items
  const kept: T[] = []
  for (let i = 0; i < limit; i++) kept.push(items[Math.floor((i * items.length) / limit)]!)
  return kept
}

/**
 * The first two dimensions of the embedding. An ellipse is mean + r·(a cos t + b sin t), with the columns a, b of the
 * covariance's Cholesky factor and r = 1, 2; components without a factor are counted. Points beyond the bulk are drawn
 * on the frame.
 */

const EMBEDDING_HEIGHT = 400
export const POINT_LIMIT = 2000
const segments = 48

interface DrawnPoint {
  x: number
  y: number
  group: FlowLabel
  outside: boolean
}

interface EmbeddingDrawing {
  points: DrawnPoint[]
  /** Closed outlines, heaviest component first. */
  outlines: { sigma: 1 | 2; points: [number, number][] }[]
  means: [number, number][]
  x: [number, number]
  y: [number, number]
  totals: {
    points: number
    outside: number
    dropped: number
    ellipsesDropped: number
    ellipsesOutside: number
  }
}

/** Chooses limits and points; null when nothing can be drawn. */
export function drawEmbedding(embedding: ReportEmbedding): EmbeddingDrawing | null {
  const finite = embedding.points.filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y))
  const outlines = embedding.ellipses
    .slice()
    .sort((a, b) => b.weight - a.weight)
    .flatMap((ellipse) => {
      const factor = choleskyFactor(ellipse)
      return factor === null ? [] : [{ ellipse, factor }]
    })
  if (finite.length === 0 && outlines.length === 0) return null

  const x = limits(finite, outlines, 0)
  const y = limits(finite, outlines, 1)
  const isOutside = (px: number, py: number): boolean => px < x[0] || px > x[1] || py < y[0] || py > y[1]
  const outside = finite.filter((p) => isOutside(p.x, p.y)).length

  const groups = (['normal', 'novel'] as const).map((group) => finite.filter((p) => p.group === group))
  const points = groups
    .flatMap((group) =>
      thin(group, Math.ceil((POINT_LIMIT * group.length) / Math.max(finite.length, POINT_LIMIT))),
    )
    .slice(0, POINT_LIMIT)
    .map((p) => ({
      x: Math.min(Math.max(p.x, x[0]), x[1]),
      y: Math.min(Math.max(p.y, y[0]), y[1]),
      group: p.group,
      outside: isOutside(p.x, p.y),
    }))
  return {
    points,
    outlines: outlines.flatMap(({ ellipse, factor }) =>
      ([1, 2] as const).map((sigma) => ({ sigma, points: outline(ellipse, factor, sigma) })),
    ),
    means: outlines
      .map(({ ellipse }) => [ellipse.mean[0], ellipse.mean[1]] as [number, number])
      .filter(([mx, my]) => !isOutside(mx, my)),
    x,
    y,
    totals: {
      points: finite.length,
      outside,
      dropped: embedding.points.length - finite.length,
      ellipsesDropped: embedding.ellipses.length - outlines.length,
      ellipsesOutside: outlines.filter(({ ellipse }) => isOutside(ellipse.mean[0], ellipse.mean[1])).length,
    },
  }
}

export function embeddingFrame(
  embedding: ReportEmbedding,
  drawing: EmbeddingDrawing,
  id: string,
): ChartFrame {
  const { totals } = drawing
  return {
    id,
    title: 'Embedding and mixture',
    description: `Dimensions 1 and 2 of ${formatCount(embedding.dimensions)}: ${formatQuantity(totals.points, 'flow')} and ${formatQuantity(embedding.ellipses.length, 'mixture component')} drawn as ellipses.`,
    height: EMBEDDING_HEIGHT,
  }
}

export function embeddingPlot(drawing: EmbeddingDrawing): Plot.PlotOptions {
  const dots = (group: FlowLabel, outside: boolean): DrawnPoint[] =>
    drawing.points.filter((p) => p.group === group && p.outside === outside)
  const rings = drawing.outlines.flatMap((ring, z) =>
    ring.points.map(([x, y]) => ({ x, y, z, sigma: ring.sigma })),
  )
  const at = { x: 'x', y: 'y' } as const
  return {
    ...CHART_BOX,
    x: { domain: drawing.x, label: null },
    y: { domain: drawing.y, label: null },
    marks: [
      Plot.frame({ className: 'frame' }),
      Plot.axisX({ ticks: 5, tickSize: 4, label: null }),
      Plot.axisY({ ticks: 5, tickSize: 4, label: null }),
      ...axisNames('dimension 1 →', '↑ dimension 2'),
      Plot.dot(dots('normal', false), { ...at, r: 2.2, className: 'dot-normal' }),
      Plot.dot(dots('normal', true), { ...at, r: 3, className: 'dot-normal outside' }),
      Plot.line(
        rings.filter((p) => p.sigma === 2),
        { ...at, z: 'z', clip: true, className: 'ellipse-2' },
      ),
      Plot.line(
        rings.filter((p) => p.sigma === 1),
        { ...at, z: 'z', clip: true, className: 'ellipse-1' },
      ),
      Plot.dot(drawing.means, { r: 3, symbol: 'square', className: 'ellipse-mean' }),
      Plot.dot(dots('novel', false), { ...at, r: 3.2, symbol: 'times', className: 'dot-novel' }),
      Plot.dot(dots('novel', true), { ...at, r: 4, symbol: 'times', className: 'dot-novel outside' }),
    ],
  }
}

/** What was left out or moved, in plain words. */
export function embeddingCaption(drawing: EmbeddingDrawing): string {
  const { points, outside, dropped, ellipsesDropped, ellipsesOutside } = drawing.totals
  const parts: string[] = []
  if (points > drawing.points.length)
    parts.push(
      `${formatCount(drawing.points.length)} of ${formatCount(points)} flows are drawn, evenly chosen.`,
    )
  if (outside > 0)
    parts.push(
      `${formatQuantity(outside, 'flow')} ${outside === 1 ? 'lies' : 'lie'} outside the frame and ${outside === 1 ? 'stands' : 'stand'} on its edge, drawn larger and lighter.`,
    )
  if (dropped > 0)
    parts.push(
      `${formatQuantity(dropped, 'flow')} without finite coordinates ${dropped === 1 ? 'is' : 'are'} left out.`,
    )
  if (ellipsesOutside > 0)
    parts.push(`${formatQuantity(ellipsesOutside, 'component')} centred outside the frame.`)
  if (ellipsesDropped > 0)
    parts.push(
      `${formatQuantity(ellipsesDropped, 'component')} without a positive definite covariance left out.`,
    )
  return parts.join(' ')
}

type Factor = readonly [xx: number, yx: number, yy: number]

function choleskyFactor({ mean, covariance: [xx, xy, yy] }: ReportEllipse): Factor | null {
  const l11 = Math.sqrt(xx)
  const l21 = xy / l11
  const l22 = Math.sqrt(yy - l21 * l21)
  const good = l11 > 0 && l22 > 0 && [l11, l21, l22, mean[0], mean[1]].every(Number.isFinite)
  return good ? [l11, l21, l22] : null
}

function outline({ mean }: ReportEllipse, [l11, l21, l22]: Factor, sigma: number): [number, number][] {
  return Array.from({ length: segments + 1 }, (_, i) => {
    const t = (2 * Math.PI * (i % segments)) / segments
    const c = sigma * Math.cos(t)
    const s = sigma * Math.sin(t)
    return [mean[0] + l11 * c, mean[1] + l21 * c + l22 * s]
  })
}

/**
 * Limits along one axis: the central 98 % of normal points and every heavy component to two sigma, then room for
 * the central 90 % of novel points as long as that no more than doubles the span on either side.
 */
function limits(
  points: ReportEmbedding['points'],
  outlines: readonly { ellipse: ReportEllipse; factor: Factor }[],
  axis: 0 | 1,
): [number, number] {
  const along = (group: FlowLabel): Float64Array =>
    sortedFinite(points.filter((p) => p.group === group).map((p) => (axis === 0 ? p.x : p.y)))
  const normal = along('normal')
  const novel = along('novel')
  const core = normal.length > 0 ? normal : novel
  let low = quantileSorted(core, 0.01)
  let high = quantileSorted(core, 0.99)
  const span = high - low
  for (const { ellipse, factor } of outlines) {
    const sigma = axis === 0 ? factor[0] : Math.sqrt(factor[1] * factor[1] + factor[2] * factor[2])
    const [from, to] = [ellipse.mean[axis] - 2 * sigma, ellipse.mean[axis] + 2 * sigma]
    // A component much wider than the points themselves is clipped, not followed.
    if (core.length > 0 && to - from > 3 * span && span > 0) continue
    low = Number.isFinite(low) ? Math.min(low, from) : from
    high = Number.isFinite(high) ? Math.max(high, to) : to
  }
  if (normal.length > 0 && novel.length > 0) {
    const room = Math.max(high - low, Number.MIN_VALUE)
    low = Math.max(Math.min(low, quantileSorted(novel, 0.05)), low - room)
    high = Math.min(Math.max(high, quantileSorted(novel, 0.95)), high + room)
  }
  if (!(Number.isFinite(low) && Number.isFinite(high))) return [-1, 1]
  low = within(low)
  high = within(high)
  // A span that the axis could not count through is widened around the value.
  const size = Math.max(Math.abs(low), Math.abs(high))
  const air = high - low > size * 1e-9 && size > 1e-50 ? (high - low) * 0.05 : Math.max(size * 0.1, 1e-6)
  return [low - air, high + air]
}
