/**
 * Rows of an owner → a model of its own, and whether what it was learnt from had settled.
 *
 * The model is made as `oddflow train` makes one (trainModel of @oddflow/program, the same parameters), over all rows.
 * Settled is a question to the order of the rows: a second model is made of the earlier half alone, and judges the
 * later half. Where the device does what it did before, it flags what its threshold promises and no more; what it
 * flags beyond that is `unsettledShare`, from 0 (nothing new came) to 1.
 *
 * Runs in a thread of its own (training-worker.ts): plain data in, plain data out, the same bytes for the same rows.
 */
import { type FlowContract, matrixOf, type OnePacketRule } from '@oddflow/core'
import {
  createScoreWorkspace,
  type DetectorOptions,
  encodeModelFile,
  isNovel,
  rowsNeeded,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { trainModel } from '@oddflow/program'

export interface TrainingJob {
  /** n × D, row-major, in the order of their coming. */
  readonly rows: Float64Array
  readonly contract: FlowContract
  readonly onePacketRule: OnePacketRule | null
  readonly falsePositiveRate: number
  readonly seed: number
  readonly oddflowVersion: string
}

export interface TrainedRows {
  /** A model file. */
  readonly file: Uint8Array
  /** n. */
  readonly rows: number
  /** Share of the later half that a model of the earlier half flags, beyond what it promises to flag. */
  readonly unsettledShare: number
}

/** Of `--recipe default` (docs/recipes.md); a device whose rows repeat, as heartbeats do, gets its model all the same. */
const DETECTOR: DetectorOptions = {
  detector: 'oc-kjl-qs',
  bandwidthQuantile: 0.3,
  quantileCompat: 'positive-pairs',
}
/** Rows kept from the fit for the threshold: a fifth, or up to half where it takes so many to keep its promise. */
const LEAST_SHARE = 0.2
const MOST_SHARE = 0.5
/** A half has to be enough for a fit and a threshold: 10 rows each. */
export const LEAST_ROWS = 20

/** Throws DataError for rows that nothing can be learnt from. */
export function trainRows(job: TrainingJob): TrainedRows {
  const { dimension } = job.contract
  const count = job.rows.length / dimension
  const half = Math.floor(count / 2)
  const earlier = modelOf(job, job.rows.subarray(0, half * dimension))
  const later = job.rows.subarray(half * dimension)
  const model = modelOf(job, job.rows)
  return {
    file: encodeModelFile(model),
    rows: count,
    unsettledShare: Math.max(0, novelShare(earlier, later) - earlier.threshold.calibration.bound),
  }
}

function modelOf(job: TrainingJob, rows: Float64Array): SavedModel {
  const { contract, onePacketRule, falsePositiveRate, seed, oddflowVersion } = job
  const count = rows.length / contract.dimension
  return trainModel(
    {
      rows: matrixOf(count, contract.dimension, rows.slice()),
      inputOfRow: new Uint32Array(count),
      contract,
      onePacketRule,
    },
    {
      detector: { ...DETECTOR, scaler: contract.scaler } as DetectorOptions,
      falsePositiveRate,
      calibrationShare: Math.min(MOST_SHARE, Math.max(LEAST_SHARE, rowsNeeded(falsePositiveRate) / count)),
      seed,
      oddflowVersion,
    },
  ).saved
}

function novelShare({ detector, threshold }: SavedModel, rows: Float64Array): number {
  const { dimension } = detector.fitReport
  const count = rows.length / dimension
  const scores = new Float64Array(count)
  scoreSamples(detector, matrixOf(count, dimension, rows.slice()), scores, createScoreWorkspace(detector))
  return scores.reduce((sum, score) => sum + (isNovel(score, threshold) ? 1 : 0), 0) / count
}
