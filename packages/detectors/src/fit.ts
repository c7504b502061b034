/**
 * fitDetector: makes a model from normal rows.
 *
 * Rows are checked once, here. Each stage of a fit uses its own fork of the Rng, so a change of one stage does not
 * change the random numbers of the others, and the same seed gives the same model bytes. `fitReport.notes` lists
 * requests that were not met exactly.
 */
import type { Matrix, MatrixLike, Rng } from '@oddflow/core'
import {
  checkedCategoryColumn,
  checkedTrainingRows,
  createSharedWork,
  type FitOptions,
  fitChecked,
  type HeldOutFit,
  NOTHING_SHARED,
  type RowOrigin,
} from './fit-rows.js'
import type { DetectorModel, ModelOf } from './model.js'
import type { CheckedParameters } from './parameters.js'
import { FITS } from './registry.js'

export type { FitStage } from './detector.js'
export type { FitOptions, FitProgress, HeldOutFit, RowOrigin } from './fit-rows.js'

/**
 * Fits a detector to normal rows (n × D, n ≥ 2). `parameters` come from `checkParameters`. The rows are neither changed
 * nor kept. Throws ArgumentError for rows that are not finite numbers of one width, for explicit sizes that need more
 * rows, and for an origin that does not fit the rows; DataError for rows that teach nothing.
 */
export function fitDetector<Parameters extends CheckedParameters>(
  rows: Matrix | MatrixLike,
  parameters: Parameters,
  rng: Rng,
  options: FitOptions = {},
): ModelOf<Parameters['detector']> {
  return fitHoldingOut(rows, parameters, rng, options).model
}

/** As `fitDetector`, with the scores of held-out training rows if the detector has them (an ensemble). */
export function fitHoldingOut<Parameters extends CheckedParameters>(
  rows: Matrix | MatrixLike,
  parameters: Parameters,
  rng: Rng,
  options: FitOptions = {},
): HeldOutFit<ModelOf<Parameters['detector']>> {
  const mayBeEqual = learnsEqualRows(parameters, options)
  const matrix = checkedTrainingRows(rows, mayBeEqual, checkedCategoryColumn(rows, options))
  const fitted = fitChecked(FITS[parameters.detector], matrix, parameters, options, rng, NOTHING_SHARED)
  return fitted as HeldOutFit<ModelOf<Parameters['detector']>>
}

/** Fits any of the parameters it was created for, as `fitDetector` does. */
export type Fitter = (
  parameters: CheckedParameters,
  options?: Pick<FitOptions, 'onProgress'>,
) => DetectorModel

/**
 * A fitter for many parameters over the same rows and Rng. Its models equal those of `fitDetector`, bit for bit. Work
 * shared with the previous fit is reused, so order candidates by scaler, and those that differ only in k together. The
 * rows must not change while it is used. Throws as `fitDetector`.
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
    fitChecked(FITS[parameters.detector], matrix, parameters, { ...origin, ...options }, rng, shared).model
}

/** Whether equal rows teach anything: they need a bandwidth (bandwidth.ts) or columns of a known scale. */
function learnsEqualRows(parameters: CheckedParameters, { minimumScale = null }: RowOrigin): boolean {
  if (parameters.detector === 'ensemble') {
    const { members } = parameters
    return minimumScale !== null && members.every((name) => name === 'nearest' || name === 'hbos')
  }
  return 'quantileCompat' in parameters && parameters.quantileCompat === 'positive-pairs'
}
