/**
 * The support guard of a model that learns on: tail tables and reaches that follow what was learned.
 *
 * The guard (support-guard.ts) knows of its training rows two tables and a reach for each landmark. Those rows are
 * gone; what is there is the guard as it was, and the reservoir. So a table is that of both together: the old
 * table's knots, each with the share of rows between it and the knot before, standing for the training rows that
 * are no longer available (`unseen`, a number of rows that forgetting lowers), and the kept rows with what they weigh. The
 * old log-densities are moved by as much as the median log-density of the kept rows has moved since, because another
 * embedding has other units. A reach is the mean over both in the same way; a landmark that is new has only the
 * kept rows.
 */
import { createMatrix, exp, log, type Matrix, type Rng, takeRows } from '@oddflow/core'
import { squaredDistance, squaredDistances } from '@oddflow/linalg'
import { COMMON_SHARE, clampReach } from '../calibration/support-guard.js'
import { LOWEST_LOG_TAIL, MAXIMUM_KNOTS } from '../calibration/tail-probability.js'
import type { SupportGuardModel } from '../model.js'
import type { LearningWork } from './learning-work.js'

/**
 * The guard against poisoning: what an update must not do, whatever it was fed.
 *
 * Whoever can send traffic can teach a model that learns by itself, a little at a time. So the model keeps two lists
 * from its beginning, and what the frozen model said of them: rows known to be novel (given by the caller, or
 * points made far from the normal ones) and rows known to be normal. An update that has more than a bound of the
 * first pass for normal, or more than a bound of the second for novel, is refused and undone. The bounds are
 * against the frozen model, not against the last update: many small steps count as the one that they add up to.
 * What passes is judged by the known-normal rows, not by the threshold, which depends on the lowest few of the rows
 * that it was calibrated with: a known-novel row passes when it scores above the lowest twentieth of them.
 *
 * Points are made in three ways from rows that are normal, and those kept that the frozen model finds novel: each
 * number from another row (every number is normal, their combination is not); on the line through two rows,
 * beyond them; and between two rows.
 */

export const MAXIMUM_REFERENCE_ROWS = 300

/** Candidates for far points, from rows (n × D, n ≥ 2) that are normal: three for each of `count`. */
export function farPoints({ rows: n, cols, data }: Matrix, count: number, rng: Rng): Matrix {
  const out = createMatrix(3 * count, cols)
  for (let i = 0; i < count; i++) {
    const a = rng.nextBelow(n)
    const b = rng.nextBelow(n)
    const beyond = 1.5 + 2.5 * rng.nextFloat()
    const between = 0.25 + 0.5 * rng.nextFloat()
    for (let c = 0; c < cols; c++) {
      const from = data[a * cols + c]!
      const to = data[b * cols + c]!
      out.data[3 * i * cols + c] = data[rng.nextBelow(n) * cols + c]!
      out.data[(3 * i + 1) * cols + c] = from + beyond * (to - from)
      out.data[(3 * i + 2) * cols + c] = from + between * (to - from)
    }
  }
  return out
}

/** The rows whose score is above the threshold (`normal`), or is not; the first MAXIMUM_REFERENCE_ROWS of them. */
export function rowsThatAre(normal: boolean, rows: Matrix, scores: Float64Array, threshold: number): Matrix {
  const chosen: number[] = []
  for (let i = 0; i < rows.rows && chosen.length < MAXIMUM_REFERENCE_ROWS; i++) {
    if (scores[i]! > threshold === normal) chosen.push(i)
  }
  return takeRows(rows, chosen)
}

/** The score that a known-novel row must not be above: of the known-normal rows a twentieth has no more. */
export function passingScore(knownNormal: Float64Array): number {
  if (knownNormal.length === 0) return Number.NEGATIVE_INFINITY
  return knownNormal.slice().sort()[Math.floor(PASSING_SHARE * (knownNormal.length - 1))]!
}

const PASSING_SHARE = 0.05

/** Share of scores above the threshold (`normal`), or not above it; 0 of none. */
export function shareThatIs(normal: boolean, scores: Float64Array, threshold: number): number {
  if (scores.length === 0) return 0
  let count = 0
  for (const score of scores) if (score > threshold === normal) count++
  return count / scores.length
}

/**
 * Rows on hold: novel rows that wait for others like them, and what confirms them.
 *
 * What has become normal keeps coming; a scan or a flood comes, goes, and comes back another month. So a row is confirmed
 * by enough rows near it that came in enough periods, and in at least every second period of the stretch in which they
 * came, up to now. Without that bursts that have nothing to do with one another add up, however rare they are. The rows
 * near it go with it when each has enough near itself: like is not like's like, and what lies at the edge of something new
 * is not new in the same way.
 *
 * Near is a kernel of ½ or more, or for gmm a tenth of the mean squared distance between held rows. The buffer is
 * bounded: the oldest give way. How many did is what was held less what was confirmed and what is still there.
 */

