/**
 * Two guards of an update: the guard against poisoning, which can undo it, and the support guard of the updated model.
 *
 * The support guard's training rows are gone, so a new table combines the old knots, each for
 * its share of the `unseen` training rows, with the kept rows by weight. Old log-densities are shifted by the change of
 * the kept rows' median. A reach is the mean over both; a new landmark has only the kept rows.
 */
import { createMatrix, exp, log, type Matrix, type Rng, takeRows } from '@oddflow/core'
import type { SupportGuardModel } from '@oddflow/detectors'
import { COMMON_SHARE, clampReach, LOWEST_LOG_TAIL, MAXIMUM_KNOTS } from '@oddflow/detectors/parts'
import { squaredDistance, squaredDistances } from '@oddflow/linalg'
import type { LearningWork } from './learning-work.js'

/**
 * The guard against poisoning: bounds on every update. Anyone who can send traffic can teach a model in small steps, so
 * it keeps known-novel rows (from the caller, or generated) and known-normal rows from the beginning. An update is
 * undone if it makes more than a bounded share of the first normal or of the second novel, compared with the frozen
 * model.
 *
 * A known-novel row passes if it scores above the lowest twentieth of the known-normal rows. Generated rows come from
 * normal ones: each number from a different row, beyond two rows on the line through them, and between two rows.
 */

export const MAXIMUM_REFERENCE_ROWS = 300

/** Candidates for far points, made from normal rows (n × D, n ≥ 2): three for each of `count`. */
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

/** The rows with a score above the threshold (`normal`) or not above; the first MAXIMUM_REFERENCE_ROWS of them. */
export function rowsThatAre(normal: boolean, rows: Matrix, scores: Float64Array, threshold: number): Matrix {
  const chosen: number[] = []
  for (let i = 0; i < rows.rows && chosen.length < MAXIMUM_REFERENCE_ROWS; i++) {
    if (scores[i]! > threshold === normal) chosen.push(i)
  }
  return takeRows(rows, chosen)
}

/** The score that a known-novel row must not exceed: a twentieth of the known-normal rows score no higher. */
export function passingScore(knownNormal: Float64Array): number {
  if (knownNormal.length === 0) return Number.NEGATIVE_INFINITY
  return knownNormal.slice().sort()[Math.floor(PASSING_SHARE * (knownNormal.length - 1))]!
}

const PASSING_SHARE = 0.05

/** Share of scores above the threshold (`normal`) or not above; 0 without scores. */
export function shareThatIs(normal: boolean, scores: Float64Array, threshold: number): number {
  if (scores.length === 0) return 0
  let count = 0
  for (const score of scores) if (score > threshold === normal) count++
  return count / scores.length
}

/**
 * Quarantined rows: novel rows that wait for similar rows. New normal traffic keeps coming; a scan or a flood ends. So
 * a row is confirmed if enough similar rows came in enough periods, and in at least every second period from the first
 * of them until now. Similar rows are confirmed with it only if each has enough similar rows itself.
 *
 * Two rows are similar if their kernel is ½ or more; for gmm, within a tenth of the mean squared distance between
 * quarantined rows. In a full buffer the oldest rows are replaced. Replaced = quarantined − confirmed − still there.
 */

/** Empty periods allowed for each period with a similar row. */
const GAPS = 1

const LOG_2 = log(2)

/** The squared distance at which a kernel of this bandwidth is ½: rows up to there are similar. */
export function likeReach(bandwidth: number): number {
  return LOG_2 * bandwidth * bandwidth
}

/**
 * Checks whether the newest row, equal to the one at `start`, is confirmed. If so, it and the similar rows that are
 * confirmed too are moved to the rows to learn. Returns their number.
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

/** The first period of the stretch that confirms the rows at those places; null if there is none. */
function firstPeriodOf({ held, options }: LearningWork, near: readonly number[]): number | null {
  const latestFirst = near.map((i) => held.numbers[i]!).sort((a, b) => b - a)
  let periods = 0
  for (const [i, period] of latestFirst.entries()) {
    if (i === 0 || period !== latestFirst[i - 1]) periods++
    // all rows of a period count, so the stretch ends at the last one
    if (latestFirst[i + 1] === period) continue
    const length = latestFirst[0]! - period + 1
    const isEnough = i + 1 >= options.confirmRows && periods >= (options.confirmPeriods ?? 0)
    if (isEnough && length <= (1 + GAPS) * periods) return period
  }
  return null
}

/** Removes the marked rows from quarantine. */
function keepInOrder(work: LearningWork, going: Uint8Array): void {
  const { held } = work
  // places count from the oldest once the buffer is in order, so the marks move too
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

/** Kept rows, scaled: `count` × D from `rows`, each with weight `weights[i]`. */
export interface KeptRows {
  readonly count: number
  readonly rows: Float64Array
  readonly weights: Float64Array
}

interface GuardUpdate {
  /** The guard that learning began with. */
  readonly start: SupportGuardModel
  /** For each landmark its number in `start`, or −1. */
  readonly origins: Int32Array
  /** Rows that `start` stands for. */
  readonly unseen: number
  /** What its log-densities are moved by. */
  readonly shift: number
}

/** For each kept row the nearest landmark and the squared distance. */
interface NearestLandmarks {
  readonly landmarks: Int32Array
  readonly squares: Float64Array
}

/** The first row equal to a landmark is the landmark itself, and is compared with the other landmarks. */
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
    // a single landmark has no other to compare with
    if (nearest < 0) nearest = own
    out.landmarks[i] = nearest
    out.squares[i] = distances[nearest]!
  }
  return out
}

/** r² of each of m landmarks: the mean squared distance of the rows nearest to it. */
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
  // the average of the training rows nearest to a landmark
  const each = unseen / start.squaredReaches.length
  return Float64Array.from(sums, (sum, j) => {
    const old = origins[j]! >= 0 ? each : 0
    const count = counts[j]! + old
    if (count === 0) return clampReach(mean * (1 + COMMON_SHARE))
    const before = old > 0 ? old * start.squaredReaches[origins[j]!]! : 0
    return clampReach((before + sum + counts[j]! * COMMON_SHARE * mean) / count)
  })
}

/** −‖x − l‖² / r² of each kept row, with l the nearest landmark. */
export function supportsOf(
  { landmarks, squares }: NearestLandmarks,
  squaredReaches: Float64Array,
): Float64Array {
  return squares.map((square, i) => -(square / squaredReaches[landmarks[i]!]!))
}

/** The tail table from old knots, which stand for `unseen` rows and are moved by `shift`, and from weighted values. */
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
 * Like `fitTailTable`, for weighted values: knots at counts in geometric progression, and log p = log(rows with no
 * higher value / (rows + 1)).
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
  // the first count is the lowest value's own; ranks in between are rounded to whole rows, as in a fit
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
