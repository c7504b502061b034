/**
 * checkModel: is this value, wherever it came from, a model that a scorer can trust?
 *
 * Deep: shapes against each other, every number finite, weights positive with sum 1, positive diagonals and
 * zeros above them in the Cholesky factors, positive scales and bandwidth. Scoring trusts what passed here
 * and checks nothing again.
 */
import { ArgumentError, MAXIMUM_DIMENSION, type Matrix } from '@oddflow/core'
import { checkStoredParameters } from './check-parameters.js'
import type {
  DetectorModel,
  EmbeddingModel,
  FitReport,
  MixtureModel,
  ScalerModel,
  SupportGuardModel,
} from './model.js'
import type { CheckedParameters } from './parameters.js'
import { SQUARED_REACH_RANGE } from './support-guard.js'
import { LOWEST_LOG_TAIL, MAXIMUM_KNOTS } from './tail-probability.js'

type Fields = Readonly<Record<string, unknown>>

/**
 * Returns the value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError
 * whose `field` is the path of what is wrong, for example `mixture.weights`.
 */
export function checkModel(value: unknown): DetectorModel {
  const model = fields(value, 'model')
  const parameters = checkStoredParameters(model.parameters)
  if (model.kind !== parameters.detector) fail('kind', parameters.detector, model.kind)
  const embedding = checkEmbedding(fields(model.embedding, 'embedding'), parameters)
  const dimension = embedding.landmarks.cols
  const mixture = checkMixture(fields(model.mixture, 'mixture'), embedding.projection.rows, parameters)
  const supportGuard = checkSupportGuard(model.supportGuard, embedding, parameters)
  const scaler = checkScalerModel(fields(model.scaler, 'scaler'), dimension, parameters)
  const fitReport = checkFitReport(fields(model.fitReport, 'fitReport'), embedding)
  return { kind: parameters.detector, parameters, scaler, embedding, mixture, supportGuard, fitReport }
}

function checkEmbedding(e: Fields, parameters: CheckedParameters): EmbeddingModel {
  if (e.kind !== parameters.embedding.kind) fail('embedding.kind', parameters.embedding.kind, e.kind)
  const bandwidth = finite(e.bandwidth, 'embedding.bandwidth')
  const inverse = 1 / (bandwidth * bandwidth)
  if (!(bandwidth > 0 && inverse > 0 && Number.isFinite(inverse))) {
    fail('embedding.bandwidth', 'a positive number whose square has an inverse', bandwidth)
  }
  const landmarks = matrix(e.landmarks, 'embedding.landmarks')
  const projection = matrix(e.projection, 'embedding.projection')
  sizeUpTo(landmarks.rows, parameters.m, 'embedding.landmarks.rows')
  sizeUpTo(landmarks.cols, MAXIMUM_DIMENSION, 'embedding.landmarks.cols')
  sizeUpTo(projection.rows, parameters.d, 'embedding.projection.rows')
  if (projection.cols !== landmarks.rows) {
    fail('embedding.projection.cols', `${landmarks.rows}, one per landmark`, projection.cols)
  }
  return { kind: parameters.embedding.kind, bandwidth, landmarks, projection }
}

function checkMixture(x: Fields, d: number, { start }: CheckedParameters): MixtureModel {
  if (x.covarianceType !== 'full') fail('mixture.covarianceType', 'full', x.covarianceType)
  const weights = numbers(x.weights, 'mixture.weights')
  const k = weights.length
  sizeUpTo(k, start.kind === 'k-means++' ? start.k : start.maximumClusters, 'mixture.weights')
  let sum = 0
  for (const w of weights) {
    if (!(w > 0)) fail('mixture.weights', 'positive numbers', w)
    sum += w
  }
  if (!(Math.abs(sum - 1) <= 1e-9)) fail('mixture.weights', 'a sum of 1', sum)
  const means = matrix(x.means, 'mixture.means')
  if (means.rows !== k || means.cols !== d)
    fail('mixture.means', `${k} × ${d}`, `${means.rows} × ${means.cols}`)
  const precisionCholesky = numbers(x.precisionCholesky, 'mixture.precisionCholesky')
  if (precisionCholesky.length !== k * d * d) {
    fail('mixture.precisionCholesky', `${k * d * d} numbers`, precisionCholesky.length)
  }
  for (let at = 0; at < precisionCholesky.length; at += d * d) {
    for (let i = 0; i < d; i++) {
      const diagonal = precisionCholesky[at + i * d + i]!
      if (!(diagonal > 0)) fail('mixture.precisionCholesky', 'a positive diagonal', diagonal)
      for (let j = i + 1; j < d; j++) {
        const above = precisionCholesky[at + i * d + j]!
        if (above !== 0) fail('mixture.precisionCholesky', 'zeros above the diagonal', above)
      }
    }
  }
  return { covarianceType: 'full', weights, means, precisionCholesky }
}

