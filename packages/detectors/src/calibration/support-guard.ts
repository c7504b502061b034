/**
 * The support guard: flags rows that are too far from all landmarks for the embedding to represent (figures and
 * alternatives: docs/decisions/0007-support-guard.md).
 *
 * Such a row has K(x) ≈ 0 and embeds at the origin, where the mixture may be dense. Its *support* is known:
 *
 *   s(x) = −‖x − l‖² / r²,   l the landmark nearest to x,
 *
 * r² the mean squared distance of the training rows nearest to l, plus a thousandth of the mean over all rows. The
 * largest twentieth of the distances count no more than the next one, so a single odd row does not stretch a reach. A
 * landmark is at distance 0 from itself, so it is compared with the other landmarks.
 *
 * The guarded score adds the logarithms of the tail probabilities of density (or f) and support among the training
 * rows: Fisher's combination ("Statistical Methods for Research Workers", 4th ed., 1932, §21.1).
 */
import type { Matrix } from '@oddflow/core'
import { DISTANCE_TILE_ROWS, squaredDistancesOfRows } from '@oddflow/linalg'
import { failField, fieldsAt, matrixAt, numbersAt, sizeUpTo } from '../fields.js'
import type { EmbeddingModel, SupportGuardModel } from '../model.js'
import {
  createTailFunction,
  firstOrdinaryRank,
  fitTailTable,
  LOWEST_LOG_TAIL,
  MAXIMUM_KNOTS,
  type TailFunction,
} from './tail-probability.js'

/**
 * Share of the mean over all rows that is added to every squared reach; from 0.01 to 0.0001 the value matters little.
 */
export const COMMON_SHARE = 0.001

/** Bounds of r², so that neither it nor 1/r² leaves the range of numbers. */
const SQUARED_REACH_RANGE = { low: 1e-300, high: 1e300 } as const

/**
 * `rows` are the scaled training rows (n × D), `landmarkRows` the numbers of the landmarks among them, `scores` (length
 * n; changed) their unguarded scores.
 */
export function fitSupportGuard(
  rows: Matrix,
  { landmarks, bandwidth }: EmbeddingModel,
  landmarkRows: Uint32Array,
  scores: Float64Array,
): SupportGuardModel {
  const { nearest, distances } = nearestLandmarks(rows, landmarks, landmarkRows)
  const squaredReaches = fitSquaredReaches(nearest, distances, landmarks.rows, bandwidth)
  const weights = inverses(squaredReaches)
  const supports = distances.map((distance, i) =>
    // a single landmark has no other to compare with
    weights.length === 1 && distance === Number.POSITIVE_INFINITY ? 0 : -(weights[nearest[i]!]! * distance),
  )
  const first = firstOrdinaryRank(rows.rows)
  return {
    squaredReaches,
    density: fitTailTable(scores, first),
    support: fitTailTable(supports, first),
  }
}

/** For each row the first nearest landmark and the squared distance; a row does not count as its own landmark. */
function nearestLandmarks(
  rows: Matrix,
  landmarks: Matrix,
  landmarkRows: Uint32Array,
): { nearest: Uint32Array; distances: Float64Array } {
  const { rows: n, cols, data } = rows
  const m = landmarks.rows
  const own = new Int32Array(n).fill(-1)
  for (let j = 0; j < m; j++) own[landmarkRows[j]!] = j
  const nearest = new Uint32Array(n)
  const distances = new Float64Array(n)
  const tile = new Float64Array(DISTANCE_TILE_ROWS * m)
  for (let i = 0; i < n; i++) {
    const start = (i % DISTANCE_TILE_ROWS) * m
    if (start === 0) {
      const count = Math.min(DISTANCE_TILE_ROWS, n - i)
      squaredDistancesOfRows(data, i * cols, count, landmarks.data, 0, m, cols, tile, 0, m)
    }
    if (own[i]! >= 0) tile[start + own[i]!] = Number.POSITIVE_INFINITY
    let found = 0
    let smallest = tile[start]!
    for (let j = 1; j < m; j++) {
      const distance = tile[start + j]!
      if (distance < smallest) {
        smallest = distance
        found = j
      }
    }
    nearest[i] = found
    distances[i] = smallest
  }
  return { nearest, distances }
}

