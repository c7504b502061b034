import { exp, type Matrix } from '@oddflow/core'
import { isNovel, type SavedModel } from '@oddflow/detectors'
import { logTail, scaleRows } from '@oddflow/detectors/parts'
import { kernelExponentFactor, squaredDistances } from '@oddflow/linalg'
import { createRowScorer } from './carry-mixture.js'
import { learningModel, mixtureOfModel, spaceOfModel, tailsOfModel } from './learned-state.js'
import { createMixtureEvaluator } from './mixture-statistics.js'

/**
 * Page–Hinkley: has the mean of a stream of tail probabilities fallen or risen?
 *
 * Page, "Continuous inspection schemes", Biometrika 41, 1954; Hinkley, "Inference about the change-point from
 * cumulative sum tests", Biometrika 58, 1971. x̄ is the running mean of all numbers. The test follows the sums of x −
 * x̄ − δ and of x̄ − x − δ, and raises an alarm if one exceeds its minimum by λ. An alarm resets all counts.
 */

/** δ: a smaller change of the mean is tolerated. */
const TOLERANCE = 0.05
/** λ: trades false alarms for delay. */
const ALARM = 15
/** No alarm before this many numbers. */
const LEAST_COUNT = 30

/** In constant memory; returns the direction of the change on an alarm, otherwise null. */
export function createPageHinkley(): (value: number) => 'up' | 'down' | null {
  let count = 0
  let mean = 0
  let up = 0
  let down = 0
  return (value) => {
    count++
    mean += (value - mean) / count
    // each sum less its lowest value so far
    up = Math.max(0, up + value - mean - TOLERANCE)
    down = Math.max(0, down + mean - value - TOLERANCE)
    if (count < LEAST_COUNT || (up <= ALARM && down <= ALARM)) return null
    const direction = up > ALARM ? 'up' : 'down'
    count = mean = up = down = 0
    return direction
  }
}

/**
 * Drift signals: how far a model's traffic has moved from its training traffic, without labels.
 *
 * - *Scores*: with a support guard, the tail probabilities of density and support are uniform on [0, 1] without drift,
 *   or higher. The signal is the excess of low ones (Kolmogorov's D⁺, the larger of the two), and a change of the mean
 *   of both (Page–Hinkley). Without a guard, the verdicts (0 or 1) are used instead.
 * - *Novel*: the share of rows below the threshold, compared with the bound from calibration.
 * - *K ≈ 0*: the share of rows whose largest kernel value is below 2⁻²⁰: the mixture has no information on them.
 * - *Occupancy*: shares of rows by most probable component against the weights: half the sum of the differences.
 *
 * A monitor serves one stream, in bounded memory.
 */

/** Bins of tail probabilities, for Kolmogorov's D⁺. */
const BINS = 200
/** Changes that are listed; further ones are only counted. */
const NAMED_CHANGES = 100
const UNSEEN_KERNEL = 1 / 1_048_576

/** Bounds above which a signal is reported: effect sizes that matter, whatever the number of rows. */
export const DRIFT_BOUNDS = {
  /** A multiple of the calibration's bound, and the least excess as a share. */
  novelFactor: 3,
  novelExcess: 0.02,
  distance: 0.2,
  unseenShare: 0.05,
  occupancy: 0.25,
} as const

/** A change of the scores' mean. */
export interface DriftChange {
  /** Rows seen when the alarm was raised. */
  readonly row: number
  readonly direction: 'up' | 'down'
}

/** What a drift monitor has seen so far. */
export interface DriftReport {
  readonly rows: number
  readonly novelShare: number
  /** What the calibration promised. */
  readonly novelBound: number
  /** Kolmogorov's D⁺ of the tail probabilities, the larger of the two; null without a support guard. */
  readonly distance: number | null
  /** Median of the tail probabilities, 0.5 without a change; null without a support guard. */
  readonly medianP: number | null
  /** null without an embedding. */
  readonly unseenShare: number | null
  /** Half the sum of |share − weight| over the components. */
  readonly occupancy: number
  readonly shares: readonly number[]
  readonly weights: readonly number[]
  readonly changes: readonly DriftChange[]
  readonly changesCounted: number
  /** One sentence for each reported signal; empty without drift. */
  readonly findings: readonly string[]
  readonly drifted: boolean
}

/** Watches the rows and scores of a model for drift. */
export interface DriftMonitor {
  /** n × D rows, unscaled, in order of arrival. */
  add(rows: Matrix): void
  report(): DriftReport
}

/** Throws ArgumentError for a detector without a mixture. */
export function createDriftMonitor({ detector, threshold }: SavedModel): DriftMonitor {
  const model = learningModel(detector)
  const space = spaceOfModel(model)
  const mixture = mixtureOfModel(model)
  const tails = tailsOfModel(model)
  const evaluator = createMixtureEvaluator(mixture)
  const scored = createRowScorer(space, evaluator, tails)
  const embedding = 'embedding' in model ? model.embedding : null
  const changeOf = createPageHinkley()
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

  return {
    add(given) {
      const scaled = scaleRows(model.scaler, given)
      const n = scaled.rows
      const { points, supports, scores, densities } = scored(scaled.data, n)
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
        const direction = changeOf(value)
        if (direction === null) continue
        changesCounted++
        if (changes.length < NAMED_CHANGES) changes.push({ row: rows, direction })
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

/** The largest excess of the cumulative share over the bin's upper end, and the median by bins. */
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
      `the traffic changes on the way: ${f.changesCounted} alarm${f.changesCounted === 1 ? '' : 's'}, the first (scores ${first.direction}) after ${first.row} rows`,
    )
  }
  return findings
}
