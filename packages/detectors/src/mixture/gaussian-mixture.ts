/**
 * Gaussian mixtures with full covariances, and mixtures of any type where the caller does not know which it has.
 */
import { ArgumentError, log, type Matrix, matrixOf } from '@oddflow/core'
import { choleskyInto, invertLowerInPlace, logSumExp } from '@oddflow/linalg'
import type { MixtureModel } from '../model.js'
import {
  covarianceInto,
  mixtureOf,
  momentsOf,
  packTypedMixture,
  type TypedMixture,
  typedLogDensitiesInto,
  weightedMeans,
} from './covariance-types.js'

/**
 * PackedMixture: a mixture laid out for evaluating log w_j + Σ log diag(W_j) − (d/2)·log 2π − ½‖W_j(z − µ_j)‖². d is
 * small, so components go four at a time, their means and lower triangles interleaved, the last group filled up with
 * zeros. Each component still sums in index order, so its value does not depend on its neighbours.
 */

interface PackedMixture {
  readonly k: number
  readonly d: number
  /** Length k: log w_j + Σ log diag(W_j) − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** ⌈k/4⌉ groups of d × 4. */
  readonly means: Float64Array
  /** ⌈k/4⌉ groups of d(d + 1)/2 × 4: rows of the lower triangles, left to right. */
  readonly factors: Float64Array
  /** Scratch of d × 4 differences z − µ. */
  readonly differences: Float64Array
}

/** Components that are interleaved. */
export const MIXTURE_GROUP = 4

const GROUP = MIXTURE_GROUP
const LOG_2_PI = log(2 * Math.PI)

