/**
 * A component for a point that no component explains: the paper source's "addNewComponent".
 *
 * Its mean is the point x, its covariance t·I with t = vᵀΣv, where Σ is the covariance of the component m that gives
 * x the highest probability (weight times density) and v the unit vector from µ_m to x: as wide as its
 * neighbour is in the direction in which it lies. The other weights become n/(n + 1) of what they were, the new
 * one is 1/(n + 1): one row of mass. Stored densities follow: y ← (n y + f_new) / (n + 1), here in logarithms.
 *
 * The authors' program takes √(vᵀΣ⁻¹v) for t, and for m the component with the largest such number; the text is right.
 */
import { exp, log } from '@oddflow/core'
import { createMixtureEvaluator } from './mixture-evaluator.js'
import {
  type LearningMixture,
  type MixtureStatistics,
  scatterSize,
  withComponent,
} from './mixture-statistics.js'

export interface NewComponent {
  /** With the new component last, of mass 1. */
  readonly statistics: MixtureStatistics
  /** m. */
  readonly parent: number
  /** t, without the regularisation that an M-step adds. */
  readonly variance: number
}

/** For the point of d numbers at `start`. Changes nothing that it is given. */
export function addNewComponent(
  mixture: LearningMixture,
  statistics: MixtureStatistics,
  points: Float64Array,
  start: number,
): NewComponent {
  const { d } = statistics
  const x = points.slice(start, start + d)
  const parent = mostProbableComponent(mixture, points, start)
  const variance = varianceTowards(statistics, parent, x)
  return { statistics: withComponent(statistics, 1, x, variance), parent, variance }
}

/** The component of the largest weight times density; the nearest by mean where all densities underflow. */
export function mostProbableComponent(mixture: LearningMixture, points: Float64Array, start: number): number {
  const evaluator = createMixtureEvaluator(mixture)
  const terms = new Float64Array(evaluator.k)
  evaluator.terms(points, start, terms, 0)
  let best = 0
  for (let j = 1; j < terms.length; j++) if (terms[j]! > terms[best]!) best = j
  return best
}

/** vᵀΣ_j v with v = (x − µ_j)/‖x − µ_j‖; the mean variance where x is the mean itself. */
function varianceTowards(
  { covarianceType, d, masses, means, scatters }: MixtureStatistics,
  j: number,
  x: Float64Array,
): number {
  const size = scatterSize(covarianceType, d)
  const v = x.map((value, a) => value - means[j * d + a]!)
  let square = 0
  for (const value of v) square += value * value
  const entry = (a: number, b: number): number => {
    if (covarianceType === 'diagonal') return a === b ? scatters[j * size + a]! : 0
    return scatters[j * size + Math.max(a, b) * d + Math.min(a, b)]!
  }
  let sum = 0
  for (let a = 0; a < d; a++) {
    if (square === 0) sum += entry(a, a) / d
    else for (let b = 0; b < d; b++) sum += (v[a]! / square) * entry(a, b) * v[b]!
  }
  return masses[j]! > 0 ? Math.max(0, sum) / masses[j]! : 0
}

/** log((n·e^y + e^f) / (n + 1)) for each stored log-density y and the new component's f; `n` rows were there. */
export function rescaleLogDensities(stored: Float64Array, ofNew: Float64Array, n: number): void {
  const old = log(n / (n + 1))
  const fresh = -log(n + 1)
  for (let i = 0; i < stored.length; i++) {
    const a = old + stored[i]!
    const b = fresh + ofNew[i]!
    const high = Math.max(a, b)
    stored[i] = high === Number.NEGATIVE_INFINITY ? high : high + log(exp(a - high) + exp(b - high))
  }
}
