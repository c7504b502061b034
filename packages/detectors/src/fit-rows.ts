/** One fit of one detector: its arguments, the check of its rows, and the work that several fits share. */
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  DataError,
  MAXIMUM_DIMENSION,
  type Matrix,
  type MatrixLike,
  type Rng,
} from '@oddflow/core'
import type { HeldOutScores } from './calibration/held-out.js'
import type { DetectorFit, FitContext, FitStage } from './detector.js'
import type { DetectorModel } from './model.js'
import { type CheckedParameters, checkExplicitSizes, storedParameters } from './parameters.js'
import { fitScaler, type ScalerModel, type ScalerName, scaleRows } from './scaler.js'

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

/** Columns of one number alone. */
function constantColumns(rows: Matrix, categoryColumn: number | null): number {
  let constant = 0
  for (let j = 0; j < rows.cols; j++) {
    if (j === categoryColumn) continue
    let i = 1
    while (i < rows.rows && rows.data[i * rows.cols + j] === rows.data[j]) i++
    if (i >= rows.rows) constant++
  }
  return constant
}

// ---- training rows

/**
 * Throws ArgumentError for rows that are not finite numbers, and DataError for rows that teach nothing: equal ones,
 * unless `mayBeEqual`, or a category column alone.
 */
export function checkedTrainingRows(
  rows: Matrix | MatrixLike,
  mayBeEqual = false,
  categoryColumn: number | null = null,
): Matrix {
  const matrix = asMatrix(rows)
  if (matrix.rows < 2) {
    throw new DataError(`rows: at least 2 are needed to learn from, found ${matrix.rows}`, 'rows')
  }
  if (matrix.cols < 1 || matrix.cols > MAXIMUM_DIMENSION) {
    throw new ArgumentError(
      `rows: expected from 1 to ${MAXIMUM_DIMENSION} columns, found ${matrix.cols}`,
      'rows',
    )
  }
  checkFinite(matrix, 'rows')
  if (!mayBeEqual && areRowsEqual(matrix, categoryColumn)) {
    throw new DataError(
      'all training rows are equal, and one point is nothing to learn from: train on rows that differ',
      'rows',
    )
  }
  return matrix
}

function areRowsEqual({ cols, data }: Matrix, categoryColumn: number | null): boolean {
  for (let at = cols; at < data.length; at++) {
    if (data[at] !== data[at - cols] && at % cols !== categoryColumn) return false
  }
  return true
}

// ---- shared work

/**
 * Reuses work between fits to the same rows.
 *
 * A parameter search fits the same rows with the same Rng many times. Pair distances do not depend on the quantile, and
 * embedded rows do not depend on the number of components. `once` keeps the latest value of each kind while its inputs
 * stay the same. A step uses only forks of the Rng, so a kept value equals a recomputed one, bit for bit.
 */
export interface SharedWork {
  /** Bandwidth quantiles that later fits will need, so one pass over the pairs finds them all. */
  readonly quantiles: readonly number[]
  /** The value of `make`, or the previous one if `inputs` are the same (Object.is, element by element). */
  once<T>(kind: string, inputs: readonly unknown[], make: () => T): T
}

/** For a single fit. */
export const NOTHING_SHARED: SharedWork = { quantiles: [], once: (_kind, _inputs, make) => make() }

export function createSharedWork(quantiles: readonly number[]): SharedWork {
  const kept = new Map<string, { readonly inputs: readonly unknown[]; readonly value: unknown }>()
  return {
    quantiles,
    once<T>(kind: string, inputs: readonly unknown[], make: () => T): T {
      const found = kept.get(kind)
      if (found?.inputs.every((input, i) => Object.is(input, inputs[i]))) return found.value as T
      const value = make()
      kept.set(kind, { inputs, value })
      return value
    },
  }
}

/** A scaler of that name fitted to the rows, and the scaled rows. */
export function fitScaledRows(
  rows: Matrix,
  kind: ScalerName,
  { shared, categoryColumn }: Pick<FitContext, 'shared' | 'categoryColumn'>,
): { readonly scaler: ScalerModel; readonly scaled: Matrix } {
  return shared.once('scaled rows', [rows, kind, categoryColumn], () => {
    const scaler = fitScaler(rows, kind, categoryColumn)
    return { scaler, scaled: scaleRows(scaler, rows) }
  })
}