function checkSupportGuard(
  value: unknown,
  { landmarks }: EmbeddingModel,
  parameters: CheckedParameters,
): SupportGuardModel | null {
  const given = value ?? null
  if ((given !== null) !== parameters.supportGuard) {
    fail('supportGuard', parameters.supportGuard ? 'a guard' : 'no guard', given === null ? 'none' : 'one')
  }
  if (given === null) return null
  const guard = fields(given, 'supportGuard')
  const squaredReaches = numbers(guard.squaredReaches, 'supportGuard.squaredReaches')
  if (squaredReaches.length !== landmarks.rows) {
    fail('supportGuard.squaredReaches', `${landmarks.rows} numbers, one per landmark`, squaredReaches.length)
  }
  const { low, high } = SQUARED_REACH_RANGE
  for (const v of squaredReaches) {
    if (!(v >= low && v <= high)) fail('supportGuard.squaredReaches', `numbers from ${low} to ${high}`, v)
  }
  return {
    squaredReaches,
    density: checkTailTable(guard.density, 'supportGuard.density'),
    support: checkTailTable(guard.support, 'supportGuard.support'),
  }
}

function checkTailTable(value: unknown, field: string): Matrix {
  const table = matrix(value, field)
  sizeUpTo(table.rows, MAXIMUM_KNOTS, `${field}.rows`)
  if (table.cols !== 2) fail(field, '2 columns', table.cols)
  for (let i = 0; i < table.rows; i++) {
    const number = table.data[2 * i]!
    const logTail = table.data[2 * i + 1]!
    if (!(Math.abs(number) <= -LOWEST_LOG_TAIL)) fail(field, `numbers up to ${-LOWEST_LOG_TAIL}`, number)
    if (!(logTail >= LOWEST_LOG_TAIL && logTail < 0)) fail(field, 'logarithms below 0', logTail)
    if (i === 0) continue
    if (!(number > table.data[2 * i - 2]!)) fail(field, 'ascending numbers', number)
    if (!(logTail > table.data[2 * i - 1]!)) fail(field, 'ascending logarithms', logTail)
  }
  return table
}

function checkScalerModel(s: Fields, dimension: number, parameters: CheckedParameters): ScalerModel {
  if (s.kind !== parameters.scaler) fail('scaler.kind', parameters.scaler, s.kind)
  if (s.kind === 'none') return { kind: 'none' }
  const mean = numbers(s.mean, 'scaler.mean')
  const scale = numbers(s.scale, 'scaler.scale')
  if (mean.length !== dimension) fail('scaler.mean', `${dimension} numbers`, mean.length)
  if (scale.length !== dimension) fail('scaler.scale', `${dimension} numbers`, scale.length)
  for (const v of scale) if (!(v > 0)) fail('scaler.scale', 'positive numbers', v)
  return { kind: 'standard', mean, scale }
}

function checkFitReport(r: Fields, { landmarks, projection }: EmbeddingModel): FitReport {
  const whole = (name: string) => {
    const v = r[name]
    if (typeof v !== 'number' || !Number.isSafeInteger(v) || v < 0)
      fail(`fitReport.${name}`, 'a whole number', v)
    return v as number
  }
  if (typeof r.converged !== 'boolean') fail('fitReport.converged', 'true or false', r.converged)
  if (!Array.isArray(r.notes) || r.notes.length > 100 || !r.notes.every((n) => typeof n === 'string')) {
    fail('fitReport.notes', 'at most 100 sentences', typeof r.notes)
  }
  if (r.dimension !== landmarks.cols) fail('fitReport.dimension', `${landmarks.cols}`, r.dimension)
  if (r.landmarks !== landmarks.rows) fail('fitReport.landmarks', `${landmarks.rows}`, r.landmarks)
  if (r.embeddingDimension !== projection.rows) {
    fail('fitReport.embeddingDimension', `${projection.rows}`, r.embeddingDimension)
  }
  return {
    trainingRows: whole('trainingRows'),
    dimension: landmarks.cols,
    landmarks: landmarks.rows,
    embeddingDimension: projection.rows,
    clustersFound: whole('clustersFound'),
    clustersKept: whole('clustersKept'),
    iterations: whole('iterations'),
    converged: r.converged as boolean,
    meanLogLikelihood: finite(r.meanLogLikelihood, 'fitReport.meanLogLikelihood'),
    regularisation: finite(r.regularisation, 'fitReport.regularisation'),
    notes: [...(r.notes as string[])],
  }
}

function matrix(value: unknown, field: string): Matrix {
  const { rows, cols, data: raw } = fields(value, field)
  const data = numbers(raw, field)
  if (!Number.isSafeInteger(rows) || !Number.isSafeInteger(cols)) fail(field, 'whole rows and cols', rows)
  if (data.length !== (rows as number) * (cols as number)) {
    fail(field, `${String(rows)} × ${String(cols)} numbers`, data.length)
  }
  return { rows: rows as number, cols: cols as number, data }
}

function numbers(value: unknown, field: string): Float64Array {
  if (!(value instanceof Float64Array)) return fail(field, 'a Float64Array', typeof value)
  for (let i = 0; i < value.length; i++) {
    if (!Number.isFinite(value[i]!)) fail(field, 'finite numbers', `${value[i]} at index ${i}`)
  }
  return value
}

function finite(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : fail(field, 'a finite number', value)
}

function sizeUpTo(value: number, high: number, field: string): void {
  if (!(value >= 1 && value <= high)) fail(field, `from 1 to ${high}`, value)
}

function fields(value: unknown, field: string): Fields {
  return value !== null && typeof value === 'object' ? (value as Fields) : fail(field, 'an object', value)
}

function fail(field: string, expected: string, found: unknown): never {
  throw new ArgumentError(`${field}: expected ${expected}, found ${String(found).slice(0, 60)}`, field)
}