function fitSquaredReaches(
  nearest: Uint32Array,
  distances: Float64Array,
  m: number,
  bandwidth: number,
): Float64Array {
  const sums = new Float64Array(m)
  const counts = new Float64Array(m)
  const limit = Math.min(reachLimit(distances), SQUARED_REACH_RANGE.high / 1e9)
  nearest.forEach((j, i) => {
    const distance = distances[i]!
    if (m === 1 && distance === Number.POSITIVE_INFINITY) return
    sums[j]! += Math.min(distance, limit)
    counts[j]!++
  })
  let sum = 0
  let count = 0
  for (let j = 0; j < m; j++) {
    sum += sums[j]!
    count += counts[j]!
  }
  // if every row, except odd ones, equals a landmark, only the kernel has a scale
  const mean = sum > 0 ? sum / count : bandwidth * bandwidth
  return Float64Array.from(sums, (total, j) => {
    const local = counts[j]! > 0 && sum > 0 ? total / counts[j]! : mean
    return clampReach(local + COMMON_SHARE * mean)
  })
}

/**
 * The maximum that a squared distance counts in a reach: a twentieth of all rows are farther, but at most half of those
 * that differ from their landmark, because rows may repeat. 0 if only one row differs.
 */
export function reachLimit(squaredDistances: Float64Array): number {
  const beside = squaredDistances.filter((square) => square > 0 && square < Number.POSITIVE_INFINITY).sort()
  const odd = Math.min(Math.max(1, Math.floor(squaredDistances.length / 20)), Math.ceil(beside.length / 2))
  return beside[beside.length - 1 - odd] ?? 0
}

/** Within the bounds of r². */
export function clampReach(square: number): number {
  const { low, high } = SQUARED_REACH_RANGE
  return Math.min(high, Math.max(low, square))
}

function inverses(values: Float64Array): Float64Array {
  return Float64Array.from(values, (v) => 1 / v)
}

/** What a scorer needs of the guard. */
export interface SupportGuard {
  /** Length m: 1 / r_j². */
  readonly weights: Float64Array
  readonly density: TailFunction
  readonly support: TailFunction
}

/** A guard from a model, ready to score. */
export function createSupportGuard({ squaredReaches, density, support }: SupportGuardModel): SupportGuard {
  return {
    weights: inverses(squaredReaches),
    density: createTailFunction(density),
    support: createTailFunction(support),
  }
}

/** `asked`: whether the parameters request a guard. Throws ArgumentError with the path of the fault. */
export function checkSupportGuard(
  value: unknown,
  { landmarks }: EmbeddingModel,
  asked: boolean,
): SupportGuardModel | null {
  const given = value ?? null
  if ((given !== null) !== asked) {
    failField('supportGuard', asked ? 'a guard' : 'no guard', given === null ? 'none' : 'one')
  }
  if (given === null) return null
  const guard = fieldsAt(given, 'supportGuard')
  const squaredReaches = numbersAt(guard.squaredReaches, 'supportGuard.squaredReaches')
  if (squaredReaches.length !== landmarks.rows) {
    failField(
      'supportGuard.squaredReaches',
      `${landmarks.rows} numbers, one per landmark`,
      squaredReaches.length,
    )
  }
  const { low, high } = SQUARED_REACH_RANGE
  for (const v of squaredReaches) {
    if (!(v >= low && v <= high)) {
      failField('supportGuard.squaredReaches', `numbers from ${low} to ${high}`, v)
    }
  }
  return {
    squaredReaches,
    density: checkTailTable(guard.density, 'supportGuard.density'),
    support: checkTailTable(guard.support, 'supportGuard.support'),
  }
}

export function checkTailTable(value: unknown, field: string): Matrix {
  const table = matrixAt(value, field)
  sizeUpTo(table.rows, MAXIMUM_KNOTS, `${field}.rows`)
  if (table.cols !== 2) failField(field, '2 columns', table.cols)
  for (let i = 0; i < table.rows; i++) {
    const number = table.data[2 * i]!
    const logTail = table.data[2 * i + 1]!
    if (!(Math.abs(number) <= -LOWEST_LOG_TAIL)) {
      failField(field, `numbers up to ${-LOWEST_LOG_TAIL}`, number)
    }
    if (!(logTail >= LOWEST_LOG_TAIL && logTail < 0)) failField(field, 'logarithms below 0', logTail)
    if (i === 0) continue
    if (!(number > table.data[2 * i - 2]!)) failField(field, 'ascending numbers', number)
    if (!(logTail > table.data[2 * i - 1]!)) failField(field, 'ascending logarithms', logTail)
  }
  return table
}
