/**
 * EM for mixtures with diagonal, tied or spherical covariances, from a given start.
 *
 * The order of events is that of expectation-maximisation.ts: E-step, mean log-likelihood under the present
 * mixture, M-step; stop when that likelihood has changed by less than the tolerance (the M-step of that round
 * stands) or after so many rounds.
 */
import { createMatrix, exp, log, type Matrix } from '@oddflow/core'
import type { EmParameters } from '../parameters.js'
import { mixtureOf, momentsOf, packTypedMixture, typedLogDensitiesInto } from './by-covariance-type.js'
import type { TypedMixture } from './typed-mixture.js'

export interface TypedEmResult {
  readonly mixture: TypedMixture
  /** Mean log-likelihood before each M-step. */
  readonly meanLogLikelihoods: readonly number[]
  readonly converged: boolean
}

/** undefined when a covariance became singular or all densities of a point left the range of numbers. */
export function runTypedEm(
  points: Matrix,
  start: TypedMixture,
  { tolerance, maximumSteps, regularisation }: EmParameters,
  onStep?: (step: number) => void,
): TypedEmResult | undefined {
  const responsibilities = createMatrix(points.rows, start.weights.length)
  const meanLogLikelihoods: number[] = []
  let mixture = start
  let previous = Number.NEGATIVE_INFINITY
  for (let step = 1; step <= maximumSteps; step++) {
    const likelihood = typedExpectation(points, mixture, responsibilities)
    if (!Number.isFinite(likelihood)) return undefined
    meanLogLikelihoods.push(likelihood)
    const moments = momentsOf(mixture.covarianceType, points, responsibilities, regularisation)
    const next = mixtureOf(mixture.covarianceType, moments)
    if (next === undefined) return undefined
    mixture = next
    onStep?.(step)
    if (Math.abs(likelihood - previous) < tolerance) return { mixture, meanLogLikelihoods, converged: true }
    previous = likelihood
  }
  return { mixture, meanLogLikelihoods, converged: false }
}

/**
 * Fills `responsibilities` (n × k) and returns the mean log-likelihood, which is not finite when a point has no
 * density under any component.
 */
export function typedExpectation(points: Matrix, mixture: TypedMixture, responsibilities: Matrix): number {
  const { rows: n, cols: d, data } = points
  const k = mixture.weights.length
  const packed = packTypedMixture(mixture)
  const terms = responsibilities.data
  let total = 0
  for (let i = 0; i < n; i++) {
    const start = i * k
    const end = start + k
    typedLogDensitiesInto(packed, data, i * d, terms, start)
    let largest = Number.NEGATIVE_INFINITY
    for (let j = start; j < end; j++) if (terms[j]! > largest) largest = terms[j]!
    let sum = 0
    for (let j = start; j < end; j++) {
      // the largest is out, so what underflows here is nothing beside it
      const e = exp(terms[j]! - largest)
      terms[j] = e
      sum += e
    }
    for (let j = start; j < end; j++) terms[j] = terms[j]! / sum
    total += largest + log(sum)
  }
  return total / n
}
