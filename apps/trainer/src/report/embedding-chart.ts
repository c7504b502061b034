/**
 * The first two dimensions of the embedding, with the mixture's components as ellipses of one and two standard
 * deviations.
 *
 * An ellipse is the set mean + r·(a cos t + b sin t), where a and b are the columns of the Cholesky factor of the
 * 2 × 2 covariance: no eigenvectors are needed, and a covariance that is not positive definite is seen at once
 * (the component is then left out and counted). The limits follow the bulk of the points and the ellipses;
 * points beyond them are drawn on the frame, hollow, so that they are neither lost nor allowed to shrink the rest.
 * Normal flows are dots, novel flows are crosses. At most 2,000 points are drawn, evenly chosen in each group.
 */

import * as Plot from '@observablehq/plot'
import { formatCount, formatQuantity } from './format.js'
import type { FlowLabel, ReportEllipse, ReportEmbedding } from './report-data.js'
import { quantileSorted, sortedFinite, thin, within } from './robust.js'
import type { ChartFrame } from './svg.js'

const EMBEDDING_HEIGHT = 400
export const POINT_LIMIT = 2000
const segments = 48

interface DrawnPoint {
  x: number
  y: number
  group: FlowLabel
  outside: boolean
}

export interface EmbeddingDrawing {
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
    marginLeft: 56,
    marginRight: 24,
    marginTop: 28,
    marginBottom: 48,
    x: { domain: drawing.x, label: null },
    y: { domain: drawing.y, label: null },
    marks: [
      Plot.frame({ className: 'frame' }),
      Plot.axisX({ ticks: 5, tickSize: 4, label: null }),
      Plot.axisY({ ticks: 5, tickSize: 4, label: null }),
      Plot.text(['dimension 1 →'], { frameAnchor: 'bottom', dy: 42, className: 'axis-name' }),
      Plot.text(['↑ dimension 2'], {
        frameAnchor: 'top-left',
        dx: -50,
        dy: -22,
        textAnchor: 'start',
        className: 'axis-name',
      }),
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
