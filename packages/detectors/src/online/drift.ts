import { exp, log, type Matrix } from '@oddflow/core'
import { kernelExponentFactor, squaredDistances } from '@oddflow/linalg'
import { logTail } from '../calibration/tail-probability.js'
import { isNovel } from '../calibration/threshold.js'
import type { SavedModel } from '../model-file/saved-model.js'
import { scaleRows } from '../scaler.js'
import { createPointScorer } from './carry-mixture.js'
import { learningModel, mixtureOfModel, spaceOfModel, tailsOfModel } from './learned-state.js'
import { createMixtureEvaluator } from './mixture-statistics.js'

/**
 * ADWIN: has the mean of a stream of numbers in [0, 1] changed, and since when?
 *
 * Bifet and Gavaldà, "Learning from time-changing data with adaptive windowing", SIAM SDM 2007, second version: buckets
 * of 1, 2, 4, … numbers, MAXIMUM_BUCKETS of each size, hold the window in O(log n) memory. If the means of some older
 * and newer part of the window differ by more than
 *
 *     ε = √(2/m · σ² · ln(2/δ')) + 2/(3m) · ln(2/δ'),   1/m = 1/n₀ + 1/n₁,  δ' = δ / ln n
 *
 * (equation 3.1, σ² the variance of the whole window), the oldest bucket is dropped, and the test repeats. Without a
 * change, the share of false alarms is at most δ. Splits are tested every CHECK_EVERY numbers.
 */

const MAXIMUM_BUCKETS = 5
const CHECK_EVERY = 32
/** Numbers that either part must have. */
const LEAST_PART = 5

/** A test of drift by an adaptive window (Bifet and Gavaldà 2007). */
export interface Adwin {
  /** True when the window was cut: the mean has changed. */
  add(value: number): boolean
  readonly count: number
  readonly mean: number
  /** Count of numbers dropped by the last cut, which is where the change happened. 0 before any cut. */
  readonly dropped: number
}

interface Bucket {
  sum: number
  /** Σ (v − mean)² within. */
  scatter: number
}

/** `delta` in (0, 1), the confidence. */
export function createAdwin(delta: number): Adwin {
  /** rows[i] holds buckets of 2^i numbers, the newest first. */
  const rows: Bucket[][] = [[]]
  /** 2^i. */
  const sizes = [1]
  let count = 0
  let sum = 0
  let scatter = 0
  let dropped = 0
  let sinceCheck = 0

  const insert = (value: number): void => {
    if (count > 0) {
      const difference = value - sum / count
      scatter += (difference * difference * count) / (count + 1)
    }
    rows[0]!.unshift({ sum: value, scatter: 0 })
    count++
    sum += value
    for (let i = 0; i < rows.length && rows[i]!.length > MAXIMUM_BUCKETS; i++) {
      const older = rows[i]!.pop()!
      const newer = rows[i]!.pop()!
      const size = sizes[i]!
      const difference = (older.sum - newer.sum) / size
      if (rows.length === i + 1) {
        rows.push([])
        sizes[i + 1] = 2 * size
      }
      rows[i + 1]!.unshift({
        sum: older.sum + newer.sum,
        scatter: older.scatter + newer.scatter + (difference * difference * size) / 2,
      })
    }
  }

  const dropOldest = (): void => {
    const i = rows.length - 1
    const bucket = rows[i]!.pop()!
    if (rows[i]!.length === 0 && i > 0) rows.pop()
    const size = sizes[i]!
    const rest = count - size
    if (rest > 0) {
      const difference = bucket.sum / size - (sum - bucket.sum) / rest
      scatter = Math.max(0, scatter - bucket.scatter - (difference * difference * size * rest) / count)
    } else scatter = 0
    count = rest
    sum -= bucket.sum
    dropped += size
  }

  const differs = (): boolean => {
    let olderCount = 0
    let olderSum = 0
    const variance = scatter / count
    const confidence = log((2 * Math.max(1, log(count))) / delta)
    for (let i = rows.length - 1; i >= 0; i--) {
      for (let b = rows[i]!.length - 1; b >= 0; b--) {
        olderCount += sizes[i]!
        olderSum += rows[i]![b]!.sum
        const newerCount = count - olderCount
        if (newerCount < LEAST_PART) return false
        if (olderCount < LEAST_PART) continue
        const difference = Math.abs(olderSum / olderCount - (sum - olderSum) / newerCount)
        const inverse = 1 / olderCount + 1 / newerCount
        const bound = Math.sqrt(2 * inverse * variance * confidence) + (2 / 3) * inverse * confidence
        if (difference > bound) return true
      }
    }
    return false
  }

  return {
    add(value) {
      insert(value)
      if (++sinceCheck < CHECK_EVERY) return false
      sinceCheck = 0
      let cut = false
      while (count > 2 * LEAST_PART && differs()) {
        dropOldest()
        cut = true
      }
      return cut
    },
    get count() {
      return count
    },
    get mean() {
      return count === 0 ? 0 : sum / count
    },
    get dropped() {
      return dropped
    },
  }
}

