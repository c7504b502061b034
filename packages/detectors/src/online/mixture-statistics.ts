/**
 * MixtureStatistics: what a mixture remembers of the rows that it was made of, so that more can be added.
 *
 * For each component the mass s (the sum of its responsibilities), the mean µ, and the scatter about that mean,
 * S = Σ r (x − µ)(x − µ)ᵀ. From them come π = s / Σs and Σ = S / s + reg·I, which is the M-step of the paper's
 * source (its commented-out algorithm "m_step for updating"):
 *
 *     µ' = µ + Σ w (x − µ) / s'
 *     Σ' = (s Σ + Σ w x xᵀ) / s' − µ'µ'ᵀ + (s / s') µµᵀ,     s' = s + Σ w
 *
 * Written so, Σ' is a small difference of large numbers: with means of −142 beside variances of 1e-6 nothing is
 * left of it in float64. The centred form is equal in algebra and only ever adds what is positive semi-definite
 * (West, "Updating mean and variance estimates", CACM 22, 1979; for two sets of rows Chan, Golub and LeVeque,
 * "Updating formulae and a pairwise algorithm for computing sample variances", 1979):
 *
 *     S' = S + (s w / s') (x − µ)(x − µ)ᵀ
 *
 * The records are plain; the functions here change the statistics that they are given. Full covariances have
 * scatters of k·d·d numbers, lower triangles with zeros above, diagonal ones k·d.
 */
import { exp, log, type Matrix, matrixOf } from '@oddflow/core'
import { choleskyInto, invertLowerInPlace } from '@oddflow/linalg'
import { typedMixtureCovariances } from '../mixture/covariance-types.js'
import {
  componentLogDensities,
  type LogDensitiesInto,
  mixtureCovariances,
} from '../mixture/gaussian-mixture.js'
import type { DiagonalMixture } from '../mixture/typed-mixture.js'
import type { MixtureModel } from '../model.js'

/**
 * MixtureEvaluator: densities and responsibilities of a mixture that learns on, full or diagonal, point by point.
 */

export interface MixtureEvaluator {
  readonly k: number
  /** out[at + j] = log(w_j · N(z; µ_j, Σ_j)) of the point at `start`. */
  readonly terms: LogDensitiesInto
}

/** For one caller at a time. */
export function createMixtureEvaluator(mixture: LearningMixture): MixtureEvaluator {
  return { k: mixture.weights.length, terms: componentLogDensities(mixture) }
}

/**
 * The E-step of one point: out[at + j] = its responsibility of component j, sum 1; returns its log-density. A point
 * so far away that every density underflows past all numbers belongs to no component: zeros, and −Infinity.
 */
export function responsibilitiesInto(
  evaluator: MixtureEvaluator,
  points: Float64Array,
  start: number,
  out: Float64Array,
  at: number,
): number {
  const end = at + evaluator.k
  evaluator.terms(points, start, out, at)
  let largest = Number.NEGATIVE_INFINITY
  for (let j = at; j < end; j++) if (out[j]! > largest) largest = out[j]!
  if (!Number.isFinite(largest)) {
    out.fill(0, at, end)
    return Number.NEGATIVE_INFINITY
  }
  let sum = 0
  for (let j = at; j < end; j++) {
    const e = exp(out[j]! - largest)
    out[j] = e
    sum += e
  }
  for (let j = at; j < end; j++) out[j] = out[j]! / sum
  return largest + log(sum)
}

/** The mixtures that learn on. */
export type LearningMixture = MixtureModel | DiagonalMixture

export interface MixtureStatistics {
  readonly covarianceType: LearningMixture['covarianceType']
  /** Dimensions of a point. */
  readonly d: number
  /** Length k, not negative. */
  readonly masses: Float64Array
  /** k·d. */
  readonly means: Float64Array
  /** k·d·d, lower triangles, or k·d. */
  readonly scatters: Float64Array
}

/** As in batch EM, what keeps an empty component from 0/0. */
const EMPTY_MASS = 10 * Number.EPSILON

export function scatterSize(covarianceType: MixtureStatistics['covarianceType'], d: number): number {
  return covarianceType === 'full' ? d * d : d
}

/** Of no rows. */
export function emptyStatistics(
  covarianceType: MixtureStatistics['covarianceType'],
  k: number,
  d: number,
): MixtureStatistics {
  return {
    covarianceType,
    d,
    masses: new Float64Array(k),
    means: new Float64Array(k * d),
    scatters: new Float64Array(k * scatterSize(covarianceType, d)),
  }
}

