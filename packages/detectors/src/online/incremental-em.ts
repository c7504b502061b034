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
import { createMixtureEvaluator, type MixtureEvaluator, responsibilitiesInto } from './mixture-evaluator.js'
import {
  addPoint,
  copyStatistics,
  type LearningMixture,
  type MixtureStatistics,
  mixtureOfStatistics,
} from './mixture-statistics.js'

/** Embedded rows that are kept: `count` points of d numbers, each counting `weights[i]` times. */
export interface WeightedPoints {
  readonly count: number
  readonly points: Float64Array
  readonly weights: Float64Array
}

export interface ConvergenceRule {
  readonly tolerance: number
  readonly maximumSteps: number
  readonly regularisation: number
}

export interface Convergence {
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
