/**
 * Weights and means of rows that belong to components by degrees; and degrees of 0 or 1 from clusters.
 *
 * Each component's mass carries 10·2⁻⁵², as scikit-learn's does, so that one which no row belongs to has a mean
 * and a weight instead of 0/0.
 */
import { createMatrix, log, type Matrix } from '@oddflow/core'
import {
  choleskyInto,
  invertLowerInPlace,
  logSumExp,
  squaredDistance,
  squaredDistances,
} from '@oddflow/linalg'
import type { Clustering } from '../clustering/quickshift-pp.js'
import type {
  DiagonalMixture,
  MixtureMoments,
  SphericalMixture,
  TiedMixture,
  TypedCovarianceType,
  TypedMixture,
} from './typed-mixture.js'

/**
 * One function for the three covariance types, where the caller does not know which it has.
 */

type PackedTypedMixture = PackedDiagonal | PackedTied | PackedSpherical

const MOMENTS = { diagonal: momentsDiagonal, tied: momentsTied, spherical: momentsSpherical }
const MIXTURES = { diagonal: mixtureDiagonal, tied: mixtureTied, spherical: mixtureSpherical }

/** Moments of `points` (n × d) under `responsibilities` (n × k); with 0 and 1 there, of clusters. */
export function momentsOf(
  type: TypedCovarianceType,
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureMoments {
  return MOMENTS[type](points, responsibilities, regularisation)
}

/** undefined when a covariance is not positive definite and finite. */
export function mixtureOf(type: TypedCovarianceType, moments: MixtureMoments): TypedMixture | undefined {
  return MIXTURES[type](moments)
}

/** Covariances in the shape of their type: k·d, d·d or k numbers. */
export function typedMixtureCovariances(mixture: TypedMixture): Float64Array {
  switch (mixture.covarianceType) {
    case 'diagonal':
      return covariancesDiagonal(mixture)
    case 'tied':
      return covariancesTied(mixture)
    case 'spherical':
      return covariancesSpherical(mixture)
  }
}

/** Laid out for evaluating densities; for one caller at a time. */
export function packTypedMixture(mixture: TypedMixture): PackedTypedMixture {
  switch (mixture.covarianceType) {
    case 'diagonal':
      return packDiagonal(mixture)
    case 'tied':
      return packTied(mixture)
    case 'spherical':
      return packSpherical(mixture)
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z of d numbers at `start`. */
export function typedLogDensitiesInto(
  packed: PackedTypedMixture,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  switch (packed.covarianceType) {
    case 'diagonal':
      logDensitiesDiagonalInto(packed, point, start, out, outStart)
      break
    case 'tied':
      logDensitiesTiedInto(packed, point, start, out, outStart)
      break
    case 'spherical':
      logDensitiesSphericalInto(packed, point, start, out, outStart)
      break
  }
}

/**
 * The log-density of one point, finite: −Number.MAX_VALUE where numbers overflow. `terms` has room for k
 * numbers. Nothing is allocated.
 */
export function typedLogDensity(
  packed: PackedTypedMixture,
  point: Float64Array,
  start: number,
  terms: Float64Array,
): number {
  typedLogDensitiesInto(packed, point, start, terms, 0)
  const density = logSumExp(terms, 0, packed.k)
  return Number.isFinite(density) ? density : -Number.MAX_VALUE
}

/** Log-densities of the rows of `points` (n × d), for cold paths. */
export function typedMixtureLogDensities(mixture: TypedMixture, points: Matrix): Float64Array {
  const packed = packTypedMixture(mixture)
  const terms = new Float64Array(packed.k)
  const out = new Float64Array(points.rows)
  for (let i = 0; i < points.rows; i++) out[i] = typedLogDensity(packed, points.data, i * points.cols, terms)
  return out
}

interface WeightedMeans {
  /** Length k, positive: sums of the responsibilities. */
  readonly mass: Float64Array
  /** Length k, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
}

const EMPTY_MASS = 10 * Number.EPSILON

/** `points` n × d, `responsibilities` n × k, at least 0. */
export function weightedMeans(points: Matrix, responsibilities: Matrix): WeightedMeans {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const mass = new Float64Array(k)
  const means = createMatrix(k, d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      mass[j] = mass[j]! + w
      for (let a = 0; a < d; a++) means.data[j * d + a] = means.data[j * d + a]! + w * data[i * d + a]!
    }
  }
  let total = 0
  for (let j = 0; j < k; j++) {
    mass[j] = mass[j]! + EMPTY_MASS
    total += mass[j]!
    for (let a = 0; a < d; a++) means.data[j * d + a] = means.data[j * d + a]! / mass[j]!
  }
  return { mass, weights: mass.map((m) => m / total), means }
}

/** n × k: 1 where a row's cluster is the component's, in the order of `kept`; rows of other clusters have 0. */
export function clusterMemberships({ labels, count }: Clustering, kept: ArrayLike<number>): Matrix {
  const k = kept.length
  const componentOf = new Int32Array(count).fill(-1)
  for (let j = 0; j < k; j++) componentOf[kept[j]!] = j
  const out = createMatrix(labels.length, k)
  for (let i = 0; i < labels.length; i++) {
    const j = componentOf[labels[i]!]!
    if (j >= 0) out.data[i * k + j] = 1
  }
  return out
}

/**
 * Mixtures with spherical covariances: moments, mixture, log-densities.
 *
 *     variance of component j = mean over a of Σ_i r_ij (x_ia − µ_ja)² / Σ_i r_ij, + reg
 *
 * Costs per point: k squared distances.
 */

/** `points` n × d, `responsibilities` n × k. */
function momentsSpherical(points: Matrix, responsibilities: Matrix, regularisation: number): MixtureMoments {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const { mass, weights, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(k)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      covariances[j] = covariances[j]! + w * squaredDistance(data, i * d, means.data, j * d, d)
    }
  }
  for (let j = 0; j < k; j++) covariances[j] = covariances[j]! / mass[j]! / d + regularisation
  return { weights, means, covariances }
}

/** undefined when a variance is not a positive finite number. */
function mixtureSpherical({ weights, means, covariances }: MixtureMoments): SphericalMixture | undefined {
  for (const v of covariances) if (!(v > 0 && v < Number.POSITIVE_INFINITY)) return undefined
  return {
    covarianceType: 'spherical',
    weights,
    means,
    precisionCholesky: covariances.map((v) => 1 / Math.sqrt(v)),
  }
}

/** k variances. */
function covariancesSpherical({ precisionCholesky }: SphericalMixture): Float64Array {
  return precisionCholesky.map((p) => 1 / (p * p))
}

interface PackedSpherical {
  readonly covarianceType: 'spherical'
  readonly k: number
  readonly d: number
  /** Length k: log w_j + d·log p_j − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** Length k·d. */
  readonly means: Float64Array
  /** Length k: p_j. */
  readonly scales: Float64Array
}

function packSpherical({ weights, means, precisionCholesky }: SphericalMixture): PackedSpherical {
  const { rows: k, cols: d } = means
  const logNormalisers = weights.map(
    (w, j) => log(w) + d * log(precisionCholesky[j]!) - 0.5 * d * log(2 * Math.PI),
  )
  return {
    covarianceType: 'spherical',
    k,
    d,
    logNormalisers,
    means: means.data,
    scales: precisionCholesky,
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, σ_j²·I)), j < k, for the point z of d numbers at `start`. */
function logDensitiesSphericalInto(
  { k, d, logNormalisers, means, scales }: PackedSpherical,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  squaredDistances(point, start, means, 0, k, d, out, outStart)
  for (let j = 0; j < k; j++) {
    const p = scales[j]!
    out[outStart + j] = logNormalisers[j]! - 0.5 * out[outStart + j]! * p * p
  }
}

/**
 * Mixtures with diagonal covariances: moments, mixture, log-densities.
 *
 *     variance of component j in dimension a = Σ_i r_ij (x_ia − µ_ja)² / Σ_i r_ij + reg
 *
 * taken about the new means in a second pass; scikit-learn's E[x²] − µ² is the same number less what it loses
 * to cancellation. Costs per point: k·d of everything.
 */

/** `points` n × d, `responsibilities` n × k. */
function momentsDiagonal(points: Matrix, responsibilities: Matrix, regularisation: number): MixtureMoments {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const { mass, weights, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(k * d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0, at = j * d; a < d; a++, at++) {
        const difference = data[i * d + a]! - means.data[at]!
        covariances[at] = covariances[at]! + w * difference * difference
      }
    }
  }
  for (let j = 0, at = 0; j < k; j++) {
    for (let a = 0; a < d; a++, at++) covariances[at] = covariances[at]! / mass[j]! + regularisation
  }
  return { weights, means, covariances }
}

/** undefined when a variance is not a positive finite number. */
function mixtureDiagonal({ weights, means, covariances }: MixtureMoments): DiagonalMixture | undefined {
  for (const v of covariances) if (!(v > 0 && v < Number.POSITIVE_INFINITY)) return undefined
  return {
    covarianceType: 'diagonal',
    weights,
    means,
    precisionCholesky: covariances.map((v) => 1 / Math.sqrt(v)),
  }
}

/** k·d variances. */
function covariancesDiagonal({ precisionCholesky }: DiagonalMixture): Float64Array {
  return precisionCholesky.map((p) => 1 / (p * p))
}

interface PackedDiagonal {
  readonly covarianceType: 'diagonal'
  readonly k: number
  readonly d: number
  /** Length k: log w_j + Σ_a log p_ja − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** Length k·d. */
  readonly means: Float64Array
  /** Length k·d. */
  readonly scales: Float64Array
}

function packDiagonal({ weights, means, precisionCholesky }: DiagonalMixture): PackedDiagonal {
  const { rows: k, cols: d } = means
  const logNormalisers = weights.map((w, j) => {
    let sum = log(w) - 0.5 * d * log(2 * Math.PI)
    for (let a = 0; a < d; a++) sum += log(precisionCholesky[j * d + a]!)
    return sum
  })
  return {
    covarianceType: 'diagonal',
    k,
    d,
    logNormalisers,
    means: means.data,
    scales: precisionCholesky,
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z of d numbers at `start`. */
function logDensitiesDiagonalInto(
  { k, d, logNormalisers, means, scales }: PackedDiagonal,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  for (let j = 0, at = 0; j < k; j++) {
    let square = 0
    for (let a = 0; a < d; a++, at++) {
      const y = (point[start + a]! - means[at]!) * scales[at]!
      square += y * y
    }
    out[outStart + j] = logNormalisers[j]! - 0.5 * square
  }
}

/**
 * Mixtures with one tied covariance: moments, mixture, log-densities.
 *
 *     Σ = Σ_j Σ_i r_ij (x_i − µ_j)(x_i − µ_j)ᵀ / Σ_ij r_ij + reg·I
 *
 * over differences from the new means; scikit-learn's XᵀX − Σ_j n_j µ_j µ_jᵀ is the same matrix less what it
 * loses to cancellation. For densities W(z − µ_j) is W(z − c) − W(µ_j − c), the second known beforehand: d²/2
 * and k·d operations a point instead of k·d²/2. c, the mean of the mixture, keeps both terms small.
 */

/** `points` n × d, `responsibilities` n × k. */
function momentsTied(points: Matrix, responsibilities: Matrix, regularisation: number): MixtureMoments {
  const { rows: n, cols: d, data } = points
  const { cols: k, data: r } = responsibilities
  const { mass, weights, means } = weightedMeans(points, responsibilities)
  const covariances = new Float64Array(d * d)
  const difference = new Float64Array(d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0; a < d; a++) difference[a] = data[i * d + a]! - means.data[j * d + a]!
      for (let a = 0; a < d; a++) {
        const x = w * difference[a]!
        for (let b = 0, at = a * d; b <= a; b++, at++) covariances[at] = covariances[at]! + x * difference[b]!
      }
    }
  }
  let total = 0
  for (let j = 0; j < k; j++) total += mass[j]!
  for (let a = 0; a < d; a++) {
    for (let b = 0; b <= a; b++) {
      const value = covariances[a * d + b]! / total + (a === b ? regularisation : 0)
      covariances[a * d + b] = value
      covariances[b * d + a] = value
    }
  }
  return { weights, means, covariances }
}

/** undefined when the covariance is not positive definite. */
function mixtureTied({ weights, means, covariances }: MixtureMoments): TiedMixture | undefined {
  const d = means.cols
  const precisionCholesky = new Float64Array(d * d)
  if (!choleskyInto(covariances, 0, d, precisionCholesky, 0)) return undefined
  invertLowerInPlace(precisionCholesky, 0, d)
  for (const v of precisionCholesky) if (!Number.isFinite(v)) return undefined
  return { covarianceType: 'tied', weights, means, precisionCholesky }
}

/** The d·d covariance, row-major, symmetric. */
function covariancesTied({ means, precisionCholesky }: TiedMixture): Float64Array {
  const d = means.cols
  const factor = precisionCholesky.slice()
  invertLowerInPlace(factor, 0, d)
  const out = new Float64Array(d * d)
  for (let a = 0; a < d; a++) {
    for (let b = 0; b <= a; b++) {
      let sum = 0
      for (let t = 0; t <= b; t++) sum += factor[a * d + t]! * factor[b * d + t]!
      out[a * d + b] = sum
      out[b * d + a] = sum
    }
  }
  return out
}

interface PackedTied {
  readonly covarianceType: 'tied'
  readonly k: number
  readonly d: number
  /** Length k: log w_j + Σ log diag(W) − (d/2)·log 2π. */
  readonly logNormalisers: Float64Array
  /** c, length d. */
  readonly centre: Float64Array
  /** W(µ_j − c), k·d. */
  readonly projectedMeans: Float64Array
  /** W, d·d. */
  readonly factor: Float64Array
  /** Scratch: z − c and W(z − c), 2d. */
  readonly scratch: Float64Array
}

function packTied({ weights, means, precisionCholesky: factor }: TiedMixture): PackedTied {
  const { rows: k, cols: d, data } = means
  const centre = new Float64Array(d)
  for (let j = 0; j < k; j++) {
    for (let a = 0; a < d; a++) centre[a] = centre[a]! + weights[j]! * data[j * d + a]!
  }
  let shared = -0.5 * d * log(2 * Math.PI)
  for (let a = 0; a < d; a++) shared += log(factor[a * d + a]!)
  const projectedMeans = new Float64Array(k * d)
  const scratch = new Float64Array(2 * d)
  for (let j = 0; j < k; j++) projectInto(factor, d, data, j * d, centre, scratch, projectedMeans, j * d)
  return {
    covarianceType: 'tied',
    k,
    d,
    logNormalisers: weights.map((w) => log(w) + shared),
    centre,
    projectedMeans,
    factor,
    scratch,
  }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ)), j < k, for the point z of d numbers at `start`. */
function logDensitiesTiedInto(
  { k, d, logNormalisers, centre, projectedMeans, factor, scratch }: PackedTied,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  projectInto(factor, d, point, start, centre, scratch, scratch, d)
  for (let j = 0, at = 0; j < k; j++) {
    let square = 0
    for (let a = 0; a < d; a++, at++) {
      const y = scratch[d + a]! - projectedMeans[at]!
      square += y * y
    }
    out[outStart + j] = logNormalisers[j]! - 0.5 * square
  }
}

/** out[outStart …] = W(point − centre); differences[0 … d) is scratch. */
function projectInto(
  factor: Float64Array,
  d: number,
  point: Float64Array,
  start: number,
  centre: Float64Array,
  differences: Float64Array,
  out: Float64Array,
  outStart: number,
): void {
  for (let a = 0; a < d; a++) differences[a] = point[start + a]! - centre[a]!
  for (let a = 0, row = 0; a < d; a++, row += d) {
    let sum = 0
    for (let b = 0; b <= a; b++) sum += factor[row + b]! * differences[b]!
    out[outStart + a] = sum
  }
}
