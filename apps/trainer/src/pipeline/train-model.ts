/**
 * Rows → a saved model: split off the calibration rows, fit on the others, set the threshold, put everything
 * that a scorer needs into one record. The path that `train` and `demo` share.
 */
import {
  createRng,
  DataError,
  type FeatureContract,
  type Matrix,
  type OnePacketRule,
  takeRows,
} from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  createScoreWorkspace,
  type DetectorOptions,
  type FitProgress,
  fitDetector,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { VERSION } from '../version.js'
import { type CalibrationSplit, splitCalibration } from './calibration-split.js'
import { hashRows } from './hash-rows.js'

export interface TrainingSet {
  readonly rows: Matrix
  /** For each row, the input that it came from, from 0. */
  readonly inputOfRow: Uint32Array
  readonly contract: FeatureContract
  readonly onePacketRule: OnePacketRule | null
}

export interface TrainOptions {
  readonly detector: DetectorOptions
  readonly falsePositiveRate: number
  readonly calibrationShare: number
  readonly seed: number
  readonly onProgress?: (progress: FitProgress) => void
}

export interface TrainedModel {
  readonly saved: SavedModel
  readonly split: CalibrationSplit
}

/** Fewer rows than this leave nothing to calibrate with. */
const LEAST_ROWS = 10

export function trainModel(set: TrainingSet, options: TrainOptions): TrainedModel {
  const parameters = checkParameters(options.detector)
  const { rows } = set
  if (rows.rows < LEAST_ROWS) {
    throw new DataError(
      `only ${rows.rows === 1 ? '1 flow or row' : `${rows.rows} flows or rows`} to learn from, at least ${LEAST_ROWS} are needed (a hundred and more make a useful model): train on a longer capture or on more of them`,
    )
  }
  const rng = createRng(options.seed)
  const split = splitCalibration(set.inputOfRow, options.calibrationShare, rng.fork('calibration'))
  const detector = fitDetector(
    takeRows(rows, split.fit),
    parameters,
    rng.fork('fit'),
    options.onProgress === undefined ? {} : { onProgress: options.onProgress },
  )
  const calibrationRows = takeRows(rows, split.calibration)
  const scores = new Float64Array(calibrationRows.rows)
  scoreSamples(detector, calibrationRows, scores, createScoreWorkspace(detector))
  return {
    split,
    saved: {
      detector,
      contract: set.contract,
      threshold: calibrateThreshold(scores, options.falsePositiveRate),
      onePacketRule: set.onePacketRule,
      provenance: {
        oddflowVersion: VERSION,
        seed: options.seed,
        rows: rows.rows,
        dataSha256: hashRows(rows),
      },
    },
  }
}
