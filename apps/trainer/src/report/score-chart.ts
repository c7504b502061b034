/**
 * Histograms of scores on one axis, normal flows above the line and novel ones below, as shares of each group. The
 * threshold is an edge between two bins; bins are closed to the right, so bars left of it hold flagged flows only.
 */

import * as Plot from '@observablehq/plot'
import {
  axisNames,
  CHART_BOX,
  CHART_WIDTH,
  type ChartFrame,
  FURTHEST,
  quantileSorted,
  sortedFinite,
  within,
} from './charts.js'
import { formatCount, formatNumber, formatPercent, formatQuantity } from './format.js'
import type { ReportScores } from './report-data.js'

/**
 * The axis: score minus threshold, even (`linear`) if all scores are of one order, otherwise symmetric-logarithmic, u
 * = sign(d) · log10(1 + |d| / unit). The unit is the power of ten at or below the normal scores' inter-quartile range.
 */

interface ScoreScale {
  kind: 'linear' | 'symlog'
  /** The size of a step that the even part of the axis resolves. */
  unit: number
  /** Limits on the drawn axis, in u. */
  low: number
  high: number
  /** Values beyond the limits, drawn in the outermost bins. */
  clippedLow: number
  clippedHigh: number
  /** Values that were not finite and are not drawn. */
  dropped: number
}

/** Decades of the symlog axis on either side of the threshold. */
const maxDecades = 6
/** Beyond this ratio of range to spread an even axis would crush what matters. */
const linearRatio = 25

/** Distance from the threshold → position on the drawn axis. */
export function scalePosition(scale: Pick<ScoreScale, 'kind' | 'unit'>, distance: number): number {
  if (scale.kind === 'linear') return distance
  const size = Math.log10(1 + Math.abs(distance) / scale.unit)
  return distance < 0 ? -size : size
}

/** Score minus threshold, kept within what an axis can hold; NaN where either is not finite. */
function scoreDistance(score: number, threshold: number): number {
  return Number.isFinite(score) ? within(score - (Number.isFinite(threshold) ? threshold : 0)) : Number.NaN
}

/** Chooses the axis for both groups; null when no score is finite. */
export function chooseScale(
  normal: ArrayLike<number> & Iterable<number>,
  novel: ArrayLike<number> & Iterable<number>,
  threshold: number,
): ScoreScale | null {
  const normalSorted = sortedFinite(Array.from(normal, (score) => scoreDistance(score, threshold)))
  const all = sortedFinite([
    ...normalSorted,
    ...Array.from(novel, (score) => scoreDistance(score, threshold)),
  ])
  if (all.length === 0) return null
  const dropped = normal.length + novel.length - all.length

  const core = normalSorted.length > 0 ? normalSorted : all
  const spread = positive(
    quantileSorted(core, 0.75) - quantileSorted(core, 0.25),
    quantileSorted(all, 0.75) - quantileSorted(all, 0.25),
    Math.abs(quantileSorted(all, 0.5)),
  )
  const unit = 10 ** Math.floor(Math.log10(spread))
  const reach = Math.max(all[all.length - 1]!, 0) - Math.min(all[0]!, 0)
  const kind = reach > linearRatio * spread ? 'symlog' : 'linear'

  const axis = { kind, unit } as const
  const limit = kind === 'symlog' ? maxDecades : Number.POSITIVE_INFINITY
  // The threshold is always in view, with a little air beyond it.
  let low = Math.min(scalePosition(axis, all[0]!), 0)
  let high = Math.max(scalePosition(axis, all[all.length - 1]!), 0)
  const air = Math.max((high - low) * 0.04, kind === 'symlog' ? 0.15 : unit / 10)
  low = Math.max(low - air, -limit)
  high = Math.min(high + air, limit)
  let clippedLow = 0
  let clippedHigh = 0
  for (const distance of all) {
    const u = scalePosition(axis, distance)
    if (u < low) clippedLow++
    if (u > high) clippedHigh++
  }
  return { kind, unit, low, high, clippedLow, clippedHigh, dropped }
}

