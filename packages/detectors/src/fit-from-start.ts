/**
 * EM from a start that is made anew for each regularisation, until one is large enough.
 *
 * A regularisation that proves too small (a covariance that is singular or out of range, a likelihood that is not
 * finite) is raised tenfold, start and EM run again, up to 1e-3. What was not done as asked is said in the notes.
 */
import { DataError, type Matrix, plural } from '@oddflow/core'
import { type EmResult, runEm } from './expectation-maximisation.js'
import type { Mixture } from './mixtures.js'
import type { EmParameters } from './parameters.js'

export interface FittedFromStart<M extends Mixture> extends EmResult<M> {
  /** What was added to covariance diagonals in the end. */
  readonly regularisation: number
  readonly notes: readonly string[]
}

const LARGEST_REGULARISATION = 1e-3

/**
 * `points` n × d; `startWith` gives the mixture to start from, undefined when the regularisation is too small for one.
 * Throws DataError.
 */
export function fitFromStart<M extends Mixture>(
  points: Matrix,
  em: EmParameters,
  startWith: (regularisation: number) => M | undefined,
  onStep?: (step: number) => void,
): FittedFromStart<M> {
  for (const regularisation of regularisationSteps(em.regularisation)) {
    const start = startWith(regularisation)
    const result = start && runEm(points, start, { ...em, regularisation }, onStep)
    if (result === undefined) continue
    const notes: string[] = []
    if (regularisation !== em.regularisation) {
      notes.push(
        `regularisation raised from ${em.regularisation} to ${regularisation}: a covariance was singular`,
      )
    }
    if (!result.converged) {
      notes.push(`EM stopped after ${em.maximumSteps} steps, short of its tolerance ${em.tolerance}`)
    }
    if (result.removed > 0) {
      notes.push(`${plural(result.removed, 'component')} removed, to which no rows belonged any more`)
    }
    return { ...result, regularisation, notes }
  }
  throw new DataError(
    `a covariance of the mixture stays singular, or its densities out of range, with ${LARGEST_REGULARISATION} on the diagonal: the rows are too large or too alike; use a smaller d or k, or scale the rows in another way`,
    'regularisation',
  )
}

/** The regularisation asked for, then tenfold as often as 1e-3 allows. */
function regularisationSteps(first: number): number[] {
  const steps = [first]
  for (let r = Math.max(first, 1e-12) * 10; r < LARGEST_REGULARISATION; r *= 10) steps.push(r)
  if (first < LARGEST_REGULARISATION) steps.push(LARGEST_REGULARISATION)
  return steps
}
