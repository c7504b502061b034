/**
 * checkModel: is this value, wherever it came from, a model that a scorer can trust?
 *
 * Deep: shapes against each other, every number finite, and what each family asks of its own parts. Scoring
 * trusts what passed here and checks nothing again.
 */

import {
  ArgumentError,
  DataError,
  FormatError,
  MAXIMUM_DIMENSION,
  type Matrix,
  type ScalerName,
} from '@oddflow/core'
import { exponentFactor, LARGEST_FLOAT32, type Precision } from '@oddflow/linalg'
import { checkStoredParameters } from './check-parameters.js'
import type { ModelHead } from './detector.js'
import type {
  DetectorModel,
  EmbeddingModel,
  FitReport,
  MixtureModel,
  QuantileScaler,
  ScalerModel,
} from './model.js'
import { DETECTORS } from './registry.js'
import { QUANTILE_STEPS, scaledWidth } from './scaler.js'

/**
 * Reading the fields of a value that claims to be a model.
 *
 * A model file is written by anyone, so each field is looked at before it is believed: its type, its length,
 * that every number is finite. What is wrong is thrown as a FormatError whose `field` is the path of the
 * culprit. A found value is described, never converted: an object of a hostile file may have a `toString` of
 * its own.
 */

export type Fields = Readonly<Record<string, unknown>>

export function fieldsOf(value: unknown, field: string): Fields {
  return value !== null && typeof value === 'object'
    ? (value as Fields)
    : refuseField(field, 'an object', value)
}

/** A Float64Array of finite numbers, of `length` when that is given; not copied. */
export function float64Field(value: unknown, field: string, length?: number): Float64Array {
  if (!(value instanceof Float64Array)) return refuseField(field, 'a Float64Array', value)
  if (length !== undefined && value.length !== length) refuseField(field, `${length} numbers`, value.length)
  for (let i = 0; i < value.length; i++) {
    if (!Number.isFinite(value[i]!)) refuseField(`${field}[${i}]`, 'a finite number', value[i])
  }
  return value
}

/** An Int32Array, of `length` when that is given; not copied. */
export function int32Field(value: unknown, field: string, length?: number): Int32Array {
  if (!(value instanceof Int32Array)) return refuseField(field, 'an Int32Array', value)
  if (length !== undefined && value.length !== length) refuseField(field, `${length} numbers`, value.length)
  return value
}

/** A matrix of finite numbers with at least one row and one column; its data are not copied. */
export function matrixField(value: unknown, field: string): Matrix {
  const { rows, cols, data } = fieldsOf(value, field)
  const height = wholeField(rows, `${field}.rows`, 1, Number.MAX_SAFE_INTEGER)
  const width = wholeField(cols, `${field}.cols`, 1, Number.MAX_SAFE_INTEGER)
  return { rows: height, cols: width, data: float64Field(data, `${field}.data`, height * width) }
}

export function finiteField(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? value
    : refuseField(field, 'a finite number', value)
}

export function wholeField(value: unknown, field: string, low: number, high: number): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= low && value <= high
    ? value
    : refuseField(field, `a whole number from ${low} to ${high}`, value)
}

export function literalField<T extends string>(value: unknown, field: string, expected: T): T {
  return value === expected ? expected : refuseField(field, JSON.stringify(expected), value)
}

/** Throws FormatError. */
export function refuseField(field: string, expected: string, found: unknown): never {
  throw new FormatError('model', `${field}: expected ${expected}, found ${describeValue(found)}`, { field })
}

/** A found value in a message: never converted, never longer than a line. */
export function describeValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.slice(0, 60))
    case 'number':
    case 'boolean':
      return String(value)
    case 'undefined':
      return 'nothing'
    default:
      if (value === null) return 'null'
      if (typeof value !== 'object') return `a value of type ${typeof value}`
      return Array.isArray(value) ? 'a list' : 'an object'
  }
}

