/**
 * Two histograms of scores on one axis: normal flows above the line, novel flows hanging below it, so that
 * position tells the groups apart as well as colour does.
 *
 * Heights are shares of each group, since the groups differ in size. The threshold stands at zero and is an edge
 * between two bins: a flow is novel when its score is at or below the threshold, so bins are open to the left
 * and closed to the right, and every bar left of the line holds flagged flows only.
 */

import * as Plot from '@observablehq/plot'
import { formatCount, formatNumber, formatPercent, formatQuantity } from './format.js'
import type { ReportScores } from './report-data.js'
import { chooseScale, type ScoreScale, scalePosition, scaleTicks } from './score-scale.js'
import { CHART_WIDTH, type ChartFrame } from './svg.js'

export interface ScoreBins {
  scale: ScoreScale
  /** Width of a bin on the drawn axis, and the index of the first: bin i spans ((first + i)·width, …+width]. */
  width: number
  first: number
  normal: Float64Array
  novel: Float64Array
}

export const SCORE_HEIGHT = 360
const targetBins = 48

/** Counts both groups into shares per bin; null when there is no finite score. */
export function binScores(scores: ReportScores): ScoreBins | null {
  const { normal, novel, threshold } = scores
  const scale = chooseScale(normal, novel, threshold)
  if (scale === null) return null
  const shift = Number.isFinite(threshold) ? threshold : 0
  const width = (scale.high - scale.low) / targetBins
  const first = Math.floor(scale.low / width)
  const count = Math.ceil(scale.high / width) - first
  const share = (values: ArrayLike<number>): Float64Array => {
    const bins = new Float64Array(count)
    let finite = 0
    for (let i = 0; i < values.length; i++) {
      const distance = values[i]! - shift
      if (!Number.isFinite(distance)) continue
      finite++
      const bin = Math.ceil(scalePosition(scale, distance) / width) - 1 - first
      bins[Math.max(0, Math.min(count - 1, bin))]!++
    }
    return finite === 0 ? bins : bins.map((n) => n / finite)
  }
  return { scale, width, first, normal: share(normal), novel: share(novel) }
}

export function scoreFrame(scores: ReportScores, labelled: boolean, id: string): ChartFrame {
  const flagged = (values: ArrayLike<number>): number => {
    let count = 0
    for (let i = 0; i < values.length; i++) if (values[i]! <= scores.threshold) count++
    return count
  }
  const part = (values: ArrayLike<number>, group: string): string =>
    `${formatCount(flagged(values))} of ${formatQuantity(values.length, `${group} flow`)} at or below the threshold`
  const groups = labelled
    ? [part(scores.normal, 'normal'), part(scores.novel, 'novel')]
    : [part(scores.normal, 'scored')]
  return {
    id,
    title: 'Distribution of scores',
    description: `Histogram of score minus threshold: ${groups.join('; ')}. Threshold ${formatNumber(scores.threshold)}.`,
    height: SCORE_HEIGHT,
  }
}

export function scorePlot(bins: ScoreBins, labelled: boolean): Plot.PlotOptions {
  const { scale, width, first } = bins
  const bars = (shares: Float64Array, side: 1 | -1) =>
    Array.from(shares, (share, i) => ({
      x1: (first + i) * width,
      x2: (first + i + 1) * width,
      y1: 0,
      y2: side * share,
    })).filter((bar) => bar.y2 !== 0)
  const top = Math.max(...bins.normal, 0)
  const bottom = Math.max(...bins.novel, 0)
  const domain: [number, number] = [
    -(bottom * 1.1 || (labelled ? top * 0.25 : 0)),
    top * 1.1 || bottom * 0.25 || 1,
  ]
  const low = first * width
  const high = (first + bins.normal.length) * width
  const ticks = scaleTicks(scale)
  const box = { x1: 'x1', x2: 'x2', y1: 'y1', y2: 'y2', inset: 0.3 } as const
  const group = (text: string, frameAnchor: 'top-right' | 'bottom-right', className: string) =>
    Plot.text([text], { frameAnchor, dx: -4, dy: frameAnchor === 'top-right' ? 6 : -6, className })
  return {
    marginLeft: 56,
    marginRight: 20,
    marginTop: 28,
    marginBottom: 48,
    x: { domain: [low, high], label: null },
    y: { domain, label: null },
    marks: [
      Plot.gridY(shareTicks(domain), { className: 'grid' }),
      Plot.axisY(shareTicks(domain), {
        tickFormat: (share: number) => formatPercent(Math.abs(share)),
        tickSize: 0,
        label: null,
      }),
      Plot.axisX(
        ticks.map((distance) => scalePosition(scale, distance)),
        { tickFormat: (_: number, i: number) => tickLabel(ticks[i] ?? 0), tickSize: 4, label: null },
      ),
      Plot.text(['← flagged as new · score minus threshold · normal →'], {
        frameAnchor: 'bottom',
        dx: -18,
        dy: 42,
        className: 'axis-name',
      }),
      Plot.text(['share of the group'], {
        frameAnchor: 'top-left',
        dx: -50,
        dy: -22,
        textAnchor: 'start',
        className: 'axis-name',
      }),
      Plot.rect(bars(bins.normal, 1), { ...box, className: 'bar-normal' }),
      Plot.rect(bars(bins.novel, -1), { ...box, className: 'bar-novel' }),
      Plot.ruleY([0], { className: 'base' }),
      Plot.ruleX([0], { className: 'threshold' }),
      Plot.text(['threshold'], {
        x: [0],
        frameAnchor: 'top',
        dy: -8,
        // Near an edge the word turns inwards.
        textAnchor: anchorAt((0 - low) / (high - low)),
        className: 'threshold-name',
      }),
      group(labelled ? 'normal flows ↑' : 'scored flows', 'top-right', 'name-normal'),
      ...(labelled ? [group('novel flows ↓', 'bottom-right', 'name-novel')] : []),
    ],
  }
}

/** What the axis does to the values, in plain words. */
export function scoreCaption(scale: ScoreScale): string {
  const unit = formatNumber(scale.unit)
  const parts: string[] = []
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

function anchorAt(fraction: number): 'start' | 'middle' | 'end' {
  const px = fraction * (CHART_WIDTH - 76)
  return px < 40 ? 'start' : px > CHART_WIDTH - 116 ? 'end' : 'middle'
}

function tickLabel(distance: number): string {
  return distance > 0 ? `+${formatNumber(distance)}` : formatNumber(distance)
}

/** About three ticks on the longer side, mirrored onto the other. */
function shareTicks([bottom, top]: readonly [number, number]): number[] {
  const rough = Math.max(top, -bottom) / 3
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.8) ?? rough
  const ticks: number[] = []
  for (let k = Math.ceil(bottom / step); k * step <= top; k++) ticks.push(k * step)
  return ticks
}
