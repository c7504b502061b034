/**
 * Is this value a diagonal, tied or spherical mixture that a scorer can trust?
 *
 * Shapes against each other, all numbers finite, weights positive with sum 1, factors positive (for a tied
 * one: positive on the diagonal, zero above it).
 */
import type { Matrix } from '@oddflow/core'
import { fieldsOf, float64Field, matrixField, refuseField, wholeField } from '../model-fields.js'
import type { TypedMixture } from './typed-mixture.js'

/**
 * The value as a mixture of at most `maximumComponents` in `dimension` dimensions with exactly the known fields
 * (arrays are not copied). Throws FormatError whose field begins with `path`.
 */
export function checkTypedMixture(
  value: unknown,
  dimension: number,
  maximumComponents: number,
  path = 'mixture',
): TypedMixture {
  const fields = fieldsOf(value, path)
  const weights = float64Field(fields.weights, `${path}.weights`)
  const k = wholeField(weights.length, `${path}.weights.length`, 1, maximumComponents)
  let sum = 0
  weights.forEach((w, j) => {
    if (!(w > 0)) refuseField(`${path}.weights[${j}]`, 'a positive number', w)
    sum += w
  })
  if (!(Math.abs(sum - 1) <= 1e-9)) refuseField(`${path}.weights`, 'a sum of 1', sum)
  const means: Matrix = matrixField(fields.means, `${path}.means`)
  wholeField(means.rows, `${path}.means.rows`, k, k)
  wholeField(means.cols, `${path}.means.cols`, dimension, dimension)
  const factors = (length: number) =>
    float64Field(fields.precisionCholesky, `${path}.precisionCholesky`, length)
  switch (fields.covarianceType) {
    case 'diagonal':
      return {
        covarianceType: 'diagonal',
        weights,
        means,
        precisionCholesky: positive(factors(k * dimension), path),
      }
    case 'spherical':
      return { covarianceType: 'spherical', weights, means, precisionCholesky: positive(factors(k), path) }
    case 'tied':
      return {
        covarianceType: 'tied',
        weights,
        means,
        precisionCholesky: lowerTriangular(factors(dimension * dimension), dimension, path),
      }
    default:
      return refuseField(`${path}.covarianceType`, 'diagonal, tied or spherical', fields.covarianceType)
  }
}

function positive(values: Float64Array, path: string): Float64Array {
  values.forEach((v, at) => {
    if (!(v > 0)) refuseField(`${path}.precisionCholesky[${at}]`, 'a positive number', v)
  })
  return values
}

function lowerTriangular(values: Float64Array, d: number, path: string): Float64Array {
  for (let a = 0; a < d; a++) {
    for (let b = a; b < d; b++) {
      const v = values[a * d + b]!
      const field = `${path}.precisionCholesky[${a * d + b}]`
      if (a === b && !(v > 0)) refuseField(field, 'a positive number on the diagonal', v)
      if (a !== b && v !== 0) refuseField(field, '0 above the diagonal', v)
    }
  }
  return values
}