/**
 * Rows that a model of precision f32 keeps: landmarks and support vectors, rounded to float32 at the end of the
 * fit, so that the file holds exactly what is computed with.
 *
 * Everything is learnt in float64 and is the same for both precisions: clusters are ill-conditioned, and a model
 * must not depend on a rounding that was meant for its scorer.
 *
 * They stay in Float64Arrays, whose numbers are then float32 numbers; only the file and the kernels hold them in
 * half the space.
 */

/**
 * The rows in that precision: themselves for f64. Throws DataError when a number, or the bandwidth's square, is
 * out of float32's range.
 */
export function rowsInPrecision(rows: Matrix, bandwidth: number, precision: Precision): Matrix {
  if (precision === 'f64') return rows
  for (const value of rows.data) {
    if (Math.abs(value) > LARGEST_FLOAT32) {
      throw new DataError(`rows: ${value} is out of float32's range; take precision f64, or scale`, 'rows')
    }
  }
  try {
    exponentFactor(bandwidth, precision)
  } catch (error) {
    if (error instanceof ArgumentError) throw new DataError(error.message, 'precision')
    throw error
  }
  return { rows: rows.rows, cols: rows.cols, data: rows.data.map(Math.fround) }
}

/** Throws ArgumentError with the path `field` or `bandwidthField`. */
export function checkRowsInPrecision(
  rows: Matrix,
  field: string,
  bandwidth: number,
  bandwidthField: string,
  precision: Precision,
): void {
  if (precision === 'f64') return
  for (const value of rows.data) if (Math.fround(value) !== value) failField(field, 'float32 numbers', value)
  try {
    exponentFactor(bandwidth, precision)
  } catch {
    failField(bandwidthField, "one whose square is in float32's range", bandwidth)
  }
}

/**
 * Returns the value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError or
 * FormatError whose `field` is the path of what is wrong, for example `mixture.weights`.
 */
export function checkModel(value: unknown): DetectorModel {
  const model = fieldsAt(value, 'model')
  const parameters = checkStoredParameters(model.parameters)
  if (model.kind !== parameters.detector) failField('kind', parameters.detector, model.kind)
  const fitReport = checkFitReport(model.fitReport)
  const scaler = checkScalerModel(model.scaler, fitReport.dimension, parameters.scaler)
  const head: ModelHead = { fitReport, dimension: scaledWidth(scaler, fitReport.dimension), scaler }
  return DETECTORS[parameters.detector].checkModel(model, parameters, head)
}

/**
 * Checks of what several families of detectors have in their models: scalers, reports, embeddings, mixtures.
 *
 * Each takes the part and returns it with exactly the known fields; arrays are not copied. What is wrong is an
 * ArgumentError with the path of the culprit.
 */

/** Of rows of `dimension` columns, the category column counted. */
function checkScalerModel(value: unknown, dimension: number, kind: ScalerName): ScalerModel {
  const s = fieldsAt(value, 'scaler')
  if (s.kind !== kind) failField('scaler.kind', kind, s.kind)
  const { categoryColumn } = s
  if (categoryColumn === undefined) return checkScaledColumns(s, dimension, kind)
  if (dimension < 2 || !(wholeAt(categoryColumn, 'scaler.categoryColumn') < dimension)) {
    return failField('scaler.categoryColumn', `one of several columns, here ${dimension}`, categoryColumn)
  }
  return {
    ...checkScaledColumns(s, dimension - 1, kind),
    categoryColumn: wholeAt(categoryColumn, 'scaler.categoryColumn'),
  }
}

function checkScaledColumns(s: Fields, dimension: number, kind: ScalerName): ScalerModel {
  switch (kind) {
    case 'none':
    case 'log':
      return { kind }
    case 'standard':
    case 'log-standard': {
      const mean = numbersAt(s.mean, 'scaler.mean')
      const scale = numbersAt(s.scale, 'scaler.scale')
      if (mean.length !== dimension) failField('scaler.mean', `${dimension} numbers`, mean.length)
      if (scale.length !== dimension) failField('scaler.scale', `${dimension} numbers`, scale.length)
      for (const v of scale) if (!(v > 0)) failField('scaler.scale', 'positive numbers', v)
      return { kind, mean, scale }
    }
    case 'quantile':
      return checkQuantiles(s, dimension)
  }
}

