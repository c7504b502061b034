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
import type { Matrix } from '@oddflow/core'

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

/** Numbers that a scorer needs. */
export function typedMixtureSpaceNumbers({ weights, means, precisionCholesky }: TypedMixture): number {
  return weights.length + means.data.length + precisionCholesky.length
}
