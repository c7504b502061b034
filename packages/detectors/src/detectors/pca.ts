/**
 * pca: reconstruction error of principal components.
 */

import { createMatrix, DataError, type Matrix } from '@oddflow/core'
import { matrixTimesVector, symmetricEigen } from '@oddflow/linalg'
import type { DetectorDefinition, FitContext } from '../detector.js'
import type { CWriter } from '../export-c/c-text.js'
import { type Fitted, fitStandalone, standalone } from '../families/standalone.js'
import { failField, fieldsAt, literalAt, matrixAt, numbersAt, wholeAt } from '../fields.js'
import type { ModelFrame } from '../model.js'
import { badOption, constant, FRACTION, wholeIn } from '../options.js'
import type { CommonParameters } from '../parameters.js'

/**
 * Reconstruction error of principal components (Jolliffe, "Principal Component Analysis", section 10.1):
 *
 *     score(x) = −‖(x − µ) − UᵀU(x − µ)‖²
 *
 * U (r × D) are the leading eigenvectors of the covariance matrix, the fewest with more than a stated share of the
 * variance, at most D − 1. The residual is squared after it is computed, because ‖x‖² − ‖Ux‖² loses small errors to
 * cancellation. If the arithmetic overflows, the score is −Number.MAX_VALUE. A change of a column that was constant
 * counts in full.
 */

export interface PrincipalComponentsModel {
  readonly kind: 'principal-components'
  /** µ, length D. */
  readonly mean: Float64Array
  /** U, r × D, 1 ≤ r < D: orthonormal rows, largest variance first. */
  readonly components: Matrix
}

/** Scratch for one model and one caller at a time. */
interface PrincipalComponentsWorkspace {
  /** x − µ, then the residual; length D. */
  readonly residual: Float64Array
  /** U(x − µ), length r. */
  readonly coordinates: Float64Array
}

/** The covariance matrix and its decomposition take D² numbers and D³ time. */
const MAXIMUM_COMPONENT_COLUMNS = 1000
/** Below it, squared differences lose digits as denormal numbers. */
const SMALLEST_VARIANCE = 1e-290

/**
 * Fits to 2 to 1,000 columns, without randomness. One of the parameters is null. Throws ArgumentError for more
 * components than D − 1, DataError for rows that cannot be decomposed.
 */
export function fitPrincipalComponents(
  rows: Matrix,
  { varianceShare, components: asked }: Pick<PcaParameters, 'varianceShare' | 'components'>,
): Fitted<PrincipalComponentsModel> {
  const dimension = rows.cols
  if (dimension < 2 || dimension > MAXIMUM_COMPONENT_COLUMNS) {
    throw new DataError(
      `principal components need from 2 to ${MAXIMUM_COMPONENT_COLUMNS} columns, found ${dimension}: use features of another size or another detector`,
      'rows',
    )
  }
  if (asked !== null) wholeAt(asked, 'components', 1, dimension - 1)
  const mean = columnMeans(rows)
  const covariance = covarianceMatrix(rows, mean)
  let total = 0
  for (let t = 0; t < dimension; t++) total += covariance.data[t * dimension + t]!
  if (!(total >= SMALLEST_VARIANCE && total < Number.POSITIVE_INFINITY)) {
    throw new DataError(
      `the variances of the training rows sum to ${total}, outside what can be decomposed: rescale the rows (scaler quantile takes numbers of any size)`,
      'rows',
    )
  }
  // as shares of the variance: QL iterations square entries and would overflow from 1e154 on
  for (let at = 0; at < covariance.data.length; at++) covariance.data[at] = covariance.data[at]! / total
  const { values, vectors } = symmetricEigen(covariance, dimension)
  let held = 0
  let needed = 0
  const sum = values.reduce((a, v) => a + Math.max(v, 0), 0)
  const isEnough = (): boolean => (asked === null ? held > varianceShare! * sum : needed === asked)
  while (needed < dimension && !isEnough()) held += Math.max(values[needed++]!, 0)
  const notes: string[] = []
  const count = Math.min(needed, dimension - 1)
  if (count < needed) {
    held -= Math.max(values[count]!, 0)
    notes.push(
      `components lowered from ${needed} to ${count}: with all ${dimension} there would be no error to measure, so they hold ${((100 * held) / sum).toFixed(1)} % of the variance`,
    )
  }
  const components = { rows: count, cols: dimension, data: vectors.data.slice(0, count * dimension) }
  return {
    model: { kind: 'principal-components', mean, components },
    notes,
  }
}

