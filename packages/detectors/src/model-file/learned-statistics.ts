/**
 * Statistics of a mixture that are read from a file: whether rows could have made them.
 *
 * Masses are counts of rows, with a sum below 2⁵³. A scatter over its mass is a covariance: positive semi-definite but
 * for rounding, and no larger than rows that can be learnt from make it (learnable.ts). No mass, no scatter.
 */
import { choleskyInto } from '@oddflow/linalg'
import { failField, fieldsAt, finiteAt, numbersAt } from '../check-parts.js'
import { mixtureOfModel, regularisationOf } from '../online/begin-learning.js'
import { areUpTo, LARGEST_KEPT, LARGEST_MASS } from '../online/learnable.js'
import type { LearningModel } from '../online/learned-state.js'
import { LEAST_SCALED_MASS, type MixtureStatistics, scatterSize } from '../online/mixture-statistics.js'

/** What rounding may leave of a direction without spread, as a share of the largest variance. */
const ROUNDING = 1e-6

export function checkStatistics(
  value: unknown,
  field: string,
  model: LearningModel,
  filled: boolean,
): MixtureStatistics {
  const s = fieldsAt(value, field)
  const { covarianceType, means: centres } = mixtureOfModel(model)
  const { rows: k, cols: d } = centres
  const size = scatterSize(covarianceType, d)
  const masses = numbersAt(s.masses, `${field}.masses`)
  const means = numbersUpTo(LARGEST_KEPT, s.means, `${field}.means`)
  const scatters = numbersAt(s.scatters, `${field}.scatters`)
  if (masses.length !== k) failField(`${field}.masses`, `${k} numbers, one per component`, masses.length)
  if (means.length !== k * d) failField(`${field}.means`, `${k * d} numbers`, means.length)
  if (scatters.length !== k * size) failField(`${field}.scatters`, `${k * size} numbers`, scatters.length)
  let total = 0
  for (const mass of masses) total += rowsAt(mass, `${field}.masses`)
  rowsAt(total, `${field}.masses`)
  if (filled && !(total > 0)) failField(`${field}.masses`, 'a positive sum', total)
  const statistics: MixtureStatistics = { covarianceType, d, masses, means, scatters }
  for (let j = 0; j < k; j++) checkScatter(statistics, j, regularisationOf(model), `${field}.scatters`)
  return statistics
}

function checkScatter(
  { d, covarianceType, masses, scatters }: MixtureStatistics,
  j: number,
  regularisation: number,
  field: string,
): void {
  const size = scatterSize(covarianceType, d)
  const mass = masses[j]!
  const covariance = scatters.slice(j * size, (j + 1) * size)
  let largest = 0
  covariance.forEach((scatter, at) => {
    const row = Math.floor(at / d)
    const col = at % d
    if (size !== d && col > row && scatter !== 0) failField(field, 'zeros above the diagonal', scatter)
    if (size === d || row === col) notNegative(scatter, field)
    if (mass === 0 && scatter !== 0) failField(field, 'zeros where there is no mass', scatter)
    if (mass === 0) return
    covariance[at] = scatter / mass
    if (!(Math.abs(covariance[at]!) <= 4 * LARGEST_KEPT * LARGEST_KEPT)) {
      failField(field, 'no more than rows that can be learnt from make', scatter)
    }
    if (size === d || row === col) largest = Math.max(largest, covariance[at]!)
  })
  // of less mass the last digits are not there
  if (size === d || mass < LEAST_SCALED_MASS) return
  for (let a = 0; a < d; a++) covariance[a * d + a]! += ROUNDING * largest + regularisation + Number.MIN_VALUE
  if (!choleskyInto(covariance, 0, d, covariance, 0)) {
    failField(field, 'positive semi-definite matrices', `another for component ${j}`)
  }
}

/** A Float64Array of numbers of up to that size. */
export function numbersUpTo(most: number, value: unknown, field: string): Float64Array {
  const numbers = numbersAt(value, field)
  if (!areUpTo(most, numbers)) {
    failField(
      field,
      `numbers of up to ${most}`,
      numbers.find((number) => Math.abs(number) > most),
    )
  }
  return numbers
}

/** A number that rows are counted with. */
export function rowsAt(value: unknown, field: string): number {
  const number = notNegative(value, field)
  return number <= LARGEST_MASS ? number : failField(field, `at most ${LARGEST_MASS} rows`, number)
}

function notNegative(value: unknown, field: string): number {
  const number = finiteAt(value, field)
  return number >= 0 ? number : failField(field, 'numbers of 0 or more', number)
}