export function packMixture({ weights, means, precisionCholesky }: MixtureModel): PackedMixture {
  const k = weights.length
  const d = means.cols
  const triangle = (d * (d + 1)) / 2
  const groups = Math.ceil(k / GROUP)
  const logNormalisers = new Float64Array(k)
  const packedMeans = new Float64Array(groups * d * GROUP)
  const factors = new Float64Array(groups * triangle * GROUP)
  for (let j = 0; j < k; j++) {
    const group = Math.floor(j / GROUP)
    const lane = j % GROUP
    let sum = log(weights[j]!) - 0.5 * d * LOG_2_PI
    let at = group * triangle * GROUP + lane
    for (let i = 0; i < d; i++) {
      packedMeans[(group * d + i) * GROUP + lane] = means.data[j * d + i]!
      for (let t = 0; t <= i; t++, at += GROUP) factors[at] = precisionCholesky[(j * d + i) * d + t]!
      sum += log(precisionCholesky[(j * d + i) * d + i]!)
    }
    logNormalisers[j] = sum
  }
  return { k, d, logNormalisers, means: packedMeans, factors, differences: new Float64Array(d * GROUP) }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z of d numbers at `start`. */
export function componentLogDensitiesInto(
  { k, d, logNormalisers, means, factors, differences }: PackedMixture,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  let m = 0
  let f = 0
  for (let j = 0; j < k; j += GROUP) {
    for (let i = 0, at = 0; i < d; i++, at += GROUP, m += GROUP) {
      const z = point[start + i]!
      differences[at] = z - means[m]!
      differences[at + 1] = z - means[m + 1]!
      differences[at + 2] = z - means[m + 2]!
      differences[at + 3] = z - means[m + 3]!
    }
    let q0 = 0
    let q1 = 0
    let q2 = 0
    let q3 = 0
    for (let i = 0; i < d; i++) {
      const end = (i + 1) * GROUP
      let y0 = 0
      let y1 = 0
      let y2 = 0
      let y3 = 0
      for (let at = 0; at < end; at += GROUP, f += GROUP) {
        y0 += factors[f]! * differences[at]!
        y1 += factors[f + 1]! * differences[at + 1]!
        y2 += factors[f + 2]! * differences[at + 2]!
        y3 += factors[f + 3]! * differences[at + 3]!
      }
      q0 += y0 * y0
      q1 += y1 * y1
      q2 += y2 * y2
      q3 += y3 * y3
    }
    const o = outStart + j
    out[o] = logNormalisers[j]! - 0.5 * q0
    if (j + 1 < k) out[o + 1] = logNormalisers[j + 1]! - 0.5 * q1
    if (j + 2 < k) out[o + 2] = logNormalisers[j + 2]! - 0.5 * q2
    if (j + 3 < k) out[o + 3] = logNormalisers[j + 3]! - 0.5 * q3
  }
}

/**
 * Mixtures of any covariance type, where the caller does not know which it has.
 */

export type Mixture = MixtureModel | TypedMixture

/** Writes out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z at `start`. */
export type LogDensitiesInto = (
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
) => void

/** For one caller at a time. */
export function componentLogDensities(mixture: Mixture): LogDensitiesInto {
  if (mixture.covarianceType === 'full') {
    const packed = packMixture(mixture)
    return (point, start, out, outStart) => componentLogDensitiesInto(packed, point, start, out, outStart)
  }
  const packed = packTypedMixture(mixture)
  return (point, start, out, outStart) => typedLogDensitiesInto(packed, point, start, out, outStart)
}

/**
 * The M-step: of mixtures of the type of `like` the one of largest expected likelihood of `points` (n × d) under
 * `responsibilities` (n × k). undefined when a covariance is not positive definite and finite.
 */
export function maximise<M extends Mixture>(
  like: M,
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): M | undefined {
  const found =
    like.covarianceType === 'full'
      ? maximiseFull(points, responsibilities, regularisation)
      : mixtureOf(
          like.covarianceType,
          momentsOf(like.covarianceType, points, responsibilities, regularisation),
        )
  return found as M | undefined
}

/** A component of less than so much of one row is empty. */
const EMPTY_ROWS = 1e-6

/**
 * The mixture without components of less than 1e-6 of one of the `rows` rows, weights summing to 1 again; the
 * same mixture when there are none.
 */
export function withoutEmptyComponents<M extends Mixture>(mixture: M, rows: number): M {
  const kept: number[] = []
  mixture.weights.forEach((weight, j) => {
    if (weight * rows >= EMPTY_ROWS) kept.push(j)
  })
  const k = mixture.weights.length
  if (kept.length === k) return mixture
  const partsOf = (values: Float64Array): Float64Array => {
    const size = values.length / k
    return Float64Array.from({ length: kept.length * size }, (_, at) => {
      return values[kept[Math.floor(at / size)]! * size + (at % size)]!
    })
  }
  const weights = partsOf(mixture.weights)
  const total = weights.reduce((a, b) => a + b, 0)
  return {
    ...mixture,
    weights: weights.map((w) => w / total),
    means: matrixOf(kept.length, mixture.means.cols, partsOf(mixture.means.data)),
    precisionCholesky:
      mixture.covarianceType === 'tied' ? mixture.precisionCholesky : partsOf(mixture.precisionCholesky),
  }
}

/** The log-density of the point at `start`; for one caller at a time. */
export function createLogDensity(mixture: Mixture): (point: Float64Array, start: number) => number {
  const k = mixture.weights.length
  const terms = new Float64Array(k)
  const into = componentLogDensities(mixture)
  return (point, start) => {
    into(point, start, terms, 0)
    return logSumExp(terms, 0, k)
  }
}

/** Log-density of each row of `points` (n × d). */
export function mixtureLogDensities(mixture: Mixture, { rows, cols, data }: Matrix): Float64Array {
  const logDensity = createLogDensity(mixture)
  return Float64Array.from({ length: rows }, (_, i) => logDensity(data, i * cols))
}

/**
 * Turns k covariances (k·d·d, row-major, lower triangles read) into precision factors, in place. Returns the
 * number of the first covariance that is not positive definite, −1 when there is none.
 */
export function precisionCholeskyInPlace(covariances: Float64Array, k: number, d: number): number {
  for (let j = 0; j < k; j++) {
    if (!choleskyInto(covariances, j * d * d, d, covariances, j * d * d)) return j
    invertLowerInPlace(covariances, j * d * d, d)
  }
  return -1
}

/** Covariances of the components (k·d·d, row-major, symmetric): what ellipses are drawn from. */
export function mixtureCovariances({ weights, means, precisionCholesky }: MixtureModel): Float64Array {
  const d = means.cols
  const out = new Float64Array(precisionCholesky.length)
  const factor = new Float64Array(d * d)
  for (let j = 0; j < weights.length; j++) {
    factor.set(precisionCholesky.subarray(j * d * d, (j + 1) * d * d))
    covarianceInto(factor, d, out, j * d * d)
  }
  return out
}

/**
 * A mixture from weights (k), means (k × d) and covariances (k·d·d). Throws ArgumentError when the sizes do
 * not fit or a covariance is not positive definite.
 */
export function createMixture(weights: Float64Array, means: Matrix, covariances: Float64Array): MixtureModel {
  const k = weights.length
  const d = means.cols
  if (k === 0 || means.rows !== k || covariances.length !== k * d * d) {
    throw new ArgumentError(
      `mixture: expected ${k} means and ${k * d * d} covariance entries, found ${means.rows} and ${covariances.length}`,
    )
  }
  const precisionCholesky = covariances.slice()
  const singular = precisionCholeskyInPlace(precisionCholesky, k, d)
  if (singular >= 0) {
    throw new ArgumentError(`covariances: number ${singular} is not positive definite`, 'covariances')
  }
  return {
    covarianceType: 'full',
    weights: weights.slice(),
    means: matrixOf(k, d, means.data.slice()),
    precisionCholesky,
  }
}

/**
 * The M-step for full covariances: weights, means and covariances of rows that belong to components by degrees.
 *
 * Covariances are taken about the new means, in a second pass, and get the regularisation on their diagonals before
 * they are turned into factors of precisions.
 */

/** `points` n × d, `responsibilities` n × k; undefined when a covariance is not positive definite. */
export function maximiseFull(
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureModel | undefined {
  const { rows: n, cols: d, data } = points
  const k = responsibilities.cols
  const r = responsibilities.data
  const { mass, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(k * d * d)
  const difference = new Float64Array(d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0; a < d; a++) difference[a] = data[i * d + a]! - means.data[j * d + a]!
      for (let a = 0, at = j * d * d; a < d; a++, at += d) {
        const x = w * difference[a]!
        for (let b = 0; b <= a; b++) covariances[at + b]! += x * difference[b]!
      }
    }
  }
  for (let j = 0; j < k; j++) {
    const at = j * d * d
    for (let a = 0; a < d * d; a++) covariances[at + a] = covariances[at + a]! / mass[j]!
    for (let a = 0; a < d; a++) covariances[at + a * d + a]! += regularisation
  }
  if (precisionCholeskyInPlace(covariances, k, d) >= 0) return undefined
  let total = 0
  for (let j = 0; j < k; j++) {
    mass[j] = mass[j]! / n
    total += mass[j]!
  }
  const weights = mass.map((w) => w / total)
  return { covarianceType: 'full', weights, means, precisionCholesky: covariances }
}
