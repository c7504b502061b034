/**
 * Gaussian mixtures whose covariances are not full: diagonal, tied and spherical.
 *
 *     diagonal    each component has a variance for each dimension
 *     tied        one full covariance, shared by all components
 *     spherical   each component has one variance for all dimensions
 *
 * As in a full mixture, what is stored is the Cholesky factor of the precision, in the least room that its type allows,
 * under the one name `precisionCholesky`. Moments are taken about the new means in a second pass, because E[x²] − µ²
 * loses digits to cancellation.
 */
import { createMatrix, log, type Matrix } from '@oddflow/core'
import { choleskyInto, invertLowerInPlace, squaredDistance, squaredDistances } from '@oddflow/linalg'
import type { Clustering } from '../clustering/quickshift-pp.js'
import { failField, fieldsAt, matrixAt, numbersAt, sizeUpTo, wholeAt } from '../fields.js'
import type { MixtureModel } from '../model.js'

interface MixtureBase {
  /** Length k, positive, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
}

/** Gaussians with a variance for each dimension. */
export interface DiagonalMixture extends MixtureBase {
  readonly covarianceType: 'diagonal'
  /** Length k·d, positive: reciprocals of standard deviations. */
  readonly precisionCholesky: Float64Array
}

export interface TiedMixture extends MixtureBase {
  readonly covarianceType: 'tied'
  /** Length d·d, row-major: lower-triangular W with positive diagonal, zeros above it, and WᵀW = Σ⁻¹. */
  readonly precisionCholesky: Float64Array
}

export interface SphericalMixture extends MixtureBase {
  readonly covarianceType: 'spherical'
  /** Length k, positive: reciprocals of standard deviations. */
  readonly precisionCholesky: Float64Array
}

export type TypedMixture = DiagonalMixture | TiedMixture | SphericalMixture

/** Forms of a mixture's covariances; the first is the default. */
export const COVARIANCE_TYPES = ['full', 'diagonal', 'tied', 'spherical'] as const

/** The form of a mixture's covariances. */
export type CovarianceType = (typeof COVARIANCE_TYPES)[number]

export type TypedCovarianceType = TypedMixture['covarianceType']

/** Weighted moments of rows: what an M-step finds and what a mixture is made of. */
export interface MixtureMoments extends MixtureBase {
  /** Regularised: k·d variances (diagonal), d·d row-major (tied), k variances (spherical). */
  readonly covariances: Float64Array
}

// ---- moments

/** Moments of `points` (n × d) under `responsibilities` (n × k); with 0 and 1 there, of clusters. */
export function momentsOf(
  type: TypedCovarianceType,
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureMoments {
  return MOMENTS[type](points, responsibilities, regularisation)
}

const MOMENTS = { diagonal: momentsDiagonal, tied: momentsTied, spherical: momentsSpherical }

interface WeightedMeans {
  /** Length k, positive: sums of the responsibilities. */
  readonly mass: Float64Array
  /** Length k, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
}

/** As scikit-learn has it: a component without rows gets a mean and a weight instead of 0/0. */
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

/** n × k: 1 where a row's cluster is the component's. */
export function clusterMemberships({ labels, count }: Clustering): Matrix {
  const out = createMatrix(labels.length, count)
  labels.forEach((label, i) => {
    out.data[i * count + label] = 1
  })
  return out
}

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

// ---- from moments to a mixture, and back to covariances

/** undefined when a covariance is not positive definite and finite. */
export function mixtureOf(
  covarianceType: TypedCovarianceType,
  { weights, means, covariances }: MixtureMoments,
): TypedMixture | undefined {
  if (covarianceType !== 'tied') {
    if (!covariances.every((v) => v > 0 && v < Number.POSITIVE_INFINITY)) return undefined
    return { covarianceType, weights, means, precisionCholesky: covariances.map((v) => 1 / Math.sqrt(v)) }
  }
  const d = means.cols
  const precisionCholesky = new Float64Array(d * d)
  if (!choleskyInto(covariances, 0, d, precisionCholesky, 0)) return undefined
  invertLowerInPlace(precisionCholesky, 0, d)
  return precisionCholesky.every(Number.isFinite)
    ? { covarianceType, weights, means, precisionCholesky }
    : undefined
}

/** Covariances in the shape of their type: k·d, d·d (row-major, symmetric) or k numbers. */
export function typedMixtureCovariances(mixture: TypedMixture): Float64Array {
  if (mixture.covarianceType !== 'tied') return mixture.precisionCholesky.map((p) => 1 / (p * p))
  const d = mixture.means.cols
  const factor = mixture.precisionCholesky.slice()
  const out = new Float64Array(d * d)
  covarianceInto(factor, d, out, 0)
  return out
}

/** Σ (d × d at `outStart`) of a precision factor W, which is inverted in place. */
export function covarianceInto(factor: Float64Array, d: number, out: Float64Array, outStart: number): void {
  invertLowerInPlace(factor, 0, d)
  // factor is L with Σ = L·Lᵀ
  for (let a = 0; a < d; a++) {
    for (let b = 0; b <= a; b++) {
      let sum = 0
      for (let t = 0; t <= b; t++) sum += factor[a * d + t]! * factor[b * d + t]!
      out[outStart + a * d + b] = sum
      out[outStart + b * d + a] = sum
    }
  }
}

// ---- densities

/** A mixture laid out for evaluating densities; for one caller at a time. */
type PackedTypedMixture = ReturnType<typeof packTypedMixture>

export function packTypedMixture(mixture: TypedMixture) {
  if (mixture.covarianceType === 'tied') return packTied(mixture)
  const { covarianceType, weights, means, precisionCholesky: scales } = mixture
  const { rows: k, cols: d } = means
  const logNormalisers =
    covarianceType === 'spherical'
      ? weights.map((w, j) => log(w) + d * log(scales[j]!) - 0.5 * d * log(2 * Math.PI))
      : weights.map((w, j) => {
          let sum = log(w) - 0.5 * d * log(2 * Math.PI)
          for (let a = 0; a < d; a++) sum += log(scales[j * d + a]!)
          return sum
        })
  return { covarianceType, k, d, logNormalisers, means: means.data, scales }
}

/**
 * W(z − µ_j) is W(z − c) − W(µ_j − c), the second known beforehand: d²/2 and k·d operations a point instead of k·d²/2.
 * c, the mean of the mixture, keeps both terms small.
 */
function packTied({ covarianceType, weights, means, precisionCholesky: factor }: TiedMixture) {
  const { rows: k, cols: d, data } = means
  const centre = new Float64Array(d)
  for (let j = 0; j < k; j++) {
    for (let a = 0; a < d; a++) centre[a] = centre[a]! + weights[j]! * data[j * d + a]!
  }
  let shared = -0.5 * d * log(2 * Math.PI)
  for (let a = 0; a < d; a++) shared += log(factor[a * d + a]!)
  const logNormalisers = weights.map((w) => log(w) + shared)
  /** W(µ_j − c), k·d. */
  const projectedMeans = new Float64Array(k * d)
  /** z − c and W(z − c). */
  const scratch = new Float64Array(2 * d)
  for (let j = 0; j < k; j++) projectInto(factor, d, data, j * d, centre, scratch, projectedMeans, j * d)
  return { covarianceType, k, d, logNormalisers, centre, projectedMeans, factor, scratch }
}

/** out[outStart + j] = log(w_j · N(z; µ_j, Σ_j)), j < k, for the point z of d numbers at `start`. */
export function typedLogDensitiesInto(
  packed: PackedTypedMixture,
  point: Float64Array,
  start: number,
  out: Float64Array,
  outStart: number,
): void {
  const { k, d, logNormalisers } = packed
  if (packed.covarianceType === 'tied') {
    const { centre, projectedMeans, factor, scratch } = packed
    projectInto(factor, d, point, start, centre, scratch, scratch, d)
    for (let j = 0, at = 0; j < k; j++) {
      let square = 0
      for (let a = 0; a < d; a++, at++) {
        const y = scratch[d + a]! - projectedMeans[at]!
        square += y * y
      }
      out[outStart + j] = logNormalisers[j]! - 0.5 * square
    }
    return
  }
  if (packed.covarianceType === 'spherical') {
    squaredDistances(point, start, packed.means, 0, k, d, out, outStart)
    for (let j = 0; j < k; j++) {
      const p = packed.scales[j]!
      out[outStart + j] = logNormalisers[j]! - 0.5 * out[outStart + j]! * p * p
    }
    return
  }
  const { means, scales } = packed
  for (let j = 0, at = 0; j < k; j++) {
    let square = 0
    for (let a = 0; a < d; a++, at++) {
      const y = (point[start + a]! - means[at]!) * scales[at]!
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

// ---- check

/**
 * The value as a mixture of this type, of at most `maximumComponents` in `dimension` dimensions, with exactly the known
 * fields. Throws ArgumentError with the path of the fault.
 */
export function checkTypedMixture(
  value: unknown,
  covarianceType: TypedCovarianceType,
  dimension: number,
  maximumComponents: number,
): TypedMixture {
  const fields = fieldsAt(value, 'mixture')
  if (fields.covarianceType !== covarianceType) {
    failField('mixture.covarianceType', covarianceType, fields.covarianceType)
  }
  const weights = numbersAt(fields.weights, 'mixture.weights')
  const k = wholeAt(weights.length, 'mixture.weights.length', 1, maximumComponents)
  checkWeights(weights)
  const means = matrixAt(fields.means, 'mixture.means')
  if (means.rows !== k || means.cols !== dimension) {
    failField('mixture.means', `${k} × ${dimension}`, `${means.rows} × ${means.cols}`)
  }
  const length = { diagonal: k * dimension, spherical: k, tied: dimension * dimension }[covarianceType]
  const precisionCholesky = numbersAt(fields.precisionCholesky, 'mixture.precisionCholesky', length)
  if (covarianceType === 'tied') checkLowerTriangular(precisionCholesky, 0, dimension)
  else if (!precisionCholesky.every((v) => v > 0)) {
    failField(
      'mixture.precisionCholesky',
      'positive numbers',
      precisionCholesky.find((v) => !(v > 0)),
    )
  }
  return { covarianceType, weights, means, precisionCholesky }
}

/** Positive, with sum 1. */
export function checkWeights(weights: Float64Array): void {
  let sum = 0
  for (const w of weights) {
    if (!(w > 0)) failField('mixture.weights', 'positive numbers', w)
    sum += w
  }
  if (!(Math.abs(sum - 1) <= 1e-9)) failField('mixture.weights', 'a sum of 1', sum)
}

/** A d × d factor at `start`: positive on its diagonal, zeros above. */
export function checkLowerTriangular(factors: Float64Array, start: number, d: number): void {
  for (let i = 0; i < d; i++) {
    const diagonal = factors[start + i * d + i]!
    if (!(diagonal > 0)) failField('mixture.precisionCholesky', 'a positive diagonal', diagonal)
    for (let j = i + 1; j < d; j++) {
      const above = factors[start + i * d + j]!
      if (above !== 0) failField('mixture.precisionCholesky', 'zeros above the diagonal', above)
    }
  }
}

/** A full mixture of at most `maximumComponents` in d dimensions. */
export function checkFullMixture(value: unknown, d: number, maximumComponents: number): MixtureModel {
  const x = fieldsAt(value, 'mixture')
  if (x.covarianceType !== 'full') failField('mixture.covarianceType', 'full', x.covarianceType)
  const weights = numbersAt(x.weights, 'mixture.weights')
  const k = weights.length
  sizeUpTo(k, maximumComponents, 'mixture.weights')
  checkWeights(weights)
  const means = matrixAt(x.means, 'mixture.means')
  if (means.rows !== k || means.cols !== d) {
    failField('mixture.means', `${k} × ${d}`, `${means.rows} × ${means.cols}`)
  }
  const precisionCholesky = numbersAt(x.precisionCholesky, 'mixture.precisionCholesky', k * d * d)
  for (let at = 0; at < precisionCholesky.length; at += d * d) checkLowerTriangular(precisionCholesky, at, d)
  return { covarianceType: 'full', weights, means, precisionCholesky }
}
