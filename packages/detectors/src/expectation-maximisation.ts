/**
 * EM for a Gaussian mixture with covariances of any type, from a given start.
 *
 * The order of events is scikit-learn's: E-step, mean log-likelihood under the present mixture, M-step; stop
 * when that likelihood has changed by less than the tolerance (the M-step of that round stands) or after so
 * many rounds. Responsibilities come from one set of exponentials, taken after the largest term is out, so nothing
 * overflows and what underflows is nothing beside it.
 *
 * Where ours departs: a component that has less than 1e-6 of one row after an M-step is taken out at once. In
 * scikit-learn it stays, its mean a sum of nothing, which is the origin, and its covariance nothing but the
 * regularisation; an embedding puts rows that are far from everything just there, and would find them normal.
 */
import { exp, log, type Matrix } from '@oddflow/core'
import { componentLogDensities, type Mixture, maximise, withoutEmptyComponents } from './mixtures.js'
import type { EmParameters } from './parameters.js'

export interface EmResult<M extends Mixture = Mixture> {
  readonly mixture: M
  /** Mean log-likelihood before each M-step. */
  readonly meanLogLikelihoods: readonly number[]
  readonly converged: boolean
  /** Components that lost their rows on the way. */
  readonly removed: number
}

/**
 * `points` is n × d. undefined when a covariance became singular or all densities of a point left the range of
 * numbers: a larger regularisation is needed.
 */
export function runEm<M extends Mixture>(
  points: Matrix,
  start: M,
  { tolerance, maximumSteps, regularisation }: EmParameters,
  onStep?: (step: number) => void,
): EmResult<M> | undefined {
  const room = new Float64Array(points.rows * start.weights.length)
  const meanLogLikelihoods: number[] = []
  let mixture = start
  let previous = Number.NEGATIVE_INFINITY
  let converged = false
  for (let step = 1; step <= maximumSteps && !converged; step++) {
    const k = mixture.weights.length
    const responsibilities = { rows: points.rows, cols: k, data: room.subarray(0, points.rows * k) }
    const likelihood = expectation(points, mixture, responsibilities)
    if (!Number.isFinite(likelihood)) return undefined
    meanLogLikelihoods.push(likelihood)
    const next = maximise(mixture, points, responsibilities, regularisation)
    if (next === undefined) return undefined
    mixture = withoutEmptyComponents(next, points.rows)
    onStep?.(step)
    converged = Math.abs(likelihood - previous) < tolerance
    previous = likelihood
  }
  const removed = start.weights.length - mixture.weights.length
  return { mixture, meanLogLikelihoods, converged, removed }
}

/**
 * Fills `responsibilities` (n × k) and returns the mean log-likelihood, which is not finite when a point has no
 * density under any component.
 */
export function expectation(points: Matrix, mixture: Mixture, responsibilities: Matrix): number {
  const { rows: n, cols: d, data } = points
  const k = mixture.weights.length
  const logDensitiesInto = componentLogDensities(mixture)
  const terms = responsibilities.data
  let total = 0
  for (let i = 0; i < n; i++) {
    const start = i * k
    const end = start + k
    logDensitiesInto(data, i * d, terms, start)
    let largest = Number.NEGATIVE_INFINITY
    for (let j = start; j < end; j++) if (terms[j]! > largest) largest = terms[j]!
    let sum = 0
    for (let j = start; j < end; j++) {
      const e = exp(terms[j]! - largest)
      terms[j] = e
      sum += e
    }
    for (let j = start; j < end; j++) terms[j] = terms[j]! / sum
    total += largest + log(sum)
  }
  return total / n
}
