/**
 * Drift signals: how a model's traffic has moved away from what it was trained on, without a label.
 *
 * - *Scores*: with a support guard a score is made of two tail probabilities among the training rows, of the density
 *   and of the support, each of which is spread evenly over [0, 1] on traffic like the training's, or higher, as equal
 *   rows share the highest of theirs. The signal is by how much too many are low (Kolmogorov's D⁺) of the one that
 *   has more of them, and whether the mean of both changes on the way (ADWIN, Page–Hinkley). Without a guard the verdicts, 0 or 1, stand for it.
 * - *Novel*: share of rows below the threshold, against the bound that the calibration gives.
 * - *K ≈ 0*: share of rows of which no landmark sees anything: the largest kernel value is below 2⁻²⁰, so that
 *   φ′(x) is next to 0 and the mixture has nothing to go by.
 * - *Occupancy*: shares of rows by most probable component, against the weights: half the sum of the differences, and
 *   the component that moved most.
 *
 * A monitor is for one stream; it takes a bounded amount of memory, however long that is.
 */
import { exp, type Matrix } from '@oddflow/core'
import { kernelExponentFactor, squaredDistances } from '@oddflow/linalg'
import type { SavedModel } from '../model-file/saved-model.js'
import { scaleRows } from '../scaler.js'
import { logTail } from '../tail-probability.js'
import { isNovel } from '../threshold.js'
import { createAdwin } from './adwin.js'
import { learningModel, mixtureOfModel, spaceOfModel, tailsOfModel } from './begin-learning.js'
import { createMixtureEvaluator } from './mixture-evaluator.js'
import { createPageHinkley } from './page-hinkley.js'
import { createPointScorer } from './point-space.js'

/** Probability of a cut where nothing changes. */
const ADWIN_DELTA = 0.002
/** On tail probabilities: a change of the mean by less than 0.05 is let pass. */
const PAGE_HINKLEY = { tolerance: 0.05, threshold: 15, leastCount: 30 }
/** Bins of tail probabilities, for Kolmogorov's D⁺. */
const BINS = 200
/** Changes that are named; more are counted. */
const NAMED_CHANGES = 100
const UNSEEN_KERNEL = 1 / 1_048_576

/** Bounds beyond which a signal speaks: effects that matter, whatever the number of rows. */
export const DRIFT_BOUNDS = {
  /** Times the calibration's bound, and at least so much more in share. */
  novelFactor: 3,
  novelExcess: 0.02,
  distance: 0.2,
  unseenShare: 0.05,
  occupancy: 0.25,
} as const

export interface DriftChange {
  readonly test: 'adwin' | 'page-hinkley'
  /** Rows seen when the alarm was raised. */
  readonly row: number
  readonly direction: 'up' | 'down'
}

export interface DriftReport {
  readonly rows: number
  readonly novelShare: number
  /** What the calibration promised. */
  readonly novelBound: number
  /** Kolmogorov's D⁺ of the tail probabilities, the larger of two; null without a support guard. */
  readonly distance: number | null
  /** Their median; 0.5 where nothing has changed; null without a support guard. */
  readonly medianP: number | null
  /** null without an embedding. */
  readonly unseenShare: number | null
  /** Half the sum of |share − weight| over the components. */
  readonly occupancy: number
  readonly shares: readonly number[]
  readonly weights: readonly number[]
  readonly changes: readonly DriftChange[]
  readonly changesCounted: number
  /** One sentence for each signal that speaks; none: no drift. */
  readonly findings: readonly string[]
  readonly drifted: boolean
}

export interface DriftMonitor {
  /** n × D rows, unscaled, in the order in which they came. */
  add(rows: Matrix): void
  report(): DriftReport
}