/** As if the mixture had been fitted to `rows` rows with `regularisation` on the diagonals. */
export function statisticsOfMixture(
  mixture: LearningMixture,
  rows: number,
  regularisation: number,
): MixtureStatistics {
  const d = mixture.means.cols
  const size = scatterSize(mixture.covarianceType, d)
  const masses = mixture.weights.map((weight) => weight * rows)
  const scatters =
    mixture.covarianceType === 'full' ? mixtureCovariances(mixture) : typedMixtureCovariances(mixture)
  for (let j = 0; j < masses.length; j++) {
    for (let at = 0; at < size; at++) {
      const row = Math.floor(at / d)
      const isDiagonal = size === d || row === at % d
      const covariance = scatters[j * size + at]!
      if (isDiagonal) {
        // a variance that is nothing but regularisation leaves none behind
        scatters[j * size + at] = masses[j]! * Math.max(0, covariance - regularisation)
      } else {
        scatters[j * size + at] = at % d > row ? 0 : masses[j]! * covariance
      }
    }
  }
  return { covarianceType: mixture.covarianceType, d, masses, means: mixture.means.data.slice(), scatters }
}

export function copyStatistics(statistics: MixtureStatistics): MixtureStatistics {
  return {
    ...statistics,
    masses: statistics.masses.slice(),
    means: statistics.means.slice(),
    scatters: statistics.scatters.slice(),
  }
}

/** Σ of all masses. */
export function totalMass({ masses }: MixtureStatistics): number {
  let sum = 0
  for (const mass of masses) sum += mass
  return sum
}

/**
 * Adds one point, d numbers at `start`, of the given weight: component j gets weight · responsibilities[at + j].
 * Nothing is allocated.
 */
export function addPoint(
  { covarianceType, d, masses, means, scatters }: MixtureStatistics,
  points: Float64Array,
  start: number,
  responsibilities: Float64Array,
  at: number,
  weight: number,
): void {
  const size = scatterSize(covarianceType, d)
  for (let j = 0; j < masses.length; j++) {
    const w = weight * responsibilities[at + j]!
    if (!(w > 0)) continue
    const before = masses[j]!
    const after = before + w
    const share = w / after
    masses[j] = after
    // the differences are to the old mean, so the scatter goes first
    const spread = before * share
    const mean = j * d
    const scatter = j * size
    if (covarianceType === 'full') {
      for (let a = 0; a < d; a++) {
        const x = spread * (points[start + a]! - means[mean + a]!)
        const row = scatter + a * d
        for (let b = 0; b <= a; b++) scatters[row + b]! += x * (points[start + b]! - means[mean + b]!)
      }
    } else {
      for (let a = 0; a < d; a++) {
        const difference = points[start + a]! - means[mean + a]!
        scatters[scatter + a]! += spread * difference * difference
      }
    }
    for (let a = 0; a < d; a++) means[mean + a]! += share * (points[start + a]! - means[mean + a]!)
  }
}

/** Adds `more`, of as many components, to `into`. */
export function addStatistics(into: MixtureStatistics, more: MixtureStatistics): void {
  for (let j = 0; j < into.masses.length; j++) addComponent(into, j, more, j)
}

/** Adds component `from` of `more` to component `j` of `into`: as if the rows of both had come to one. */
export function addComponent(
  into: MixtureStatistics,
  j: number,
  more: MixtureStatistics,
  from: number,
): void {
  const { covarianceType, d, masses, means, scatters } = into
  const size = scatterSize(covarianceType, d)
  const before = masses[j]!
  const w = more.masses[from]!
  if (!(w > 0)) return
  const after = before + w
  const share = w / after
  const spread = before * share
  masses[j] = after
  for (let a = 0; a < d; a++) {
    const difference = more.means[from * d + a]! - means[j * d + a]!
    if (covarianceType === 'full') {
      for (let b = 0; b <= a; b++) {
        const other = more.means[from * d + b]! - means[j * d + b]!
        scatters[j * size + a * d + b]! +=
          more.scatters[from * size + a * d + b]! + spread * difference * other
      }
    } else {
      scatters[j * size + a]! += more.scatters[from * size + a]! + spread * difference * difference
    }
  }
  for (let a = 0; a < d; a++) {
    means[j * d + a]! += share * (more.means[from * d + a]! - means[j * d + a]!)
  }
}