function checkQuantiles(s: Fields, dimension: number): QuantileScaler {
  const { starts } = s
  if (!(starts instanceof Uint32Array)) return failField('scaler.starts', 'a Uint32Array', starts)
  const knots = numbersAt(s.knots, 'scaler.knots')
  const positions = numbersAt(s.positions, 'scaler.positions')
  if (starts.length !== dimension + 1) failField('scaler.starts', `${dimension + 1} numbers`, starts.length)
  if (positions.length !== knots.length) {
    failField('scaler.positions', `${knots.length} numbers, one per knot`, positions.length)
  }
  if (starts[0] !== 0) failField('scaler.starts', '0 first', starts[0])
  if (starts[dimension] !== knots.length) {
    failField('scaler.starts', `${knots.length}, the number of knots, last`, starts[dimension])
  }
  for (let j = 0; j < dimension; j++) {
    const first = starts[j]!
    const end = starts[j + 1]!
    if (!(end > first && end - first <= QUANTILE_STEPS + 1 && end <= knots.length)) {
      failField('scaler.starts', `from 1 to ${QUANTILE_STEPS + 1} knots a column`, end - first)
    }
    for (let i = first; i < end; i++) {
      if (!(positions[i]! >= 0 && positions[i]! <= 1)) {
        failField('scaler.positions', 'numbers from 0 to 1', positions[i])
      }
      if (i === first) continue
      if (!(knots[i]! > knots[i - 1]!)) failField('scaler.knots', 'ascending numbers', knots[i])
      if (!(positions[i]! > positions[i - 1]!)) {
        failField('scaler.positions', 'ascending numbers', positions[i])
      }
    }
    if (!Number.isFinite(knots[end - 1]! - knots[first]!)) {
      failField('scaler.knots', 'a finite range', knots[end - 1])
    }
  }
  return { kind: 'quantile', starts, knots, positions }
}

function checkFitReport(value: unknown): FitReport {
  const r = fieldsAt(value, 'fitReport')
  const { notes, dimension } = r
  if (!Array.isArray(notes) || notes.length > 100 || !notes.every((n) => typeof n === 'string')) {
    failField('fitReport.notes', 'at most 100 sentences', notes)
  }
  if (typeof dimension !== 'number' || !Number.isSafeInteger(dimension)) {
    failField('fitReport.dimension', 'a whole number', dimension)
  }
  sizeUpTo(dimension as number, MAXIMUM_DIMENSION, 'fitReport.dimension')
  return {
    trainingRows: wholeAt(r.trainingRows, 'fitReport.trainingRows'),
    dimension: dimension as number,
    notes: [...(notes as string[])],
  }
}

/** Against the m and d that were asked for, and D. */
export function checkEmbedding(
  value: unknown,
  asked: {
    readonly m: number
    readonly d: number
    readonly precision: Precision
    readonly embedding: { readonly kind: string }
  },
  dimension: number,
): EmbeddingModel {
  const e = fieldsAt(value, 'embedding')
  const { kind } = e
  if (kind !== asked.embedding.kind || (kind !== 'kjl' && kind !== 'nystrom')) {
    return failField('embedding.kind', asked.embedding.kind, kind)
  }
  const bandwidth = finiteAt(e.bandwidth, 'embedding.bandwidth')
  const inverse = 1 / (bandwidth * bandwidth)
  if (!(bandwidth > 0 && inverse > 0 && Number.isFinite(inverse))) {
    failField('embedding.bandwidth', 'a positive number whose square has an inverse', bandwidth)
  }
  const landmarks = matrixAt(e.landmarks, 'embedding.landmarks')
  const projection = matrixAt(e.projection, 'embedding.projection')
  sizeUpTo(landmarks.rows, asked.m, 'embedding.landmarks.rows')
  if (landmarks.cols !== dimension) failField('embedding.landmarks', `${dimension} columns`, landmarks.cols)
  checkRowsInPrecision(landmarks, 'embedding.landmarks', bandwidth, 'embedding.bandwidth', asked.precision)
  sizeUpTo(projection.rows, asked.d, 'embedding.projection.rows')
  if (projection.cols !== landmarks.rows) {
    failField('embedding.projection.cols', `${landmarks.rows}, one per landmark`, projection.cols)
  }
  return { kind, bandwidth, landmarks, projection }
}