/** Periods without a row near, for each with one, that a stretch may have. */
const GAPS = 1

const LOG_2 = log(2)

/** The squared distance at which a kernel of this bandwidth is ½: up to there rows are alike. */
export function likeReach(bandwidth: number): number {
  return LOG_2 * bandwidth * bandwidth
}

/**
 * Whether the held row equal to the one at `start`, which has just come, is confirmed; if so it and the rows near
 * it that are too go to be learned. Returns how many went.
 */
export function confirmHeld(work: LearningWork, rows: Float64Array, start: number): number {
  const { held, space } = work
  const { width } = space
  const h = 'embedding' in work.model ? work.model.embedding.bandwidth : null
  const reach = h === null ? heldReach(work) : likeReach(h)
  const near = rowsNear(work, rows, start, reach)
  const first = firstPeriodOf(work, near)
  if (first === null) return 0
  const going = new Uint8Array(held.count)
  for (const i of near) {
    if (held.numbers[i]! < first || work.pending.next >= 0) continue
    if (firstPeriodOf(work, rowsNear(work, held.data, i * width, reach)) === null) continue
    work.pending.push(held.data, i * width, 0)
    going[i] = 1
  }
  let gone = 0
  for (const value of going) gone += value
  keepInOrder(work, going)
  return gone
}

/** Places of the held rows near the row at `start`. */
function rowsNear({ held, space }: LearningWork, rows: Float64Array, start: number, reach: number): number[] {
  const { width } = space
  const near: number[] = []
  for (let i = 0; i < held.count; i++) {
    if (squaredDistance(held.data, i * width, rows, start, width) <= reach) near.push(i)
  }
  return near
}

/** The period in which the stretch begins that confirms the rows at those places; null where none does. */
function firstPeriodOf({ held, options }: LearningWork, near: readonly number[]): number | null {
  const latestFirst = near.map((i) => held.numbers[i]!).sort((a, b) => b - a)
  let periods = 0
  for (const [i, period] of latestFirst.entries()) {
    if (i === 0 || period !== latestFirst[i - 1]) periods++
    // all rows of a period count, so the stretch ends with the last of them
    if (latestFirst[i + 1] === period) continue
    const length = latestFirst[0]! - period + 1
    const isEnough = i + 1 >= options.confirmRows && periods >= (options.confirmPeriods ?? 0)
    if (isEnough && length <= (1 + GAPS) * periods) return period
  }
  return null
}

/** Takes the rows marked by place off hold. */
function keepInOrder(work: LearningWork, going: Uint8Array): void {
  const { held } = work
  // places count from the oldest once the buffer is in order, so the marks move with them
  const first = Math.max(0, held.next)
  held.filter((place) => going[(place + first) % going.length] === 0)
}

function heldReach({ held, space }: LearningWork): number {
  const { width } = space
  let sum = 0
  for (let i = 1; i < held.count; i++) {
    sum += squaredDistance(held.data, i * width, held.data, (i - 1) * width, width)
  }
  return held.count > 1 ? (0.1 * sum) / (held.count - 1) : 0
}

/** Rows that are kept, scaled: `count` × D from `rows`, each counting `weights[i]` times. */
export interface KeptRows {
  readonly count: number
  readonly rows: Float64Array
  readonly weights: Float64Array
}

interface GuardUpdate {
  /** The guard that learning began with. */
  readonly start: SupportGuardModel
  /** For each landmark, the one of `start` that it is, or −1. */
  readonly origins: Int32Array
  /** Rows that `start` stands for. */
  readonly unseen: number
  /** What its log-densities are moved by. */
  readonly shift: number
}

/** For each kept row the landmark nearest to it, and their squared distance. */
interface NearestLandmarks {
  readonly landmarks: Int32Array
  readonly squares: Float64Array
}

