/**
 * MixtureEvaluator: densities and responsibilities of a mixture that learns on, full or diagonal, point by point.
 */
import { exp, log } from '@oddflow/core'
import { componentLogDensities, type LogDensitiesInto } from '../mixtures.js'
import type { LearningMixture } from './mixture-statistics.js'

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