export function createPrincipalComponentsWorkspace({
  components: { rows: r, cols: dimension },
}: PrincipalComponentsModel): PrincipalComponentsWorkspace {
  return { residual: new Float64Array(dimension), coordinates: new Float64Array(r) }
}

/** out[i] = −squared reconstruction error of row i, finite, at most 0; returns `out`. */
export function scorePrincipalComponents(
  { mean, components }: PrincipalComponentsModel,
  { rows: n, data }: Matrix,
  out: Float64Array,
  { residual, coordinates }: PrincipalComponentsWorkspace,
): Float64Array {
  const { rows: r, cols: dimension, data: u } = components
  for (let i = 0; i < n; i++) {
    const start = i * dimension
    for (let t = 0; t < dimension; t++) residual[t] = data[start + t]! - mean[t]!
    matrixTimesVector(u, r, dimension, residual, 0, coordinates, 0)
    for (let c = 0; c < r; c++) {
      const coordinate = coordinates[c]!
      const at = c * dimension
      for (let t = 0; t < dimension; t++) residual[t] = residual[t]! - coordinate * u[at + t]!
    }
    let error = 0
    for (let t = 0; t < dimension; t++) error += residual[t]! * residual[t]!
    // false for NaN, the result of Infinity − Infinity
    out[i] = error < Number.POSITIVE_INFINITY ? 0 - error : -Number.MAX_VALUE
  }
  return out
}

/** Means relative to the first row, so that equal numbers have exactly that mean. */
function columnMeans({ rows: n, cols, data }: Matrix): Float64Array {
  const mean = new Float64Array(cols)
  for (let i = 1; i < n; i++) {
    for (let t = 0; t < cols; t++) mean[t] = mean[t]! + (data[i * cols + t]! - data[t]!)
  }
  for (let t = 0; t < cols; t++) mean[t] = data[t]! + mean[t]! / n
  return mean
}

function covarianceMatrix({ rows: n, cols, data }: Matrix, mean: Float64Array): Matrix {
  const out = createMatrix(cols, cols)
  const difference = new Float64Array(cols)
  for (let i = 0; i < n; i++) {
    for (let t = 0; t < cols; t++) difference[t] = data[i * cols + t]! - mean[t]!
    for (let a = 0; a < cols; a++) {
      const x = difference[a]!
      if (x === 0) continue
      for (let b = 0, at = a * cols; b <= a; b++, at++) out.data[at] = out.data[at]! + x * difference[b]!
    }
  }
  for (let a = 0; a < cols; a++) {
    for (let b = 0; b <= a; b++) {
      const value = out.data[a * cols + b]! / (n - 1)
      out.data[a * cols + b] = value
      out.data[b * cols + a] = value
    }
  }
  return out
}

/** The value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError. */
export function checkPrincipalComponentsModel(
  value: unknown,
  path = 'principalComponents',
): PrincipalComponentsModel {
  const fields = fieldsAt(value, path)
  const kind = literalAt(fields.kind, `${path}.kind`, 'principal-components')
  const components = matrixAt(fields.components, `${path}.components`)
  const { rows: r, cols: dimension, data } = components
  wholeAt(dimension, `${path}.components.cols`, 2, MAXIMUM_COMPONENT_COLUMNS)
  wholeAt(r, `${path}.components.rows`, 1, dimension - 1)
  const mean = numbersAt(fields.mean, `${path}.mean`, dimension)
  for (let a = 0; a < r; a++) {
    for (let b = 0; b <= a; b++) {
      let product = 0
      for (let t = 0; t < dimension; t++) product += data[a * dimension + t]! * data[b * dimension + t]!
      if (!(Math.abs(product - (a === b ? 1 : 0)) <= 1e-8)) {
        failField(`${path}.components`, 'orthonormal rows', `${product} for rows ${b} and ${a}`)
      }
    }
  }
  return { kind, mean, components }
}