/** The first row that equals a landmark is the one that became it, and is compared with the others. */
export function nearestLandmarks(landmarks: Matrix, { count, rows }: KeptRows): NearestLandmarks {
  const m = landmarks.rows
  const distances = new Float64Array(m)
  const claimed = new Uint8Array(m)
  const out = { landmarks: new Int32Array(count), squares: new Float64Array(count) }
  for (let i = 0; i < count; i++) {
    squaredDistances(rows, i * landmarks.cols, landmarks.data, 0, m, landmarks.cols, distances, 0)
    let own = -1
    let nearest = -1
    for (let j = 0; j < m; j++) {
      if (distances[j] === 0 && own < 0 && claimed[j] === 0) {
        claimed[j] = 1
        own = j
      } else if (nearest < 0 || distances[j]! < distances[nearest]!) nearest = j
    }
    // the only landmark has no other to be compared with
    if (nearest < 0) nearest = own
    out.landmarks[i] = nearest
    out.squares[i] = distances[nearest]!
  }
  return out
}

/** r² of each of m landmarks: the mean squared distance of the rows that it is the nearest landmark of. */
export function updatedReaches(
  m: number,
  nearest: NearestLandmarks,
  weights: Float64Array,
  { start, origins, unseen }: GuardUpdate,
  bandwidth: number,
): Float64Array {
  const sums = new Float64Array(m)
  const counts = new Float64Array(m)
  nearest.landmarks.forEach((j, i) => {
    sums[j]! += weights[i]! * nearest.squares[i]!
    counts[j]! += weights[i]!
  })
  let total = 0
  let mass = 0
  for (let j = 0; j < m; j++) {
    total += sums[j]!
    mass += counts[j]!
  }
  const mean = total > 0 ? total / mass : bandwidth * bandwidth
  // what the training rows nearest to a landmark were, on average
  const each = unseen / start.squaredReaches.length
  return Float64Array.from(sums, (sum, j) => {
    const old = origins[j]! >= 0 ? each : 0
    const count = counts[j]! + old
    if (count === 0) return clampReach(mean * (1 + COMMON_SHARE))
    const before = old > 0 ? old * start.squaredReaches[origins[j]!]! : 0
    return clampReach((before + sum + counts[j]! * COMMON_SHARE * mean) / count)
  })
}

/** −‖x − l‖² / r² of each kept row, l the nearest landmark. */
export function supportsOf(
  { landmarks, squares }: NearestLandmarks,
  squaredReaches: Float64Array,
): Float64Array {
  return squares.map((square, i) => -(square / squaredReaches[landmarks[i]!]!))
}

/** The tail table of old knots, standing for `unseen` rows and moved by `shift`, and of values with weights. */
export function blendedTailTable(
  old: Matrix,
  unseen: number,
  shift: number,
  values: Float64Array,
  weights: Float64Array,
): Matrix {
  const entries: { value: number; weight: number }[] = []
  if (unseen > 0) {
    let below = 0
    for (let i = 0; i < old.rows; i++) {
      const share = exp(old.data[2 * i + 1]!)
      entries.push({ value: old.data[2 * i]! + shift, weight: (share - below) * unseen })
      below = share
    }
  }
  for (let i = 0; i < values.length; i++) entries.push({ value: values[i]!, weight: weights[i]! })
  return weightedTailTable(entries)
}

/**
 * As `fitTailTable`, of values that count more or less than one row each: knots at counts in geometric progression, and
 * log p = log(rows with no more / (rows + 1)).
 */
export function weightedTailTable(entries: readonly { value: number; weight: number }[]): Matrix {
  const sorted = entries
    .filter(({ weight }) => weight > 0)
    .map(({ value, weight }) => ({
      value: Math.min(-LOWEST_LOG_TAIL, Math.max(LOWEST_LOG_TAIL, value)),
      weight,
    }))
    .sort((a, b) => a.value - b.value)
  let total = 0
  for (const { weight } of sorted) total += weight
  const pairs: number[] = []
  const steps = MAXIMUM_KNOTS - 1
  // the first count is the lowest value's own; ranks in between are rounded to whole rows as those of a fit are
  const lowest = Math.min(1, sorted[0]!.weight)
  let used = 0
  let at = 0
  for (let t = 0; t <= steps; t++) {
    const rank =
      t === steps ? total : Math.max(lowest, Math.round(exp((log(Math.max(1, total)) * t) / steps)))
    if (rank <= used || at === sorted.length) continue
    const tie = 1e-9 * total
    while (at < sorted.length - 1 && used + sorted[at]!.weight < rank - tie) used += sorted[at++]!.weight
    const { value } = sorted[at]!
    while (at < sorted.length && sorted[at]!.value === value) used += sorted[at++]!.weight
    const logTail = log(used / (total + 1))
    // a weight can be too small to show
    if (pairs.length === 0 || logTail > pairs[pairs.length - 1]!) pairs.push(value, logTail)
  }
  const table = createMatrix(pairs.length / 2, 2)
  table.data.set(pairs)
  return table
}
