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
import type { ModelOf } from './model.js'
import type { CheckedParameters } from './parameters.js'
import { DETECTORS } from './registry.js'
import { constantColumns } from './scaler.js'

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
 * changed and not kept. Throws ArgumentError for rows that are not finite numbers of one width, DataError for
 * rows that nothing can be learnt from.
 */
export function fitDetector<Parameters extends CheckedParameters>(
  rows: Matrix | MatrixLike,
  parameters: Parameters,
  rng: Rng,
  { onProgress }: FitOptions = {},
): ModelOf<Parameters['detector']> {
  const matrix = checkedTrainingRows(rows)
  const report = (stage: FitStage, fraction: number) => onProgress?.({ stage, fraction })
  const constant = constantColumns(matrix)
  const rowNotes =
    constant > 0 ? [`${constant} of ${matrix.cols} columns are constant in the training rows`] : []
  const definition = DETECTORS[parameters.detector]
  const model = definition.fit(matrix, parameters, { rng, report, rowNotes })
  return model as ModelOf<Parameters['detector']>
}
