/**
 * fitDetector: normal rows in, a model out.
 *
 * The rows are checked once, here; the rest is the detector's own (families/). Each stage of a fit draws from its
 * own fork of the Rng, so that a change in one leaves the chance of the others alone, and the same seed gives
 * the same model bytes. What could not be done as asked stands in `fitReport.notes`.
 */
import type { Matrix, MatrixLike, Rng } from '@oddflow/core'
import { checkedTrainingRows } from './checked-rows.js'
import {
  checkedCategoryColumn,
  type FitOptions,
  fitChecked,
  type HeldOutFit,
  type RowOrigin,
} from './fit-rows.js'
import type { DetectorModel, ModelOf } from './model.js'
import type { CheckedParameters } from './parameters.js'
import { DETECTORS } from './registry.js'
import { createSharedWork, NOTHING_SHARED } from './shared-work.js'

export type { FitStage } from './detector.js'
export type { FitOptions, FitProgress, HeldOutFit, RowOrigin } from './fit-rows.js'

/**
 * Fits a detector to normal rows (n × D, n ≥ 2). `parameters` come from `checkParameters`. The rows are not
 * changed and not kept. Throws ArgumentError for rows that are not finite numbers of one width, for stated sizes that
 * there are too few rows for and for an origin that does not fit the rows, DataError for rows that nothing can be learned
 * from.
 */
export function fitDetector<Parameters extends CheckedParameters>(
  rows: Matrix | MatrixLike,
  parameters: Parameters,
  rng: Rng,
  options: FitOptions = {},
): ModelOf<Parameters['detector']> {
  return fitHoldingOut(rows, parameters, rng, options).model
}

/** As `fitDetector`, with the scores of held-out training rows where the detector has them: an ensemble's. */
export function fitHoldingOut<Parameters extends CheckedParameters>(
  rows: Matrix | MatrixLike,
  parameters: Parameters,
  rng: Rng,
  options: FitOptions = {},
): HeldOutFit<ModelOf<Parameters['detector']>> {
  const mayBeEqual = learnsEqualRows(parameters, options)
  const matrix = checkedTrainingRows(rows, mayBeEqual, checkedCategoryColumn(rows, options))
  const fitted = fitChecked(DETECTORS[parameters.detector], matrix, parameters, options, rng, NOTHING_SHARED)
  return fitted as HeldOutFit<ModelOf<Parameters['detector']>>
}

/** Fits any of the parameters that it was made for, as `fitDetector` does. */
export type Fitter = (
  parameters: CheckedParameters,
  options?: Pick<FitOptions, 'onProgress'>,
) => DetectorModel

/**
 * A fitter for many parameters over the same rows and Rng. Its models are, bit for bit, those of `fitDetector`; what
 * one fit has in common with the one before it is not done again, so candidates that differ in k alone, and those of
 * one scaler, should follow each other. The rows must not change while it is used. Throws as `fitDetector`.
 */
export function createFitter(
  rows: Matrix | MatrixLike,
  rng: Rng,
  candidates: readonly CheckedParameters[],
  origin: RowOrigin = {},
): Fitter {
  const category = checkedCategoryColumn(rows, origin)
  const mayBeEqual = candidates.every((parameters) => learnsEqualRows(parameters, origin))
  const matrix = checkedTrainingRows(rows, mayBeEqual, category)
  const quantiles = new Set<number>()
  for (const candidate of candidates) {
    if ('bandwidthQuantile' in candidate && candidate.bandwidthQuantile !== null) {
      quantiles.add(candidate.bandwidthQuantile)
    }
  }
  const shared = createSharedWork([...quantiles])
  return (parameters, options = {}) =>
    fitChecked(DETECTORS[parameters.detector], matrix, parameters, { ...origin, ...options }, rng, shared)
      .model
}

/** Whether rows that are all equal teach anything: they have a bandwidth (bandwidth.ts), or columns of a known scale. */
function learnsEqualRows(parameters: CheckedParameters, { minimumScale = null }: RowOrigin): boolean {
  if (parameters.detector === 'ensemble') {
    const { members } = parameters
    return minimumScale !== null && members.every((name) => name === 'nearest' || name === 'hbos')
  }
  return 'quantileCompat' in parameters && parameters.quantileCompat === 'positive-pairs'
}
