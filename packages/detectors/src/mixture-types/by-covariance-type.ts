/**
 * One function for the three covariance types, where the caller does not know which it has.
 */
import type { Matrix } from '@oddflow/core'
import { logSumExp } from '@oddflow/linalg'
import {
  covariancesDiagonal,
  logDensitiesDiagonalInto,
  mixtureDiagonal,
  momentsDiagonal,
  type PackedDiagonal,
  packDiagonal,
} from './diagonal.js'
import {
  covariancesSpherical,
  logDensitiesSphericalInto,
  mixtureSpherical,
  momentsSpherical,
  type PackedSpherical,
  packSpherical,
} from './spherical.js'
import {
  covariancesTied,
  logDensitiesTiedInto,
  mixtureTied,
  momentsTied,
  type PackedTied,
  packTied,
} from './tied.js'
import type { MixtureMoments, TypedCovarianceType, TypedMixture } from './typed-mixture.js'

export type PackedTypedMixture = PackedDiagonal | PackedTied | PackedSpherical

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