/** Tick distances from the threshold that read well, with zero; at most nine. */
export function scaleTicks(scale: ScoreScale): number[] {
  if (scale.kind === 'linear') return linearTicks(scale.low, scale.high)
  const ticks = [0]
  for (const side of [-1, 1] as const) {
    const reach = side < 0 ? -scale.low : scale.high
    const decades = Math.floor(reach)
    const step = decades > 4 ? 2 : 1
    for (let decade = 0; decade <= decades; decade += step) {
      const distance = side * scale.unit * 10 ** decade
      // Ticks nearer to the threshold than half a decade would run into its own label.
      if (Math.abs(scalePosition(scale, distance)) <= reach && decade > 0) ticks.push(distance)
    }
  }
  return ticks.sort((a, b) => a - b)
}

function linearTicks(low: number, high: number): number[] {
  const rough = (high - low) / 6
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) ?? rough
  const ticks: number[] = []
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(k === 0 ? 0 : k * step)
  return ticks
}

/** The first that is large enough to divide by; 1 when all are next to nothing. */
function positive(...candidates: readonly number[]): number {
  return candidates.find((value) => value > 1 / FURTHEST) ?? 1
}

interface ScoreBins {
  scale: ScoreScale
  /** Width of a bin on the drawn axis, and the index of the first: bin i spans ((first + i)·width, …+width]. */
  width: number
  first: number
  normal: Float64Array
  novel: Float64Array
}

const SCORE_HEIGHT = 360
const targetBins = 48

/** Counts both groups into shares per bin; null when there is no finite score. */
export function binScores(scores: ReportScores): ScoreBins | null {
  const { normal, novel, threshold } = scores
  const scale = chooseScale(normal, novel, threshold)
  if (scale === null) return null
  const width = (scale.high - scale.low) / targetBins
  const first = Math.floor(scale.low / width)
  const count = Math.ceil(scale.high / width) - first
  const share = (values: ArrayLike<number>): Float64Array => {
    const bins = new Float64Array(count)
    let finite = 0
    for (let i = 0; i < values.length; i++) {
      const distance = scoreDistance(values[i]!, threshold)
      if (!Number.isFinite(distance)) continue
      finite++
      const bin = Math.ceil(scalePosition(scale, distance) / width) - 1 - first
      // The side is decided by the distance itself: its logarithm may round to nothing.
      const [least, most] = distance > 0 ? [-first, count - 1] : [0, -first - 1]
      bins[Math.max(least, Math.min(most, bin))]!++
    }
    return finite === 0 ? bins : bins.map((n) => n / finite)
  }
  return { scale, width, first, normal: share(normal), novel: share(novel) }
}

export function scoreFrame(scores: ReportScores, id: string): ChartFrame {
  const part = (values: readonly number[] | Float64Array, group: string): string =>
    `${formatCount(Array.from(values).filter((score) => score <= scores.threshold).length)} of ${formatQuantity(values.length, `${group} flow`)} at or below the threshold`
  return {
    id,
    title: 'Distribution of scores',
    description: `Histogram of score minus threshold: ${part(scores.normal, 'normal')}; ${part(scores.novel, 'novel')}. Threshold ${formatNumber(scores.threshold)}.`,
    height: SCORE_HEIGHT,
  }
}

