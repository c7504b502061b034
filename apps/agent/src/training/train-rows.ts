/**
 * Rows of an owner → a model of its own, and whether what it was learnt from had settled.
 *
 * The model is made as `oddflow train` makes one (trainModel of @oddflow/program, the same parameters), over all rows: of
 * flow summaries an ensemble, whose threshold comes from stretches of time that are held out in turn; of first packets
 * `oc-kjl-qs`, which can learn on, and whose threshold takes rows kept from the fit.
 * Settled is a question to the order of the rows: a second model is made of the earlier half alone, and judges the
 * later half. Where the device does what it did before, it flags what its threshold promises and no more; what it
 * flags beyond that is `unsettledShare`, from 0 (nothing new came) to 1.
 *
 * Runs in a thread of its own (training-worker.ts): plain data in, plain data out, the same bytes for the same rows.
 */
import { type FlowContract, matrixOf, type OnePacketRule } from '@oddflow/core'
import {
  DETECTORS,
  type DetectorOptions,
  encodeModelFile,
  novelRows,
  rowsNeeded,
  type SavedModel,
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
  /** Share of the later half that a model of the earlier half flags, beyond what it promises to flag; 0 where LEAST_ROWS
   * are not there to ask. */
  readonly unsettledShare: number
}

/** Of flow summaries. */
const DETECTOR = { detector: 'ensemble' } as const
/** Of first packets; a device whose rows repeat, as heartbeats do, gets its model all the same. */
const FIRST_PACKETS_DETECTOR = {
  detector: 'oc-kjl-qs',
  bandwidthQuantile: 0.3,
  quantileCompat: 'positive-pairs',
} as const
/** Of a device's rows, each held out as a whole: rows of one minute vouch for each other. */
const STRETCHES = 8
/** Rows kept from the fit for the threshold: a fifth, or up to half where it takes so many to keep its promise. */
const LEAST_SHARE = 0.2
const MOST_SHARE = 0.5
/** A fit and a threshold take so many. */
export const FEWEST_ROWS = 10
/** Of which each half is enough for a fit and a threshold. */
export const LEAST_ROWS = 2 * FEWEST_ROWS

type RowShape = Pick<FlowContract, 'featureSet'>

function detectorOf({ featureSet }: RowShape): typeof DETECTOR | typeof FIRST_PACKETS_DETECTOR {
  return featureSet === 'flow-summary' ? DETECTOR : FIRST_PACKETS_DETECTOR
}

/**
 * The fewest rows with which a threshold keeps its promise. Where rows are held out in turn all of them count but the odd
 * ones, 1 % at most; else half of them do.
 */
export function rowsToLearn(contract: RowShape, falsePositiveRate: number): number {
  const counted = rowsNeeded(falsePositiveRate)
  return DETECTORS[detectorOf(contract).detector].holdsRowsOut ? Math.ceil((100 * counted) / 99) : 2 * counted
}

/** Throws DataError for rows that nothing can be learnt from. */
export function trainRows(job: TrainingJob): TrainedRows {
  const { dimension } = job.contract
  const count = job.rows.length / dimension
  const model = modelOf(job, job.rows)
  return {
    file: encodeModelFile(model),
    rows: count,
    unsettledShare: count < LEAST_ROWS ? 0 : unsettledShareOf(job, Math.floor(count / 2) * dimension),
  }
}

/** @param half - where the later half begins in `rows`. */
function unsettledShareOf(job: TrainingJob, half: number): number {
  const earlier = modelOf(job, job.rows.subarray(0, half))
  return Math.max(0, novelShare(earlier, job.rows.subarray(half)) - earlier.threshold.calibration.bound)
}

function modelOf(job: TrainingJob, rows: Float64Array): SavedModel {
  const { contract, onePacketRule, falsePositiveRate, seed, oddflowVersion } = job
  const count = rows.length / contract.dimension
  const detector = detectorOf(contract)
  const { holdsRowsOut } = DETECTORS[detector.detector]
  return trainModel(
    {
      rows: matrixOf(count, contract.dimension, rows.slice()),
      inputOfRow: Uint32Array.from({ length: count }, (_, row) =>
        holdsRowsOut ? Math.floor((STRETCHES * row) / count) : 0,
      ),
      contract,
      onePacketRule,
    },
    {
      detector: { ...detector, scaler: contract.scaler } as DetectorOptions,
      falsePositiveRate,
      calibrationShare: Math.min(MOST_SHARE, Math.max(LEAST_SHARE, rowsNeeded(falsePositiveRate) / count)),
      seed,
      oddflowVersion,
    },
  ).saved
}

function novelShare(saved: SavedModel, rows: Float64Array): number {
  const { dimension } = saved.detector.fitReport
  const count = rows.length / dimension
  return novelRows(saved, matrixOf(count, dimension, rows.slice())).filter((novel) => novel).length / count
}
