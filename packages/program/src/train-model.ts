/**
 * Rows → a saved model: split off the calibration rows, fit on the others, set the threshold, put everything
 * that a scorer needs into one record. The path that `oddflow train`, its demo and an agent that trains on its gateway share.
 */
import {
  type ColumnFacts,
  categoryColumn,
  createRng,
  DataError,
  type FeatureContract,
  type Matrix,
  minimumScale,
  type OnePacketRule,
  takeRows,
} from '@oddflow/core'
import {
  calibrateGroups,
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  DETECTORS,
  type DetectorModel,
  type DetectorOptions,
  type FitProgress,
  fitHoldingOut,
  type GroupCalibration,
  type HeldOutScores,
  type ParameterSelection,
  type RowOrigin,
  type SavedModel,
  scoreSamples,
  thresholdOfHeldOut,
} from '@oddflow/detectors'
import { type CalibrationSplit, splitCalibration } from './calibration-split.js'
import { hashRows } from './hash-rows.js'
import { UsageError } from './usage-error.js'

export interface TrainingSet {
  readonly rows: Matrix
  /** For each row, the input that it came from, from 0. */
  readonly inputOfRow: Uint32Array
  /** Equal for rows of one device in one input; absent where rows name no devices. */
  readonly deviceOfRow?: Uint32Array
  readonly contract: FeatureContract
  readonly onePacketRule: OnePacketRule | null
  /** Of rows of a file, by their columns' names; absent: what the contract says. */
  readonly columns?: ColumnFacts
}

export interface TrainOptions {
  readonly detector: DetectorOptions
  readonly falsePositiveRate: number
  readonly calibrationShare: number
  readonly seed: number
  /** Of the program that trains, for the model's provenance. */
  readonly oddflowVersion: string
  /** How the detector's options were chosen, where they were. */
  readonly selection?: ParameterSelection
  readonly onProgress?: (progress: FitProgress) => void
}

export interface TrainedModel {
  readonly saved: SavedModel
  readonly split: CalibrationSplit
  /** Of a detector that holds rows out: what they scored, and which are odd. */
  readonly heldOut: HeldOutScores | null
}

/** Fewer rows than this leave nothing to calibrate with. */
const LEAST_ROWS = 10

/** The fork of the seed's Rng that a fit is given. */
export const FIT_STREAM = 'fit'

export interface SplitTrainingSet {
  readonly split: CalibrationSplit
  readonly fit: Matrix
  readonly calibration: Matrix
}

/** The rows to fit on and those to calibrate with, the same each time. Throws DataError where there are too few, and
 * UsageError where the share leaves one side with too few. */
export function splitTrainingSet(
  { rows, inputOfRow }: TrainingSet,
  { seed, calibrationShare, detector }: TrainOptions,
): SplitTrainingSet {
  if (rows.rows < LEAST_ROWS) {
    throw new DataError(
      `only ${rows.rows === 1 ? '1 flow or row' : `${rows.rows} flows or rows`} to learn from, at least ${LEAST_ROWS} are needed (a hundred and more make a useful model): train on a longer capture or on more of them`,
    )
  }
  if (DETECTORS[checkParameters(detector).detector].holdsRowsOut) {
    const all = Uint32Array.from({ length: rows.rows }, (_, i) => i)
    return { split: { method: 'held-out', fit: all, calibration: all }, fit: rows, calibration: rows }
  }
  const split = splitCalibration(inputOfRow, calibrationShare, createRng(seed).fork('calibration'))
  const { length: fitted } = split.fit
  const { length: kept } = split.calibration
  if (fitted < 2) {
    throw new UsageError(
      `--calibration-share ${calibrationShare}: leaves ${fitted} of ${rows.rows} rows to learn from, at least 2 are needed; give a smaller share`,
    )
  }
  if (kept === 0) {
    throw new UsageError(
      `--calibration-share ${calibrationShare}: keeps none of ${rows.rows} rows to set the threshold by; give a larger share`,
    )
  }
  return { split, fit: takeRows(rows, split.fit), calibration: takeRows(rows, split.calibration) }
}

/** What a fit to rows of a training set is told of them. */
export function originOf(
  { contract, inputOfRow, columns }: TrainingSet,
  rows: Uint32Array,
): Required<RowOrigin> {
  return {
    categoryColumn: columns?.categoryColumn ?? categoryColumn(contract),
    minimumScale: columns?.minimumScale ?? minimumScale(contract),
    inputs: Uint32Array.from(rows, (row) => inputOfRow[row]!),
  }
}

export function trainModel(set: TrainingSet, options: TrainOptions): TrainedModel {
  const parameters = checkParameters(options.detector)
  const { split, fit, calibration } = splitTrainingSet(set, options)
  const { model: detector, heldOut } = fitHoldingOut(
    fit,
    parameters,
    createRng(options.seed).fork(FIT_STREAM),
    {
      ...originOf(set, split.fit),
      ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress }),
    },
  )
  return {
    split,
    heldOut,
    saved: {
      detector,
      contract: set.contract,
      threshold:
        heldOut === null
          ? calibrateThreshold(scoresOf(detector, calibration), options.falsePositiveRate)
          : thresholdOfHeldOut(heldOut, options.falsePositiveRate),
      onePacketRule: set.onePacketRule,
      ...(heldOut === null ? {} : { groups: groupsOf(set, heldOut) }),
      provenance: {
        oddflowVersion: options.oddflowVersion,
        seed: options.seed,
        rows: set.rows.rows,
        dataSha256: hashRows(set.rows),
        ...(options.selection === undefined ? {} : { selection: options.selection }),
      },
    },
  }
}

/** Odd rows are no measure of what groups are usually like. */
function groupsOf({ deviceOfRow }: TrainingSet, { scores, inputs, odd }: HeldOutScores): GroupCalibration {
  const isKept = (_: number, row: number): boolean => odd[row] === 0
  return calibrateGroups({
    scores: scores.filter(isKept),
    capture: inputs.filter(isKept),
    ...(deviceOfRow === undefined ? {} : { device: deviceOfRow.filter(isKept) }),
  })
}

function scoresOf(detector: DetectorModel, rows: Matrix): Float64Array {
  return scoreSamples(detector, rows, new Float64Array(rows.rows), createScoreWorkspace(detector))
}