/** A full mixture of at most `maximumComponents` in d dimensions. */
export function checkFullMixture(value: unknown, d: number, maximumComponents: number): MixtureModel {
  const x = fieldsAt(value, 'mixture')
  if (x.covarianceType !== 'full') failField('mixture.covarianceType', 'full', x.covarianceType)
  const weights = numbersAt(x.weights, 'mixture.weights')
  const k = weights.length
  sizeUpTo(k, maximumComponents, 'mixture.weights')
  let sum = 0
  for (const w of weights) {
    if (!(w > 0)) failField('mixture.weights', 'positive numbers', w)
    sum += w
  }
  if (!(Math.abs(sum - 1) <= 1e-9)) failField('mixture.weights', 'a sum of 1', sum)
  const means = matrixAt(x.means, 'mixture.means')
  if (means.rows !== k || means.cols !== d) {
    failField('mixture.means', `${k} × ${d}`, `${means.rows} × ${means.cols}`)
  }
  const precisionCholesky = numbersAt(x.precisionCholesky, 'mixture.precisionCholesky')
  if (precisionCholesky.length !== k * d * d) {
    failField('mixture.precisionCholesky', `${k * d * d} numbers`, precisionCholesky.length)
  }
  for (let at = 0; at < precisionCholesky.length; at += d * d) {
    for (let i = 0; i < d; i++) {
      const diagonal = precisionCholesky[at + i * d + i]!
      if (!(diagonal > 0)) failField('mixture.precisionCholesky', 'a positive diagonal', diagonal)
      for (let j = i + 1; j < d; j++) {
        const above = precisionCholesky[at + i * d + j]!
        if (above !== 0) failField('mixture.precisionCholesky', 'zeros above the diagonal', above)
      }
    }
  }
  return { covarianceType: 'full', weights, means, precisionCholesky }
}

export function matrixAt(value: unknown, field: string): Matrix {
  const { rows, cols, data: raw } = fieldsAt(value, field)
  const data = numbersAt(raw, field)
  if (!Number.isSafeInteger(rows) || !Number.isSafeInteger(cols))
    failField(field, 'whole rows and cols', rows)
  if (data.length !== (rows as number) * (cols as number)) {
    failField(field, `${String(rows)} × ${String(cols)} numbers`, data.length)
  }
  return { rows: rows as number, cols: cols as number, data }
}

export function numbersAt(value: unknown, field: string): Float64Array {
  if (!(value instanceof Float64Array)) return failField(field, 'a Float64Array', value)
  for (let i = 0; i < value.length; i++) {
    if (!Number.isFinite(value[i]!)) failField(field, 'finite numbers', `${value[i]} at index ${i}`)
  }
  return value
}

export function finiteAt(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? value
    : failField(field, 'a finite number', value)
}

export function wholeAt(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? value
    : failField(field, 'a whole number', value)
}

export function sizeUpTo(value: number, high: number, field: string): void {
  if (!(value >= 1 && value <= high)) failField(field, `from 1 to ${high}`, value)
}

export function fieldsAt(value: unknown, field: string): Fields {
  return value !== null && typeof value === 'object'
    ? (value as Fields)
    : failField(field, 'an object', value)
}

export function failField(field: string, expected: string, found: unknown): never {
  // text is quoted by nobody here: much of it is the checks' own words
  const shown =
    typeof found === 'string' ? JSON.stringify(found.slice(0, 60)).slice(1, -1) : describeValue(found)
  throw new ArgumentError(`${field}: expected ${expected}, found ${shown}`, field)
}
