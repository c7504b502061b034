/**
 * kde: the kernel density estimate over the training rows, or a sample of them.
 */

import {
  log,
  MAXIMUM_DIMENSION,
  type Matrix,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import { DISTANCE_TILE_ROWS, kernelExponentFactor, logSumExp, squaredDistancesOfRows } from '@oddflow/linalg'
import type { DetectorDefinition, FitContext } from '../detector.js'
import { chooseBandwidth } from '../embedding/bandwidth.js'
import { type CWriter, double, parenthesised } from '../export-c/c-text.js'
import { bandwidthFact } from '../families/embedded.js'
import { type Fitted, fitStandalone, standalone } from '../families/standalone.js'
import { bandwidthAt, fieldsAt, literalAt, matrixAt, sizeUpTo, wholeAt } from '../fields.js'
import { NOTHING_SHARED, type SharedWork } from '../fit-rows.js'
import type { ModelFrame } from '../model.js'
import { BANDWIDTH_OPTIONS, constant, type ValuesOf, wholeIn } from '../options.js'
import type { BandwidthParameters, CommonParameters } from '../parameters.js'

/**
 * Kernel density estimation (Rosenblatt 1956, Parzen 1962): one Gaussian on each training row, or on a random sample.
 *
 *     log p(x) = log Σ_j exp(−‖x − c_j‖² / h²) − log n − (D/2)·log(π h²)
 *
 * h is a quantile of pair distances (bandwidth.ts); scikit-learn's KernelDensity has `bandwidth` h/√2. The largest
 * exponent is subtracted first, so far rows keep the order of their distances. Overflowed distances score
 * −Number.MAX_VALUE.
 */

const OWN = {
  /** Rows to place kernels on. */
  maximumRows: constant<number>(5000, wholeIn(1, 1_000_000)),
}

type KernelDensityParameters = Omit<KdeParameters, 'detector' | 'scaler' | 'explicitSizes'>

export interface KernelDensityModel {
  readonly kind: 'kernel-density'
  /** h, in the units of the (scaled) rows. */
  readonly bandwidth: number
  /** n × D, training rows. */
  readonly centres: Matrix
}

/** Scratch memory for one model and one caller; keeps only constants between calls. */
interface KernelDensityWorkspace {
  readonly model: KernelDensityModel
  /** −1/h². */
  readonly exponentFactor: number
  /** −log n − (D/2)·log(π h²). */
  readonly logNormaliser: number
  /** DISTANCE_TILE_ROWS × n squared distances, then exponents. */
  readonly terms: Float64Array
}

const MAXIMUM_CENTRES = 1_000_000

/**
 * Draws from the forks `bandwidth` (above the row limit of pairDistanceQuantiles) and `centres` (above `maximumRows`)
 * of `rng`. Throws DataError if no bandwidth fits.
 */
export function fitKernelDensity(
  rows: Matrix,
  { bandwidthQuantile, maximumRows, ...rule }: KernelDensityParameters,
  rng: Rng,
  shared: SharedWork = NOTHING_SHARED,
): Fitted<KernelDensityModel> {
  const n = rows.rows
  const { bandwidth, rowsUsed, note } = chooseBandwidth(rows, bandwidthQuantile, rng, rule, shared)
  const notes: string[] = []
  if (rowsUsed < n) notes.push(`the bandwidth is the quantile over a random ${rowsUsed} of ${n} rows`)
  if (note !== null) notes.push(note)
  let centres: Matrix = { ...rows, data: rows.data.slice() }
  if (n > maximumRows) {
    centres = takeRows(rows, sampleWithoutReplacement(n, maximumRows, rng.fork('centres')).sort())
    notes.push(`kernels stand on a random ${maximumRows} of ${n} rows`)
  }
  return { model: { kind: 'kernel-density', bandwidth, centres }, notes }
}

export function createKernelDensityWorkspace(model: KernelDensityModel): KernelDensityWorkspace {
  const { bandwidth, centres } = model
  return {
    model,
    exponentFactor: kernelExponentFactor(bandwidth),
    logNormaliser: -log(centres.rows) - centres.cols * (0.5 * log(Math.PI) + log(bandwidth)),
    terms: new Float64Array(DISTANCE_TILE_ROWS * centres.rows),
  }
}

/** out[i] = log p(row i), finite; returns `out`. */
export function scoreKernelDensity(
  model: KernelDensityModel,
  { rows: n, data }: Matrix,
  out: Float64Array,
  workspace: KernelDensityWorkspace,
): Float64Array {
  const { rows: count, cols: dimension, data: centres } = model.centres
  const { terms } = workspace
  for (let i = 0; i < n; i += DISTANCE_TILE_ROWS) {
    const rows = Math.min(DISTANCE_TILE_ROWS, n - i)
    squaredDistancesOfRows(data, i * dimension, rows, centres, 0, count, dimension, terms, 0, count)
    for (let r = 0; r < rows; r++) out[i + r] = logDensity(workspace, r * count)
  }
  return out
}

/** From the squared distances at terms[start …], which become exponents. */
function logDensity(workspace: KernelDensityWorkspace, start: number): number {
  const { model, exponentFactor, logNormaliser, terms } = workspace
  const count = model.centres.rows
  const end = start + count
  for (let j = start; j < end; j++) terms[j] = terms[j]! * exponentFactor
  return Math.max(logSumExp(terms, start, count) + logNormaliser, -Number.MAX_VALUE)
}

/** The value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError. */
export function checkKernelDensityModel(value: unknown, path = 'kernelDensity'): KernelDensityModel {
  const fields = fieldsAt(value, path)
  const kind = literalAt(fields.kind, `${path}.kind`, 'kernel-density')
  const bandwidth = bandwidthAt(fields.bandwidth, `${path}.bandwidth`)
  const centres = matrixAt(fields.centres, `${path}.centres`)
  wholeAt(centres.rows, `${path}.centres.rows`, 1, MAXIMUM_CENTRES)
  wholeAt(centres.cols, `${path}.centres.cols`, 1, MAXIMUM_DIMENSION)
  return { kind, bandwidth, centres }
}

/** Checked parameters of a kernel density. */
export interface KdeParameters extends CommonParameters<'kde'>, BandwidthParameters, ValuesOf<typeof OWN> {}

/** A fitted kernel density: training rows and a bandwidth. */
export interface KdeModel extends ModelFrame<KdeParameters> {
  readonly kernelDensity: KernelDensityModel
}

export function fitKde(rows: Matrix, parameters: KdeParameters, context: FitContext): KdeModel {
  const { frame, part } = fitStandalone(rows, parameters, context, fitKernelDensity)
  return { ...frame, kernelDensity: part }
}

export const kde: DetectorDefinition<KdeParameters, KdeModel, typeof OWN> = standalone({
  name: 'kde',
  summary: 'Gaussian kernel density over the training rows',
  settings: [...BANDWIDTH_OPTIONS, 'quantileRows'],
  own: OWN,
  field: 'kernelDensity',
  metadata: ['kind', 'bandwidth'],
  tensors: { centres: 'matrix' },
  createWorkspace: createKernelDensityWorkspace,
  score: scoreKernelDensity,
  check(value, { maximumRows }, field) {
    const part = checkKernelDensityModel(value, field)
    sizeUpTo(part.centres.rows, maximumRows, `${field}.centres.rows`)
    return part
  },
  dimensionOf: ({ centres }) => centres.cols,
  spaceNumbers: ({ centres }) => centres.data.length,
  facts: ({ bandwidth, centres }, parameters) => [
    bandwidthFact(bandwidth, parameters),
    { label: 'kernels', value: `${centres.rows}` },
  ],
  figures: ({ bandwidth, centres }) => ({ bandwidth, kernels: centres.rows }),
  examples: ({ centres }) => centres,
})

// ---- C

export function writeKde(c: CWriter, { kernelDensity }: KdeModel, prefix: string): void {
  const { rows: n, cols, data } = kernelDensity.centres
  const { exponentFactor, logNormaliser } = createKernelDensityWorkspace(kernelDensity)
  c.need('kernel_density')
  const points = c.table(`${prefix}centres`, 'double', data)
  const density = `$kernel_density(x, ${points}, ${n}, ${cols}, ${double(exponentFactor)})`
  c.scoreScaled(prefix, `${density} + ${parenthesised(logNormaliser)}`)
}
