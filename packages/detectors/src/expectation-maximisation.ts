/**
 * EM for a Gaussian mixture with full covariances, from a given start.
 *
 * The order of events is scikit-learn's: E-step, mean log-likelihood under the present mixture, M-step; stop
 * when that likelihood has changed by less than the tolerance (the M-step of that round stands) or after so
 * many rounds. Responsibilities come from one set of exponentials, taken after the largest term is out; each
 * component's mass carries 10·2⁻⁵² so that an empty one has a mean and a weight instead of 0/0; covariances
 * are taken about the new means, in a second pass, and get the regularisation on their diagonals.
 */
import { createMatrix, exp, log, type Matrix, matrixOf } from '@oddflow/core'
import { precisionCholeskyInPlace } from './gaussian-mixture.js'
import type { MixtureModel } from './model.js'
import { componentLogDensitiesInto, packMixture } from './packed-mixture.js'
import type { EmParameters } from './parameters.js'

export interface EmResult {
  readonly mixture: MixtureModel
  /** Mean log-likelihood before each M-step. */
  readonly meanLogLikelihoods: readonly number[]
  readonly converged: boolean
}

const EMPTY_MASS = 10 * Number.EPSILON

/** undefined when a covariance became singular: a larger regularisation is needed. `points` is n × d. */
export function runEm(
  points: Matrix,
  start: MixtureModel,
  { tolerance, maximumSteps, regularisation }: EmParameters,
  onStep?: (step: number) => void,
): EmResult | undefined {
  const responsibilities = createMatrix(points.rows, start.weights.length)
  const meanLogLikelihoods: number[] = []
  let mixture = start
  let previous = Number.NEGATIVE_INFINITY
  for (let step = 1; step <= maximumSteps; step++) {
    const likelihood = expectation(points, mixture, responsibilities)
    if (!Number.isFinite(likelihood)) return undefined
    meanLogLikelihoods.push(likelihood)
    const next = maximisation(points, responsibilities, regularisation)
    if (next === undefined) return undefined
    mixture = next
    onStep?.(step)
    if (Math.abs(likelihood - previous) < tolerance) return { mixture, meanLogLikelihoods, converged: true }
    previous = likelihood
  }
  return { mixture, meanLogLikelihoods, converged: false }
}

/** Fills `responsibilities` (n × k) and returns the mean log-likelihood. */
export function expectation(points: Matrix, mixture: MixtureModel, responsibilities: Matrix): number {
  const { rows: n, cols: d, data } = points
  const k = mixture.weights.length
  const packed = packMixture(mixture)
  const terms = responsibilities.data
  let total = 0
  for (let i = 0; i < n; i++) {
    const start = i * k
    const end = start + k
    componentLogDensitiesInto(packed, data, i * d, terms, start)
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

/** The mixture of largest expected likelihood; undefined when a covariance is not positive definite. */
export function maximisation(
  points: Matrix,
  responsibilities: Matrix,
  regularisation: number,
): MixtureModel | undefined {
  const { rows: n, cols: d, data } = points
  const k = responsibilities.cols
  const r = responsibilities.data
  const mass = new Float64Array(k)
  const means = new Float64Array(k * d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      mass[j]! += w
      for (let a = 0; a < d; a++) means[j * d + a]! += w * data[i * d + a]!
    }
  }
  for (let j = 0; j < k; j++) {
    mass[j]! += EMPTY_MASS
    for (let a = 0; a < d; a++) means[j * d + a] = means[j * d + a]! / mass[j]!
  }
  const covariances = new Float64Array(k * d * d)
  const difference = new Float64Array(d)
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      const w = r[i * k + j]!
      if (w === 0) continue
      for (let a = 0; a < d; a++) difference[a] = data[i * d + a]! - means[j * d + a]!
      for (let a = 0, at = j * d * d; a < d; a++, at += d) {
        const x = w * difference[a]!
        for (let b = 0; b <= a; b++) covariances[at + b]! += x * difference[b]!
      }
    }
  }
  for (let j = 0; j < k; j++) {
    const at = j * d * d
    for (let a = 0; a < d * d; a++) covariances[at + a] = covariances[at + a]! / mass[j]!
    for (let a = 0; a < d; a++) covariances[at + a * d + a]! += regularisation
  }
  if (precisionCholeskyInPlace(covariances, k, d) >= 0) return undefined
  let total = 0
  for (let j = 0; j < k; j++) {
    mass[j] = mass[j]! / n
    total += mass[j]!
  }
  const weights = mass.map((w) => w / total)
  return { covarianceType: 'full', weights, means: matrixOf(k, d, means), precisionCholesky: covariances }
}
