/** One fit of one detector, and its arguments. */
import { ArgumentError, type Matrix, type MatrixLike, type Rng } from '@oddflow/core'
import type { HeldOutScores } from './calibration/held-out.js'
import type { DetectorFit, FitStage } from './detector.js'
import type { DetectorModel } from './model.js'
import { type CheckedParameters, checkExplicitSizes, storedParameters } from './parameters.js'
import { constantColumns } from './scaler.js'
import type { SharedWork } from './shared-work.js'

/** How far a fit has come. */
export interface FitProgress {
  readonly stage: FitStage
  /** Share of the stage that is done, 0 … 1. */
  readonly fraction: number
}

/** Facts about the rows besides their numbers. */
export interface RowOrigin {
  /**
   * The column whose numbers are names, for example services (core's `categoryColumn` of a contract). An ensemble
   * compares a row with rows of the same name; other detectors ignore the column. Absent or null: none.
   */
  readonly categoryColumn?: number | null
  /**
   * Least scale of a column where a detector standardizes rows itself (core's `minimumScale` of a contract). Absent or
   * null: a column without spread gets a tenth of the median scale of the others.
   */
  readonly minimumScale?: number | null
  /** The input of each row, in any numbering. Absent: all come from one. */
  readonly inputs?: Uint32Array
}

/** What a fit can be given besides rows, parameters and an Rng. */
export interface FitOptions extends RowOrigin {
  /** Called from time to time, in the order of the stages; must not change the rows. */
  readonly onProgress?: (progress: FitProgress) => void
}

/** A model, and scores of training rows from when they were held out. */
export interface HeldOutFit<Model extends DetectorModel = DetectorModel> {
  readonly model: Model
  /** null for a detector that holds no rows out: its threshold needs further rows. */
  readonly heldOut: HeldOutScores | null
}

/** Fits a detector to rows that passed `checkedTrainingRows`. Throws as `fitDetector`. */
export function fitChecked(
  detectorFit: DetectorFit,
  rows: Matrix,
  parameters: CheckedParameters,
  options: FitOptions,
  rng: Rng,
  shared: SharedWork,
): HeldOutFit {
  checkExplicitSizes(parameters, rows)
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
  const model = detectorFit(rows, storedParameters(parameters), {
    rng,
    report: (stage: FitStage, fraction: number) => onProgress?.({ stage, fraction }),
    // a detector with a least scale accepts columns without spread
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

export function checkedCategoryColumn(
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

function notesOn(rows: Matrix, categoryColumn: number | null, shared: SharedWork): readonly string[] {
  return shared.once('row notes', [rows, categoryColumn], () => {
    const constant = constantColumns(rows, categoryColumn)
    return constant > 0 ? [`${constant} of ${rows.cols} columns are constant in the training rows`] : []
  })
}
