/**
 * Makes a saved model from rows: splits off the calibration rows, fits on the others, sets the threshold, and combines
 * everything that a scorer needs. `oddflow train`, its demo and an agent that trains on its gateway share it.
 */

import { sha256 } from '@noble/hashes/sha2'
import { bytesToHex } from '@noble/hashes/utils'
import {
  ArgumentError,
  type ColumnFacts,
  categoryColumn,
  createMatrix,
  createRng,
  DataError,
  type FeatureContract,
  type FlowContract,
  type Matrix,
  minimumScale,
  type OnePacketRule,
  type Rng,
  shuffleInPlace,
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
import { type CollectedFlows, extractRecords, type FlowRecord, learnOnePacketRule } from '@oddflow/flows'
import { createDeviceNumbers } from './flow-judge.js'

/** Rows of a block; blocks are never copied as the set grows. */
const BLOCK_ROWS = 4096

/** Gathers the rows of flow records, which come in any order, into a training set in order of their flows' begin. */
export interface TrainingRows {
  /** Takes a record; one without a row is left out. */
  add(record: FlowRecord): void
  /** So far. */
  readonly count: number
  finish(onePacketRule: TrainingSet['onePacketRule']): TrainingSet
}

/** @param checkCount - receives the number of rows whenever a block is allocated for more, and may throw. */
export function createTrainingRows(
  contract: FlowContract,
  checkCount: (rows: number) => void = () => {},
): TrainingRows {
  const { dimension } = contract
  const blocks: Block[] = []
  const deviceNumber = createDeviceNumbers()
  let count = 0
  let isSorted = true
  const blockOf = (row: number): Block => blocks[Math.floor(row / BLOCK_ROWS)]
  const byTurn = (i: number, j: number): number => {
    const [a, b] = [blockOf(i), blockOf(j)]
    const [x, y] = [i % BLOCK_ROWS, j % BLOCK_ROWS]
    return (
      a.inputs[x] - b.inputs[y] ||
      a.starts[x] - b.starts[y] ||
      a.firstPackets[x] - b.firstPackets[y] ||
      a.pieces[x] - b.pieces[y]
    )
  }
  return {
    get count() {
      return count
    },
    add(record) {
      if (record.row === null) return
      if (count === BLOCK_ROWS * blocks.length) {
        checkCount(count + 1)
        blocks.push(createBlock(dimension))
      }
      const block = blockOf(count)
      const at = count % BLOCK_ROWS
      block.rows.set(record.row, at * dimension)
      block.inputs[at] = record.captureIndex
      block.starts[at] = record.flowStartMicros
      block.firstPackets[at] = record.flowFirstPacketNumber
      block.pieces[at] = record.pieceIndex
      block.devices[at] = deviceNumber(record)
      if (count > 0 && isSorted) isSorted = byTurn(count - 1, count) <= 0
      count++
    },
    finish(onePacketRule) {
      const order = rowNumbers(count)
      if (!isSorted) order.sort(byTurn)
      const rows = createMatrix(count, dimension)
      const inputOfRow = new Uint32Array(count)
      const deviceOfRow = new Uint32Array(count)
      const devices = new Map<number, number>()
      order.forEach((row, to) => {
        const block = blockOf(row)
        const at = row % BLOCK_ROWS
        rows.data.set(block.rows.subarray(at * dimension, (at + 1) * dimension), to * dimension)
        inputOfRow[to] = block.inputs[at]
        const device = devices.get(block.devices[at]) ?? devices.size
        devices.set(block.devices[at], device)
        deviceOfRow[to] = device
      })
      blocks.length = 0
      return { rows, inputOfRow, deviceOfRow, contract, onePacketRule }
    },
  }
}

type Block = ReturnType<typeof createBlock>

/** Flows have a start, a first packet and a piece; the row is their record's. */
function createBlock(dimension: number) {
  return {
    rows: new Float64Array(BLOCK_ROWS * dimension),
    inputs: new Uint32Array(BLOCK_ROWS),
    starts: new Float64Array(BLOCK_ROWS),
    firstPackets: new Float64Array(BLOCK_ROWS),
    pieces: new Uint32Array(BLOCK_ROWS),
    devices: new Uint32Array(BLOCK_ROWS),
  }
}

const rowNumbers = (count: number): Uint32Array => Uint32Array.from({ length: count }, (_, row) => row)

/** @param checkCount - as that of createTrainingRows. */
export function trainingSetOf(
  flows: CollectedFlows,
  contract: FlowContract,
  checkCount: (rows: number) => void = () => {},
): TrainingSet {
  const rows = createTrainingRows(contract, checkCount)
  extractRecords(flows, contract, (record) => rows.add(record))
  // a contract with rows for flows of one packet needs no rule for them
  return rows.finish(contract.minimumPackets === 1 ? null : learnOnePacketRule(flows))
}

/**
 * Rows kept from the fit to set the threshold. Rows of one capture resemble each other, and the threshold is for
 * future captures: from five captures on, whole captures are kept until the share is reached (at most twice the
 * share). Otherwise rows are drawn at random.
 */

export interface CalibrationSplit {
  /** `held-out`: the fit uses all rows, and held them out in turn to calibrate. */
  readonly method: 'captures' | 'rows' | 'held-out'
  /** Row numbers, ascending. */
  readonly fit: Uint32Array
  /** Row numbers, ascending. */
  readonly calibration: Uint32Array
}

const LEAST_CAPTURES = 5

/** `captureOfRow[i]` is the capture of row i. At least one row is left to fit. */
export function splitCalibration(captureOfRow: Uint32Array, share: number, rng: Rng): CalibrationSplit {
  const n = captureOfRow.length
  const wanted = Math.min(n - 1, Math.round(share * n))
  const held = new Uint8Array(n)
  const method = wanted > 0 && holdCaptures(captureOfRow, wanted, rng, held) ? 'captures' : 'rows'
  if (method === 'rows') {
    const order = shuffleInPlace(rowNumbers(n), rng)
    for (let i = 0; i < wanted; i++) held[order[i]] = 1
  }
  const numbers = rowNumbers(n)
  return {
    method,
    fit: numbers.filter((i) => held[i] === 0),
    calibration: numbers.filter((i) => held[i] === 1),
  }
}

/** Marks the rows of whole captures; false if that cannot come near the wanted number. */
function holdCaptures(captureOfRow: Uint32Array, wanted: number, rng: Rng, held: Uint8Array): boolean {
  const rowsOf = new Map<number, number>()
  for (const capture of captureOfRow) rowsOf.set(capture, (rowsOf.get(capture) ?? 0) + 1)
  if (rowsOf.size < LEAST_CAPTURES) return false
  const order = shuffleInPlace(Uint32Array.from([...rowsOf.keys()].sort((a, b) => a - b)), rng)
  const most = Math.min(2 * wanted, Math.floor((held.length + wanted) / 2))
  const chosen = new Set<number>()
  let rows = 0
  for (const capture of order) {
    if (rows >= wanted) break
    const more = rowsOf.get(capture) ?? 0
    // a capture that alone would take most of the data is left for the fit
    if (rows + more > most) continue
    chosen.add(capture)
    rows += more
  }
  if (rows < wanted / 2) return false
  for (let i = 0; i < held.length; i++) if (chosen.has(captureOfRow[i])) held[i] = 1
  return true
}

const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1

/**
 * SHA-256 of all training rows as row-major little-endian float64, in hexadecimal: a model's `dataSha256`. Not by
 * node:crypto, since models are trained in browsers too.
 */
export function hashRows({ data }: Matrix): string {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  return bytesToHex(sha256(IS_LITTLE_ENDIAN ? bytes : littleEndian(data)))
}

function littleEndian(data: Float64Array): Uint8Array {
  const view = new DataView(new ArrayBuffer(data.byteLength))
  data.forEach((value, i) => {
    view.setFloat64(8 * i, value, true)
  })
  return new Uint8Array(view.buffer)
}

/** Rows to train on (n × D), where each came from, and how they were made. */
export interface TrainingSet {
  readonly rows: Matrix
  /** For each row, the input that it came from, from 0. */
  readonly inputOfRow: Uint32Array
  /** Equal for rows of one device in one input; absent if rows name no devices. */
  readonly deviceOfRow?: Uint32Array
  readonly contract: FeatureContract
  readonly onePacketRule: OnePacketRule | null
  /** For rows of a file, from their columns' names; absent: from the contract. */
  readonly columns?: ColumnFacts
}

/** How a model is trained. */
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

/** A trained model, and which rows fitted and calibrated it. */
export interface TrainedModel {
  readonly saved: SavedModel
  readonly split: CalibrationSplit
  /** For a detector that holds rows out: their scores, and the odd ones. */
  readonly heldOut: HeldOutScores | null
}

/** Fewer rows than this leave nothing to calibrate with. */
const LEAST_ROWS = 10

/** The fork of the seed's Rng that a fit is given. */
export const FIT_STREAM = 'fit'

interface SplitTrainingSet {
  readonly split: CalibrationSplit
  readonly fit: Matrix
  readonly calibration: Matrix
}

/**
 * The rows for fit and calibration, the same each time. Throws DataError if there are too few, and ArgumentError if the
 * share leaves one side with too few.
 */
export function splitTrainingSet(
  { rows, inputOfRow }: TrainingSet,
  { seed, calibrationShare, detector }: TrainOptions,
): SplitTrainingSet {
  if (rows.rows < LEAST_ROWS) {
    throw new DataError(
      `only ${rows.rows === 1 ? '1 flow or row' : `${rows.rows} flows or rows`} to learn from; at least ${LEAST_ROWS} are needed, and a hundred or more for a useful model: train on a longer capture or on more captures`,
    )
  }
  if (DETECTORS[checkParameters(detector).detector].holdsRowsOut) {
    const all = rowNumbers(rows.rows)
    return { split: { method: 'held-out', fit: all, calibration: all }, fit: rows, calibration: rows }
  }
  const split = splitCalibration(inputOfRow, calibrationShare, createRng(seed).fork('calibration'))
  const { length: fitted } = split.fit
  const { length: kept } = split.calibration
  if (fitted < 2) {
    throw new ArgumentError(
      `calibrationShare: ${calibrationShare} leaves ${fitted} of ${rows.rows} rows to learn from, at least 2 are needed; give a smaller share`,
      'calibrationShare',
    )
  }
  if (kept === 0) {
    throw new ArgumentError(
      `calibrationShare: ${calibrationShare} keeps none of ${rows.rows} rows to set the threshold by; give a larger share`,
      'calibrationShare',
    )
  }
  return { split, fit: takeRows(rows, split.fit), calibration: takeRows(rows, split.calibration) }
}

/** Facts about rows of a training set that a fit needs. */
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

/** Trains a detector and calibrates its threshold. Throws DataError for too few rows, ArgumentError for options. */
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