/**
 * Page–Hinkley: has the mean of a stream fallen or risen by more than δ?
 *
 * Page, "Continuous inspection schemes", Biometrika 41, 1954; Hinkley, "Inference about the change-point from
 * cumulative sum tests", Biometrika 58, 1971. x̄ is the running mean of all numbers. The test follows the sums of x −
 * x̄ − δ and of x̄ − x − δ, and raises an alarm if one exceeds its minimum by λ. δ is the tolerated change; λ trades
 * false alarms for delay. An alarm resets all counts.
 */

export interface PageHinkley {
  /** The direction of the change on an alarm, otherwise null. */
  add(value: number): 'up' | 'down' | null
}

/** Options of `createPageHinkley`. */
export interface PageHinkleyOptions {
  /** δ, in units of the numbers. */
  readonly tolerance: number
  /** λ. */
  readonly threshold: number
  /** No alarm before so many numbers. */
  readonly leastCount: number
}

/** Starts a Page-Hinkley test, in constant memory. */
export function createPageHinkley({ tolerance, threshold, leastCount }: PageHinkleyOptions): PageHinkley {
  let count = 0
  let mean = 0
  let up = 0
  let down = 0
  return {
    add(value) {
      count++
      mean += (value - mean) / count
      // each sum less its lowest value so far
      up = Math.max(0, up + value - mean - tolerance)
      down = Math.max(0, down + mean - value - tolerance)
      if (count < leastCount) return null
      const alarm = up > threshold ? 'up' : down > threshold ? 'down' : null
      if (alarm !== null) {
        count = 0
        mean = 0
        up = 0
        down = 0
      }
      return alarm
    },
  }
}

/**
 * Drift signals: how far a model's traffic has moved from its training traffic, without labels.
 *
 * - *Scores*: with a support guard, a score combines two tail probabilities among the training rows: of the density and
 *   of the support. On traffic like the training traffic each is uniform on [0, 1], or higher if rows are equal. The
 *   signal is the excess of low ones (Kolmogorov's D⁺, the larger of the two), and a change of the mean of both (ADWIN,
 *   Page–Hinkley). Without a guard, the verdicts (0 or 1) are used instead.
 * - *Novel*: the share of rows below the threshold, compared with the bound from calibration.
 * - *K ≈ 0*: the share of rows far from all landmarks: the largest kernel value is below 2⁻²⁰, so φ′(x) is nearly 0 and
 *   the mixture has no information.
 * - *Occupancy*: shares of rows by most probable component, compared with the weights: half the sum of the differences,
 *   and the component that moved most.
 *
 * A monitor serves one stream, in bounded memory.
 */

/** Probability of a cut where nothing changes. */
const ADWIN_DELTA = 0.002
/** Applies to tail probabilities: a change of the mean below 0.05 is tolerated. */
const PAGE_HINKLEY = { tolerance: 0.05, threshold: 15, leastCount: 30 }
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

/** An alarm of a drift test. */
export interface DriftChange {
  readonly test: 'adwin' | 'page-hinkley'
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
      `the traffic changes on the way: ${f.changesCounted} alarm${f.changesCounted === 1 ? '' : 's'}, the first (${first.test}, scores ${first.direction}) after ${first.row} rows`,
    )
  }
  return findings
}
