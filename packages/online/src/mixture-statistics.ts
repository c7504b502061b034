/**
 * MixtureStatistics: sufficient statistics of a mixture, to which rows can be added.
 *
 * Each component has the mass s (the sum of its responsibilities), the mean µ, and the scatter S = Σ r (x − µ)(x − µ)ᵀ,
 * with π = s / Σs and Σ = S / s + reg·I. The paper's source ("m_step for updating") subtracts µ'µ'ᵀ, which leaves no
 * digits for means of −142 and variances of 1e-6. This form is algebraically equal and only adds positive semi-definite
 * terms (West, CACM 22, 1979; for two sets of rows Chan, Golub and LeVeque 1979):
 *
 *     S' = S + (s w / s') (x − µ)(x − µ)ᵀ,     s' = s + w
 *
 * The functions change the statistics they are given. A full scatter has k·d·d numbers, lower triangles with zeros
 * above; a diagonal one has k·d.
 */
import { exp, log, type Matrix, matrixOf } from '@oddflow/core'
import { type MixtureModel, mixtureCovariances } from '@oddflow/detectors'
import {
  componentLogDensities,
  type DiagonalMixture,
  type LogDensitiesInto,
  typedMixtureCovariances,
} from '@oddflow/detectors/parts'
import { choleskyInto, invertLowerInPlace } from '@oddflow/linalg'

/** MixtureEvaluator: densities and responsibilities of a changing mixture, full or diagonal, one point at a time. */

export interface MixtureEvaluator {
  readonly k: number
  /** out[at + j] = log(w_j · N(z; µ_j, Σ_j)) for the point at `start`. */
  readonly terms: LogDensitiesInto
}

/** For one caller at a time. */
export function createMixtureEvaluator(mixture: LearningMixture): MixtureEvaluator {
  return { k: mixture.weights.length, terms: componentLogDensities(mixture) }
}

/**
 * The E-step for one point: out[at + j] is the responsibility of component j, with sum 1. Returns its log-density. A
 * point at which every density underflows belongs to no component: zeros and −Infinity.
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

/** Keeps an empty component from 0/0, as in batch EM. */
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

/** Statistics as if the mixture had been fitted to `rows` rows with `regularisation` on the diagonals. */
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
        // a variance equal to the regularization leaves a scatter of 0
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
 * Adds one point, d numbers at `start`, with the given weight: component j gets weight · responsibilities[at + j].
 * Allocates nothing.
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
    // the scatter needs the old mean, so it comes first
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

/** Adds component `from` of `more` to component `j` of `into`, as if one component had the rows of both. */
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

/** The least mass after scaling. A smaller one becomes 0, so that no digits of the scatter remain without the mass. */
export const LEAST_SCALED_MASS = 1e-200

/** Multiplies the weight of every row by `factor`; below 1, this is forgetting. */
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

/** The components listed in `kept`, in that order. */
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

/** Adds a last component; its scatter is that of `mass` rows with the spherical covariance t·I. */
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

/**
 * Limit for a count of rows, and for a sum of masses: up to twice as many, the share of all rows but one is below 1, as a
 * tail table needs.
 */
export const LARGEST_MASS = 2 ** 51

/** The sums are not finite or too large, so they make no mixture. */
export class StatisticsError extends Error {
  override readonly name = 'StatisticsError'
}

/**
 * The mixture of the statistics: the M-step. Every covariance is positive definite: if rounding prevents that, its
 * diagonal is raised as little as needed. Throws StatisticsError for statistics that are not finite.
 */
export function mixtureOfStatistics(
  { covarianceType, d, masses, means, scatters }: MixtureStatistics,
  regularisation: number,
): LearningMixture {
  const k = masses.length
  let total = 0
  for (let j = 0; j < k; j++) total += masses[j]! + EMPTY_MASS
  if (total > LARGEST_MASS) throw new StatisticsError('statistics of a mixture: too many rows')
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
      // a larger diagonal makes every finite matrix positive definite
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

/** The next value to try, starting with a few units in the last place of the largest variance. */
function raised(extra: number, covariance: Float64Array, d: number): number {
  let largest = 0
  for (let a = 0; a < d; a++) largest = Math.max(largest, covariance[a * d + a]!)
  return Math.max(16 * extra, largest * d * 4 * Number.EPSILON)
}

/**
 * Incremental EM: one step for arrivals (Method 1 of the paper's source), and EM to convergence over the kept rows
 * (after each arrival: Method 2).
 *
 * Rows that left the reservoir are the statistics `base`, with the responsibilities they had then. A step takes the
 * kept rows' responsibilities and the mixture of base + Σ weight · responsibilities: EM with a partial E-step (Neal and
 * Hinton 1998), which is batch EM if every row is kept. It stops as batch EM does.
 */

/** Kept embedded rows: `count` points of d numbers, with weights `weights[i]`. */
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

/** EM over the kept points and the base until convergence. Changes none of its arguments. */
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
    const likelihood = addPoints(createMixtureEvaluator(mixture), statistics, kept)
    mixture = mixtureOfStatistics(statistics, regularisation)
    if (Math.abs(likelihood - previous) < tolerance || kept.count === 0) {
      return { mixture, statistics, steps: step, converged: true }
    }
    previous = likelihood
  }
  return { mixture, statistics, steps: maximumSteps, converged: false }
}

/** E-step and sums over points; returns their weighted mean log-likelihood. */
export function addPoints(
  evaluator: MixtureEvaluator,
  statistics: MixtureStatistics,
  { count, points, weights }: WeightedPoints,
): number {
  const { d } = statistics
  const responsibilities = new Float64Array(evaluator.k)
  let likelihood = 0
  let mass = 0
  for (let i = 0; i < count; i++) {
    const weight = weights[i]!
    const at = i * d
    const density = responsibilitiesInto(evaluator, points, at, responsibilities, 0)
    // a point where all densities underflow adds nothing and is not part of the mean
    if (density === Number.NEGATIVE_INFINITY) continue
    addPoint(statistics, points, at, responsibilities, 0, weight)
    likelihood += weight * density
    mass += weight
  }
  return mass > 0 ? likelihood / mass : 0
}
