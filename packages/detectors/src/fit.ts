/**
 * fitDetector: normal rows in, a model out.
 *
 * The rows are checked once, here; the rest is the detector's own (families/). Each stage of a fit draws from its
 * own fork of the Rng, so that a change in one leaves the chance of the others alone, and the same seed gives
 * the same model bytes. What could not be done as asked stands in `fitReport.notes`.
 */
import { ArgumentError, type Matrix, type MatrixLike, type Rng } from '@oddflow/core'
import type { HeldOutScores } from './calibration/held-out.js'
import { checkedTrainingRows } from './checked-rows.js'
import type { FitStage } from './detector.js'
import type { DetectorModel, ModelOf } from './model.js'
import { type CheckedParameters, holdToStatedSizes, keptParameters } from './parameters.js'
import { DETECTORS } from './registry.js'
import { constantColumns } from './scaler.js'
import { createSharedWork, NOTHING_SHARED, type SharedWork } from './shared-work.js'

export type { FitStage } from './detector.js'

export interface FitProgress {
  readonly stage: FitStage
  /** Share of the stage that is done, 0 … 1. */
  readonly fraction: number
}

/** What a fit may know of its rows beside their numbers. */
export interface RowOrigin {
  /**
   * The column whose numbers are names, for example services (core's `categoryColumn` of a contract). An ensemble
   * compares a row with rows of its name; every other detector leaves the column out. Absent or null: there is none.
   */
  readonly categoryColumn?: number | null
  /**
   * Least scale of a column where a detector standardises rows itself (core's `minimumScale` of a contract). Absent or
   * null: a column without spread gets a tenth of the others' median scale.
   */
  readonly minimumScale?: number | null
  /** Which input each row came from, in any numbering. Absent: all from one. */
  readonly inputs?: Uint32Array
}

export interface FitOptions extends RowOrigin {
  /** Called now and then, in the order of the stages; must not change the rows. */
  readonly onProgress?: (progress: FitProgress) => void
}

/** A model, and what was learnt of the training rows while they were held out. */
export interface HeldOutFit<Model extends DetectorModel = DetectorModel> {
  readonly model: Model
  /** null for a detector that holds none out: its threshold needs rows of its own. */
  readonly heldOut: HeldOutScores | null
}

/**
 * Fits a detector to normal rows (n × D, n ≥ 2). `parameters` come from `checkParameters`. The rows are not
 * changed and not kept. Throws ArgumentError for rows that are not finite numbers of one width, for stated sizes that
 * there are too few rows for and for an origin that does not fit the rows, DataError for rows that nothing can be learnt
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
  const fitted = fitChecked(matrix, parameters, options, rng, NOTHING_SHARED)
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
    fitChecked(matrix, parameters, { ...origin, ...options }, rng, shared).model
}

function fitChecked(
  rows: Matrix,
  parameters: CheckedParameters,
  options: FitOptions,
  rng: Rng,
  shared: SharedWork,
): HeldOutFit {
  holdToStatedSizes(parameters, rows)
  const { onProgress, minimumScale = null, inputs = null } = options
  const categoryColumn = checkedCategoryColumn(rows, options)
  if (minimumScale !== null && !(minimumScale > 0 && minimumScale < Number.POSITIVE_INFINITY)) {
    throw new ArgumentError(`minimumScale: expected a positive number, found ${minimumScale}`, 'minimumScale')
  }
  if (inputs !== null && inputs.length !== rows.rows) {
    throw new ArgumentError(
      `inputs: expected ${rows.rows} numbers, one a row, found ${inputs.length}`,
      'inputs',
    )
  }
  let heldOut: HeldOutScores | null = null
  const model = DETECTORS[parameters.detector].fit(rows, keptParameters(parameters), {
    rng,
    report: (stage: FitStage, fraction: number) => onProgress?.({ stage, fraction }),
    // a detector that is told of a least scale is ready for columns without spread
    rowNotes: minimumScale === null ? notesOn(rows, categoryColumn, shared) : [],
    shared,
    categoryColumn,
    minimumScale,
    inputs,
    reportHeldOut: (scores) => {
      heldOut = scores
    },
  })
  return { model, heldOut }
}

function checkedCategoryColumn(
  rows: Matrix | MatrixLike,
  { categoryColumn = null }: RowOrigin,
): number | null {
  if (categoryColumn === null) return null
  const cols = 'cols' in rows ? rows.cols : rows.columns
  if (!(Number.isInteger(categoryColumn) && categoryColumn >= 0 && categoryColumn < cols && cols > 1)) {
    throw new ArgumentError(
      `categoryColumn: expected one of several columns, here ${cols}, found ${categoryColumn}`,
      'categoryColumn',
    )
  }
  return categoryColumn
}

/** Whether rows that are all equal teach anything: they have a bandwidth (bandwidth.ts), or columns of a known scale. */
function learnsEqualRows(parameters: CheckedParameters, { minimumScale = null }: RowOrigin): boolean {
  if (parameters.detector === 'ensemble') {
    const { members } = parameters
    return minimumScale !== null && members.every((name) => name === 'nearest' || name === 'hbos')
  }
  return 'quantileCompat' in parameters && parameters.quantileCompat === 'positive-pairs'
}

function notesOn(rows: Matrix, categoryColumn: number | null, shared: SharedWork): readonly string[] {
  return shared.once('row notes', [rows, categoryColumn], () => {
    const constant = constantColumns(rows, categoryColumn)
    return constant > 0 ? [`${constant} of ${rows.cols} columns are constant in the training rows`] : []
  })
}
