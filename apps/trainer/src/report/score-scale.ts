/**
 * The axis of the score chart: score minus threshold, so that zero decides and left of it is new.
 *
 * Where all scores are of one order the axis is even (`linear`). Log-densities seldom are: then it is
 * symmetric-logarithmic (`symlog`), even within ± `unit` of the threshold and tenfold steps beyond, u = sign(d)
 * · log10(1 + |d| / unit). The unit is the power of ten at or below the spread (inter-quartile range) of the
 * normal scores. Values further than a million units off are gathered in the outermost bin, which the caption
 * says.
 */

import { FURTHEST, quantileSorted, sortedFinite, within } from './robust.js'

export interface ScoreScale {
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
export function scoreDistance(score: number, threshold: number): number {
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