/** What a mass may be scaled down to; below it is none, lest digits of the scatter be left when those of the mass are gone. */
export const LEAST_SCALED_MASS = 1e-200

/** Every row counts `factor` times what it counted: forgetting, where that is below 1. */
export function scaleStatistics({ masses, scatters }: MixtureStatistics, factor: number): void {
  for (let j = 0; j < masses.length; j++) masses[j] = masses[j]! * factor
  for (let i = 0; i < scatters.length; i++) scatters[i] = scatters[i]! * factor
  const size = scatters.length / masses.length
  for (let j = 0; j < masses.length; j++) {
    if (masses[j]! >= LEAST_SCALED_MASS) continue
    masses[j] = 0
    scatters.fill(0, j * size, (j + 1) * size)
  }
}

/** The components whose numbers stand in `kept`, in that order. */
export function takeComponents(
  { covarianceType, d, masses, means, scatters }: MixtureStatistics,
  kept: readonly number[],
): MixtureStatistics {
  const size = scatterSize(covarianceType, d)
  const out = emptyStatistics(covarianceType, kept.length, d)
  kept.forEach((from, j) => {
    out.masses[j] = masses[from]!
    out.means.set(means.subarray(from * d, (from + 1) * d), j * d)
    out.scatters.set(scatters.subarray(from * size, (from + 1) * size), j * size)
  })
  return out
}

/** With one more component, the last; its scatter is that of `mass` rows of the spherical covariance t·I. */
export function withComponent(
  statistics: MixtureStatistics,
  mass: number,
  mean: Float64Array,
  variance: number,
): MixtureStatistics {
  const { covarianceType, d, masses } = statistics
  const k = masses.length
  const size = scatterSize(covarianceType, d)
  const out = emptyStatistics(covarianceType, k + 1, d)
  out.masses.set(masses)
  out.means.set(statistics.means)
  out.scatters.set(statistics.scatters)
  out.masses[k] = mass
  out.means.set(mean.subarray(0, d), k * d)
  for (let a = 0; a < d; a++) {
    out.scatters[k * size + (covarianceType === 'full' ? a * d + a : a)] = mass * variance
  }
  return out
}

/** Sums that have left the finite numbers: no mixture can be made of them. */
export class StatisticsError extends Error {
  override readonly name = 'StatisticsError'
}

/**
 * The mixture that the statistics make: the M-step. Every covariance is positive definite: one that rounding has
 * spoilt gets as little more on its diagonal as it takes. Throws StatisticsError for statistics that are not finite.
 */
export function mixtureOfStatistics(
  { covarianceType, d, masses, means, scatters }: MixtureStatistics,
  regularisation: number,
): LearningMixture {
  const k = masses.length
  let total = 0
  for (let j = 0; j < k; j++) total += masses[j]! + EMPTY_MASS
  for (const numbers of [masses, means, scatters]) checkAllFinite(numbers)
  const weights = Float64Array.from(masses, (mass) => (mass + EMPTY_MASS) / total)
  const centres: Matrix = matrixOf(k, d, means.slice())
  if (covarianceType === 'diagonal') {
    const precisionCholesky = Float64Array.from(scatters, (scatter, at) => {
      const mass = masses[Math.floor(at / d)]! + EMPTY_MASS
      return 1 / Math.sqrt(scatter / mass + regularisation)
    })
    for (const factor of precisionCholesky) {
      if (!(factor > 0)) throw new StatisticsError('statistics of a mixture: not finite')
    }
    return { covarianceType, weights, means: centres, precisionCholesky }
  }
  const precisionCholesky = new Float64Array(k * d * d)
  const covariance = new Float64Array(d * d)
  for (let j = 0; j < k; j++) {
    const mass = masses[j]! + EMPTY_MASS
    let extra = regularisation
    do {
      for (let at = 0; at < d * d; at++) covariance[at] = scatters[j * d * d + at]! / mass
      for (let a = 0; a < d; a++) covariance[a * d + a]! += extra
      // more on the diagonal makes everything positive definite but what is not finite
      checkAllFinite(covariance)
      extra = raised(extra, covariance, d)
    } while (!choleskyInto(covariance, 0, d, precisionCholesky, j * d * d))
    invertLowerInPlace(precisionCholesky, j * d * d, d)
  }
  return { covarianceType, weights, means: centres, precisionCholesky }
}

