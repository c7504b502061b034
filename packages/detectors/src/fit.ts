/**
 * fitDetector: normal rows in, a model out.
 *
 * The rows are checked once, here; the rest is the detector's own (families/). Each stage of a fit draws from its
 * own fork of the Rng, so that a change in one leaves the chance of the others alone, and the same seed gives
 * the same model bytes. What could not be done as asked stands in `fitReport.notes`.
 */
import type { Matrix, MatrixLike, Rng } from '@oddflow/core'
import { checkedTrainingRows } from './checked-rows.js'
import type { FitStage } from './detector-definition.js'
import type { DetectorModel, ModelOf } from './model.js'
import type { CheckedParameters } from './parameters.js'
import { DETECTORS } from './registry.js'
import { constantColumns } from './scaler.js'
import { createSharedWork, NOTHING_SHARED, type SharedWork } from './shared-work.js'
import { holdToStatedSizes, keptParameters } from './stated-sizes.js'

export type { FitStage } from './detector-definition.js'

export interface FitProgress {
  readonly stage: FitStage
  /** Share of the stage that is done, 0 … 1. */
  readonly fraction: number
}

export interface FitOptions {
  /** Called now and then, in the order of the stages; must not change the rows. */
  readonly onProgress?: (progress: FitProgress) => void
}

/**
 * Fits a detector to normal rows (n × D, n ≥ 2). `parameters` come from `checkParameters`. The rows are not
 * changed and not kept. Throws ArgumentError for rows that are not finite numbers of one width and for stated sizes that
 * there are too few rows for, DataError for rows that nothing can be learnt from.
 */
export function fitDetector<Parameters extends CheckedParameters>(
  rows: Matrix | MatrixLike,
  parameters: Parameters,
  rng: Rng,
  options: FitOptions = {},
): ModelOf<Parameters['detector']> {
  const matrix = checkedTrainingRows(rows, learnsEqualRows(parameters))
  const model = fitChecked(matrix, parameters, options, rng, notesOn(matrix), NOTHING_SHARED)
  return model as ModelOf<Parameters['detector']>
}

/** Fits any of the parameters that it was made for, as `fitDetector` does. */
export type Fitter = (parameters: CheckedParameters, options?: FitOptions) => DetectorModel

/**
 * A fitter for many parameters over the same rows and Rng. Its models are, bit for bit, those of `fitDetector`; what
 * one fit has in common with the one before it is not done again, so candidates that differ in k alone, and those of
 * one scaler, should follow each other. The rows must not change while it is used. Throws as `fitDetector`.
 */
export function createFitter(
  rows: Matrix | MatrixLike,
  rng: Rng,
  candidates: readonly CheckedParameters[],
): Fitter {
  const matrix = checkedTrainingRows(rows, candidates.every(learnsEqualRows))
  const rowNotes = notesOn(matrix)
  const quantiles = new Set<number>()
  for (const candidate of candidates) {
    if ('bandwidthQuantile' in candidate && candidate.bandwidthQuantile !== null) {
      quantiles.add(candidate.bandwidthQuantile)
    }
  }
  const shared = createSharedWork([...quantiles])
  return (parameters, options = {}) => fitChecked(matrix, parameters, options, rng, rowNotes, shared)
}

function fitChecked(
  rows: Matrix,
  parameters: CheckedParameters,
  { onProgress }: FitOptions,
  rng: Rng,
  rowNotes: readonly string[],
  shared: SharedWork,
): DetectorModel {
  holdToStatedSizes(parameters, rows)
  const report = (stage: FitStage, fraction: number) => onProgress?.({ stage, fraction })
  return DETECTORS[parameters.detector].fit(rows, keptParameters(parameters), {
    rng,
    report,
    rowNotes,
    shared,
  })
}

/** Whether rows that are all equal have a bandwidth (bandwidth.ts). */
function learnsEqualRows(parameters: CheckedParameters): boolean {
  return 'quantileCompat' in parameters && parameters.quantileCompat === 'positive-pairs'
}

function notesOn(rows: Matrix): string[] {
  const constant = constantColumns(rows)
  return constant > 0 ? [`${constant} of ${rows.cols} columns are constant in the training rows`] : []
}
