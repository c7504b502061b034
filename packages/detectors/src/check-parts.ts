/**
 * Checks of what several families of detectors have in their models: scalers, reports, embeddings, mixtures.
 *
 * Each takes the part and returns it with exactly the known fields; arrays are not copied. What is wrong is an
 * ArgumentError with the path of the culprit.
 */
import { ArgumentError, MAXIMUM_DIMENSION, type Matrix, type ScalerName } from '@oddflow/core'
import type { Precision } from '@oddflow/linalg'
import type { EmbeddingModel, FitReport, MixtureModel, QuantileScaler, ScalerModel } from './model.js'
import { describeValue, type Fields } from './model-fields.js'
import { checkRowsInPrecision } from './rounded-rows.js'
import { QUANTILE_STEPS } from './scaler.js'

/** Of rows of `dimension` columns, the category column counted. */
export function checkScalerModel(value: unknown, dimension: number, kind: ScalerName): ScalerModel {
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

export function checkFitReport(value: unknown): FitReport {
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