const OWN = {
  /** Components are kept until they hold more than this share of the variance; null beside `components`. */
  varianceShare: constant<number>(0.95, FRACTION),
  components: constant<number | null>(null, wholeIn(1, 999), 'parameters.components'),
}

/** Checked parameters of principal components. */
export interface PcaParameters extends CommonParameters<'pca'> {
  /** null where `components` says how many. */
  readonly varianceShare: number | null
  readonly components: number | null
}

/** Fitted principal components; a score is minus the squared distance from their plane. */
export interface PcaModel extends ModelFrame<PcaParameters> {
  readonly principalComponents: PrincipalComponentsModel
}

export function fitPca(rows: Matrix, parameters: PcaParameters, context: FitContext): PcaModel {
  const { frame, part } = fitStandalone(rows, parameters, context, fitPrincipalComponents)
  return { ...frame, principalComponents: part }
}

export const pca: DetectorDefinition<PcaParameters, PcaModel, typeof OWN> = standalone({
  name: 'pca',
  summary: 'reconstruction error of principal components',
  own: OWN,
  field: 'principalComponents',
  kind: 'principal-components',
  tensors: { mean: 'vector', components: 'matrix' },
  checkParameters(given): PcaParameters {
    const { components, varianceShare } = given.readOwn(OWN)
    if (components !== null && given.has('varianceShare')) {
      throw badOption('varianceShare', 'none beside a number of components', 'one')
    }
    return {
      detector: 'pca',
      scaler: given.read('scaler'),
      varianceShare: components === null ? varianceShare : null,
      components,
    }
  },
  createWorkspace: createPrincipalComponentsWorkspace,
  score: scorePrincipalComponents,
  check(value, { components }, field) {
    const part = checkPrincipalComponentsModel(value, field)
    if (components !== null && part.components.rows !== components) {
      failField(`${field}.components.rows`, `${components}`, part.components.rows)
    }
    return part
  },
  dimensionOf: ({ mean }) => mean.length,
  spaceNumbers: ({ mean, components }) => mean.length + components.data.length,
  facts: ({ components }) => [{ label: 'components', value: `${components.rows} of ${components.cols}` }],
  figures: ({ components }) => ({ components: components.rows }),
  examples: ({ mean }) => ({ rows: 1, cols: mean.length, data: mean }),
})

// ---- C

export function writePca(c: CWriter, { principalComponents }: PcaModel, prefix: string): void {
  const { mean, components } = principalComponents
  const { rows: r, cols } = components
  const means = c.table(`${prefix}mean`, 'double', mean)
  const u = c.table(`${prefix}components`, 'double', components.data)
  c.stackBytes += 8 * (cols + r)
  c.code(`static inline double $${prefix}error(const double *x) {
  double residual[${cols}], coordinates[${r}], error = 0.0;
  int i, t;
  for (t = 0; t < ${cols}; t++) residual[t] = x[t] - ${means}[t];
  for (i = 0; i < ${r}; i++) {
    coordinates[i] = 0.0;
    for (t = 0; t < ${cols}; t++) coordinates[i] += ${u}[i * ${cols} + t] * residual[t];
  }
  for (i = 0; i < ${r}; i++) {
    for (t = 0; t < ${cols}; t++) residual[t] -= coordinates[i] * ${u}[i * ${cols} + t];
  }
  for (t = 0; t < ${cols}; t++) error += residual[t] * residual[t];
  return error;
}
`)
  c.scoreScaled(prefix, `0.0 - $${prefix}error(x)`)
}