export function scorePlot(bins: ScoreBins): Plot.PlotOptions {
  const { scale, width, first } = bins
  const low = first * width
  const high = (first + bins.normal.length) * width
  const ticks = scaleTicks(scale)
  const up = drawSide(bins.normal, 1, bins)
  const down = drawSide(bins.novel, -1, bins)
  const shares = [...up.ticks, ...down.ticks, { at: 0, share: 0 }]
  const box = { x1: 'x1', x2: 'x2', y1: 'y1', y2: 'y2', inset: 0.3 } as const
  const corner = { dx: 4, textAnchor: 'start' } as const
  return {
    ...CHART_BOX,
    x: { domain: [low, high], label: null },
    // room above and below the bars for the names of the groups
    y: { domain: [-1.2, 1.2], label: null },
    marks: [
      Plot.gridY(
        shares.map(({ at }) => at),
        { className: 'grid' },
      ),
      Plot.axisY(
        shares.map(({ at }) => at),
        {
          tickFormat: (_: number, i: number) => formatPercent(shares[i]?.share ?? 0),
          tickSize: 0,
          label: null,
        },
      ),
      Plot.axisX(
        ticks.map((distance) => scalePosition(scale, distance)),
        { tickFormat: (_: number, i: number) => tickLabel(ticks[i] ?? 0), tickSize: 4, label: null },
      ),
      ...axisNames('← flagged as new · score minus threshold · normal →', 'share of group', -18),
      Plot.rect(up.bars, { ...box, className: 'bar-normal' }),
      Plot.rect(down.bars, { ...box, className: 'bar-novel' }),
      Plot.ruleY([0], { className: 'base' }),
      Plot.ruleX([0], { className: 'threshold' }),
      Plot.text(['threshold'], {
        x: [0],
        frameAnchor: 'top',
        dy: -18,
        textAnchor: anchorAt((0 - low) / (high - low)),
        className: 'threshold-name',
      }),
      Plot.text(['normal flows ↑'], { ...corner, frameAnchor: 'top-left', dy: 2, className: 'name-normal' }),
      Plot.text(['novel flows ↓'], {
        ...corner,
        frameAnchor: 'bottom-left',
        dy: -4,
        className: 'name-novel',
      }),
    ],
  }
}

interface Side {
  bars: { x1: number; x2: number; y1: number; y2: number }[]
  ticks: { at: number; share: number }[]
}

/** The bars of one group, the tallest reaching to ±1, and one or two ticks for their shares. */
function drawSide(shares: Float64Array, side: 1 | -1, { first, width }: ScoreBins): Side {
  const tallest = shares.reduce((most, share) => Math.max(most, share), 0)
  const bars: Side['bars'] = []
  for (const [i, share] of shares.entries()) {
    if (share === 0) continue
    bars.push({ x1: (first + i) * width, x2: (first + i + 1) * width, y1: 0, y2: (side * share) / tallest })
  }
  return { bars, ticks: shareTicks(tallest).map((share) => ({ at: (side * share) / tallest, share })) }
}

/** What the axis does to the values, in plain words. */
export function scoreCaption(scale: ScoreScale): string {
  const unit = formatNumber(scale.unit)
  const parts = ['Each group has its own height scale.']
  if (scale.kind === 'symlog')
    parts.push(
      `Scores spread over several orders of magnitude, so the axis is even within ±${unit} of the threshold and each step beyond is ten times the one before.`,
    )
  const clipped = scale.clippedLow + scale.clippedHigh
  if (clipped > 0)
    parts.push(
      `${formatQuantity(clipped, 'score')} further off than the axis reaches ${clipped === 1 ? 'is' : 'are'} counted in the outermost bar (${formatCount(scale.clippedLow)} left, ${formatCount(scale.clippedHigh)} right).`,
    )
  if (scale.dropped > 0)
    parts.push(
      `${formatQuantity(scale.dropped, 'score')} not a finite number ${scale.dropped === 1 ? 'is' : 'are'} left out.`,
    )
  return parts.join(' ')
}

/** Near an edge the word turns inwards. */
function anchorAt(fraction: number): 'start' | 'middle' | 'end' {
  const px = fraction * (CHART_WIDTH - 76)
  return px < 40 ? 'start' : px > CHART_WIDTH - 116 ? 'end' : 'middle'
}

function tickLabel(distance: number): string {
  return distance > 0 ? `+${formatNumber(distance)}` : formatNumber(distance)
}

/** Even shares up to the tallest bar, zero left out: two or so. */
function shareTicks(tallest: number): number[] {
  if (tallest === 0) return []
  const power = 10 ** Math.floor(Math.log10(tallest / 2))
  const step = [10, 5, 2, 1].map((f) => f * power).find((s) => s <= tallest / 2) ?? tallest
  const ticks: number[] = []
  for (let k = 1; k * step <= tallest; k++) ticks.push(k * step)
  return ticks
}