/** Throws ArgumentError for a detector that has no mixture. */
export function createDriftMonitor({ detector, threshold }: SavedModel): DriftMonitor {
  const model = learningModel(detector)
  const space = spaceOfModel(model)
  const mixture = mixtureOfModel(model)
  const tails = tailsOfModel(model)
  const evaluator = createMixtureEvaluator(mixture)
  const score = createPointScorer(evaluator, space.d, tails)
  const embedding = 'embedding' in model ? model.embedding : null
  const adwin = createAdwin(ADWIN_DELTA)
  const pageHinkley = createPageHinkley(PAGE_HINKLEY)
  const densityBins = new Float64Array(BINS)
  const supportBins = new Float64Array(BINS)
  const owned = new Float64Array(evaluator.k)
  const terms = new Float64Array(evaluator.k)
  const distances = new Float64Array(embedding?.landmarks.rows ?? 0)
  const changes: DriftChange[] = []
  let changesCounted = 0
  let rows = 0
  let novel = 0
  let unseen = 0

  const changed = (test: DriftChange['test'], direction: DriftChange['direction']): void => {
    changesCounted++
    if (changes.length < NAMED_CHANGES) changes.push({ test, row: rows, direction })
  }

  return {
    add(given) {
      const scaled = scaleRows(model.scaler, given)
      const n = scaled.rows
      const points = new Float64Array(n * space.d)
      const supports = new Float64Array(n)
      const scores = new Float64Array(n)
      const densities = new Float64Array(n)
      space.locate(scaled.data, 0, n, points, 0, supports)
      score(points, supports, n, scores, densities)
      for (let i = 0; i < n; i++) {
        rows++
        const isNew = isNovel(scores[i]!, threshold)
        if (isNew) novel++
        if (embedding !== null && seesNothing(embedding, scaled, i, distances)) unseen++
        evaluator.terms(points, i * space.d, terms, 0)
        let best = 0
        for (let j = 1; j < terms.length; j++) if (terms[j]! > terms[best]!) best = j
        owned[best]!++
        let value = isNew ? 0 : 1
        if (tails !== null) {
          const density = exp(Math.max(-700, logTail(tails.density, densities[i]!)))
          const support = exp(Math.max(-700, logTail(tails.support, supports[i]!)))
          value = (density + support) / 2
          densityBins[Math.min(BINS - 1, Math.floor(density * BINS))]!++
          supportBins[Math.min(BINS - 1, Math.floor(support * BINS))]!++
        }
        const mean = adwin.mean
        if (adwin.add(value)) changed('adwin', adwin.mean > mean ? 'up' : 'down')
        const direction = pageHinkley.add(value)
        if (direction !== null) changed('page-hinkley', direction)
      }
    },
    report() {
      const shares = Array.from(owned, (count) => (rows === 0 ? 0 : count / rows))
      const weights = Array.from(mixture.weights)
      const occupancy = rows === 0 ? 0 : shares.reduce((sum, s, j) => sum + Math.abs(s - weights[j]!) / 2, 0)
      const spreads =
        tails === null || rows === 0 ? [] : [densityBins, supportBins].map((bins) => spreadOf(bins, rows))
      const spread = spreads.length === 0 ? null : spreads.reduce((a, b) => (b.distance > a.distance ? b : a))
      const figures = {
        rows,
        novelShare: rows === 0 ? 0 : novel / rows,
        novelBound: threshold.calibration.bound,
        distance: spread?.distance ?? null,
        medianP: spread?.median ?? null,
        unseenShare: embedding === null || rows === 0 ? null : unseen / rows,
        occupancy,
        shares,
        weights,
        changes: [...changes],
        changesCounted,
      }
      const findings = findingsOf(figures)
      return { ...figures, findings, drifted: findings.length > 0 }
    },
  }
}

function seesNothing(
  { landmarks, bandwidth }: { readonly landmarks: Matrix; readonly bandwidth: number },
  rows: Matrix,
  row: number,
  distances: Float64Array,
): boolean {
  squaredDistances(rows.data, row * rows.cols, landmarks.data, 0, landmarks.rows, rows.cols, distances, 0)
  let nearest = Number.POSITIVE_INFINITY
  for (const square of distances) if (square < nearest) nearest = square
  return exp(Math.max(-700, kernelExponentFactor(bandwidth) * nearest)) < UNSEEN_KERNEL
}

/** By how much the share of probabilities up to a bin's end exceeds that end at most, and the median by bins. */
function spreadOf(bins: Float64Array, rows: number): { readonly distance: number; readonly median: number } {
  let below = 0
  let distance = 0
  let median = 1
  for (let b = 0; b < BINS; b++) {
    below += bins[b]!
    const end = (b + 1) / BINS
    distance = Math.max(distance, below / rows - end)
    if (median === 1 && below >= rows / 2) median = end
  }
  return { distance, median }
}

function findingsOf(f: Omit<DriftReport, 'findings' | 'drifted'>): string[] {
  const { novelFactor, novelExcess, distance, unseenShare, occupancy } = DRIFT_BOUNDS
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const findings: string[] = []
  if (f.rows === 0) return findings
  if (f.novelShare > Math.max(novelFactor * f.novelBound, f.novelBound + novelExcess)) {
    findings.push(
      `${percent(f.novelShare)} of the rows are novel, where at most ${percent(f.novelBound)} were promised`,
    )
  }
  if (f.distance !== null && f.distance > distance) {
    findings.push(
      `the scores are lower than in training: ${percent(f.distance)} of the rows too many are low, median p ${f.medianP?.toFixed(2)}`,
    )
  }
  if (f.unseenShare !== null && f.unseenShare > unseenShare) {
    findings.push(`${percent(f.unseenShare)} of the rows are out of sight of every landmark`)
  }
  if (f.occupancy > occupancy) {
    let most = 0
    f.shares.forEach((share, j) => {
      if (Math.abs(share - f.weights[j]!) > Math.abs(f.shares[most]! - f.weights[most]!)) most = j
    })
    findings.push(
      `other components are busy: ${percent(f.occupancy)} of the rows have moved, most of all to or from component ${most} (${percent(f.weights[most]!)} in training, ${percent(f.shares[most]!)} now)`,
    )
  }
  if (f.changesCounted > 0) {
    const first = f.changes[0]!
    findings.push(
      `the traffic changes on the way: ${f.changesCounted} alarm${f.changesCounted === 1 ? '' : 's'}, the first (${first.test}, scores ${first.direction}) after ${first.row} rows`,
    )
  }
  return findings
}
