/**
 * The support guard of a model that learns on: tail tables and reaches that follow what was learnt.
 *
 * The guard (support-guard.ts) knows of its training rows two tables and a reach for each landmark. Those rows are
 * gone; what is there is the guard as it was, and the reservoir. So a table is that of both together: the old
 * table's knots, each with the share of rows between it and the knot before, standing for the training rows that
 * nobody has any more (`unseen`, a number of rows that forgetting lowers), and the kept rows with what they weigh. The
 * old log-densities are moved by as much as the median log-density of the kept rows has moved since, because another
 * embedding has other units. A reach is the mean over both in the same way; a landmark that is new has only the
 * kept rows.
 */
import { createMatrix, exp, log, type Matrix } from '@oddflow/core'
import { squaredDistances } from '@oddflow/linalg'
import type { SupportGuardModel } from '../model.js'
import { COMMON_SHARE, clampReach } from '../support-guard.js'
import { LOWEST_LOG_TAIL, MAXIMUM_KNOTS } from '../tail-probability.js'

/** Rows that are kept, scaled: `count` × D from `rows`, each counting `weights[i]` times. */
export interface KeptRows {
  readonly count: number
  readonly rows: Float64Array
  readonly weights: Float64Array
}

export interface GuardUpdate {
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
export interface NearestLandmarks {
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