function checkAllFinite(numbers: Float64Array): void {
  for (let i = 0; i < numbers.length; i++) {
    if (!Number.isFinite(numbers[i]!)) throw new StatisticsError('statistics of a mixture: not finite')
  }
}

/** The next that is tried, from a few units in the last place of the largest variance on. */
function raised(extra: number, covariance: Float64Array, d: number): number {
  let largest = 0
  for (let a = 0; a < d; a++) largest = Math.max(largest, covariance[a * d + a]!)
  return Math.max(16 * extra, largest * d * 4 * Number.EPSILON)
}

/**
 * EM that goes on: one step for what arrives, and to convergence over the rows that are still there.
 *
 * The paper's source has two methods. *Method 1*: one E-step over an arrival under the present mixture, then the
 * M-step that adds it (`updateMixture`); EM to convergence now and then. *Method 2*: to convergence after each.
 *
 * Converging needs rows. They come from a bounded reservoir, each with a weight; what is known of all other rows
 * is the statistics `base`, whose responsibilities stay as they were when their rows left. A round is then
 *
 *     E: responsibilities of the kept rows under the present mixture
 *     M: the mixture of base + Σ weight · responsibilities
 *
 * which is EM with a partial E-step and so raises the same bound as EM does (Neal and Hinton, "A view of the EM
 * algorithm that justifies incremental, sparse, and other variants", 1998). With every row kept and an empty base
 * it is batch EM, and stops by the same rule: the mean log-likelihood of the kept rows before the M-step has
 * changed by less than the tolerance.
 */

/** Embedded rows that are kept: `count` points of d numbers, each counting `weights[i]` times. */
export interface WeightedPoints {
  readonly count: number
  readonly points: Float64Array
  readonly weights: Float64Array
}

interface ConvergenceRule {
  readonly tolerance: number
  readonly maximumSteps: number
  readonly regularisation: number
}

interface Convergence {
  readonly mixture: LearningMixture
  readonly statistics: MixtureStatistics
  readonly steps: number
  readonly converged: boolean
}

/** Method 1: adds points of d numbers from `start` on, each of weight 1, to `statistics`. Returns the new mixture. */
export function updateMixture(
  mixture: LearningMixture,
  statistics: MixtureStatistics,
  points: Float64Array,
  start: number,
  count: number,
  regularisation: number,
): LearningMixture {
  const evaluator = createMixtureEvaluator(mixture)
  addPoints(evaluator, statistics, { count, points, weights: ONES }, start)
  return mixtureOfStatistics(statistics, regularisation)
}

/** EM over the kept points and the base until it converges. Changes nothing that it is given. */
export function convergeMixture(
  start: LearningMixture,
  base: MixtureStatistics,
  kept: WeightedPoints,
  { tolerance, maximumSteps, regularisation }: ConvergenceRule,
): Convergence {
  let mixture = start
  let statistics = base
  let previous = Number.NEGATIVE_INFINITY
  for (let step = 1; step <= maximumSteps; step++) {
    statistics = copyStatistics(base)
    const likelihood = addPoints(createMixtureEvaluator(mixture), statistics, kept, 0)
    mixture = mixtureOfStatistics(statistics, regularisation)
    if (Math.abs(likelihood - previous) < tolerance || kept.count === 0) {
      return { mixture, statistics, steps: step, converged: true }
    }
    previous = likelihood
  }
  return { mixture, statistics, steps: maximumSteps, converged: false }
}

/** E-step and sum over points from `start` on; returns their mean log-likelihood, by weight. */
export function addPoints(
  evaluator: MixtureEvaluator,
  statistics: MixtureStatistics,
  { count, points, weights }: WeightedPoints,
  start: number,
): number {
  const { d } = statistics
  const responsibilities = new Float64Array(evaluator.k)
  let likelihood = 0
  let mass = 0
  for (let i = 0; i < count; i++) {
    const weight = weights === ONES ? 1 : weights[i]!
    const at = start + i * d
    const density = responsibilitiesInto(evaluator, points, at, responsibilities, 0)
    // a point beyond all densities teaches nothing and is no part of the mean
    if (density === Number.NEGATIVE_INFINITY) continue
    addPoint(statistics, points, at, responsibilities, 0, weight)
    likelihood += weight * density
    mass += weight
  }
  return mass > 0 ? likelihood / mass : 0
}

/** Stands for as many weights of 1 as there are points. */
const ONES = new Float64Array(0)
