/**
 * Gaussian mixtures whose covariances are not full: diagonal, tied and spherical.
 *
 *     diagonal    each component has a variance for each dimension
 *     tied        one full covariance, shared by all components
 *     spherical   each component has one variance for all dimensions
 *
 * As in a full mixture, what is stored is the Cholesky factor of the precision, in the least room that its type
 * allows, under the one name `precisionCholesky`. With k components in d dimensions a scorer needs
 * k(1 + 2d), k(1 + d) + d² and k(2 + d) numbers.
 */
import { DataError, type Matrix } from '@oddflow/core'
import type { Clustering } from '../clustering/quickshift-pp.js'
import { failField, fieldsAt, matrixAt, numbersAt, wholeAt } from '../fields.js'
import type { EmParameters } from '../parameters.js'
import { clusterMemberships, mixtureOf, momentsOf } from './covariance-types.js'
import { type FittedFromStart, fitFromStart } from './fit-mixture.js'

/**
 * Is this value a diagonal, tied or spherical mixture that a scorer can trust?
 *
 * Shapes against each other, all numbers finite, weights positive with sum 1, factors positive (for a tied
 * one: positive on the diagonal, zero above it).
 */

/**
 * The value as a mixture of at most `maximumComponents` in `dimension` dimensions with exactly the known fields
 * (arrays are not copied). Throws ArgumentError whose field begins with `path`.
 */
export function checkTypedMixture(
  value: unknown,
  dimension: number,
  maximumComponents: number,
  path = 'mixture',
): TypedMixture {
  const fields = fieldsAt(value, path)
  const weights = numbersAt(fields.weights, `${path}.weights`)
  const k = wholeAt(weights.length, `${path}.weights.length`, 1, maximumComponents)
  let sum = 0
  weights.forEach((w, j) => {
    if (!(w > 0)) failField(`${path}.weights[${j}]`, 'a positive number', w)
    sum += w
  })
  if (!(Math.abs(sum - 1) <= 1e-9)) failField(`${path}.weights`, 'a sum of 1', sum)
  const means: Matrix = matrixAt(fields.means, `${path}.means`)
  wholeAt(means.rows, `${path}.means.rows`, k, k)
  wholeAt(means.cols, `${path}.means.cols`, dimension, dimension)
  const factors = (length: number) => numbersAt(fields.precisionCholesky, `${path}.precisionCholesky`, length)
  switch (fields.covarianceType) {
    case 'diagonal':
      return {
        covarianceType: 'diagonal',
        weights,
        means,
        precisionCholesky: positive(factors(k * dimension), path),
      }
    case 'spherical':
      return { covarianceType: 'spherical', weights, means, precisionCholesky: positive(factors(k), path) }
    case 'tied':
      return {
        covarianceType: 'tied',
        weights,
        means,
        precisionCholesky: lowerTriangular(factors(dimension * dimension), dimension, path),
      }
    default:
      return failField(`${path}.covarianceType`, 'diagonal, tied or spherical', fields.covarianceType)
  }
}

function positive(values: Float64Array, path: string): Float64Array {
  values.forEach((v, at) => {
    if (!(v > 0)) failField(`${path}.precisionCholesky[${at}]`, 'a positive number', v)
  })
  return values
}

function lowerTriangular(values: Float64Array, d: number, path: string): Float64Array {
  for (let a = 0; a < d; a++) {
    for (let b = a; b < d; b++) {
      const v = values[a * d + b]!
      const field = `${path}.precisionCholesky[${a * d + b}]`
      if (a === b && !(v > 0)) failField(field, 'a positive number on the diagonal', v)
      if (a !== b && v !== 0) failField(field, '0 above the diagonal', v)
    }
  }
  return values
}

/**
 * From clusters to a mixture of one covariance type.
 *
 * The start is the M-step on the clusters' memberships. The authors' program adds the regularisation to the starting
 * precisions of full covariances alone, so nothing is added here.
 */

interface ClusteredRows {
  /** The rows that were clustered: all that EM sees, or a sample. */
  readonly points: Matrix
  readonly clustering: Clustering
  /** Labels of the clusters that become components. */
  readonly kept: ArrayLike<number>
}

/** `points` n × d, n ≥ 1. Throws DataError. */
export function fitTypedMixture(
  points: Matrix,
  start: ClusteredRows,
  covarianceType: TypedCovarianceType,
  em: EmParameters,
  onStep?: (step: number) => void,
): FittedFromStart<TypedMixture> {
  const notes: string[] = []
  const kept = nonEmptyClusters(start, notes)
  const memberships = clusterMemberships(start.clustering, kept)
  const startWith = (regularisation: number) =>
    mixtureOf(covarianceType, momentsOf(covarianceType, start.points, memberships, regularisation))
  const fitted = fitFromStart<TypedMixture>(points, em, startWith, onStep)
  return { ...fitted, notes: [...notes, ...fitted.notes] }
}

function nonEmptyClusters({ clustering, kept }: ClusteredRows, notes: string[]): number[] {
  const sizes = new Uint32Array(clustering.count)
  for (const label of clustering.labels) sizes[label] = sizes[label]! + 1
  const filled = Array.from(kept).filter((label) => (sizes[label] ?? 0) > 0)
  if (filled.length === 0) {
    throw new DataError('no cluster has rows: there is nothing to start a mixture from', 'k')
  }
  if (filled.length < kept.length) {
    notes.push(`${kept.length - filled.length} clusters without rows were left out`)
  }
  return filled
}

interface MixtureBase {
  /** Length k, positive, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
}

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

export type TypedCovarianceType = TypedMixture['covarianceType']

/** Weighted moments of rows: what an M-step finds and what a mixture is made of. */
export interface MixtureMoments {
  /** Length k, positive, sum 1. */
  readonly weights: Float64Array
  /** k × d. */
  readonly means: Matrix
  /** Regularised: k·d variances (diagonal), d·d row-major (tied), k variances (spherical). */
  readonly covariances: Float64Array
}
