/** Rows or flows → a model; a model → scores and verdicts. `oddflow train` makes the same bytes of the same rows. */
import {
  ArgumentError,
  asMatrix,
  ContractMismatchError,
  checkFinite,
  checkSameContract,
  createRng,
  DataError,
  type FeatureContract,
  type FlowContract,
  type Matrix,
} from '@oddflow/core'
import {
  checkParameters,
  createScoreWorkspace,
  DETECTORS,
  type DetectorName,
  type DetectorOptions,
  encodeModelFile,
  isDetectorName,
  isNovel,
  OPTION_NAMES,
  type SavedModel,
  type ScoreWorkspace,
  scoreSamples,
} from '@oddflow/detectors'
import { PLAIN_ROWS_DETECTORS, suitedDetector } from '@oddflow/evaluation'
import { createTrainingRows, judgeWithoutRow, type TrainingSet, trainModel } from '@oddflow/program'
import {
  CapturedFlow,
  checkOptionNames,
  describe,
  type Flow,
  type FlowOrigin,
  isObject,
  matrixFrom,
  type Rows,
} from './rows.js'

/** Options of `fit`; each has a default. The detector's own options stand beside these. */
export interface FitOptions extends DetectorOptions {
  /** Of all randomness, a whole number from 0 to 2^53 − 1: the same seed gives the same model. Default 1. */
  readonly seed?: number
  /**
   * Default: `ensemble` for flows; for rows the one of `gmm`, `oc-nystrom-qs` and `hbos` that suits them best.
   */
  readonly detector?: DetectorName
  /** Share of normal rows that may be flagged, from 1e-9 to below 1; sets the threshold. Default 0.01. */
  readonly falsePositiveRate?: number
  /**
   * Share of rows kept from the fit to set the threshold, between 0 and 1. Default 0.2. An ensemble takes none: it holds
   * each input out in turn.
   */
  readonly calibrationShare?: number
  /** Number of columns, where the rows are a typed array. */
  readonly columns?: number
  /** For each row, the number of the file or day that the row is from. Default: all from one. Flows know theirs. */
  readonly inputs?: ArrayLike<number>
}

/** A trained detector with its threshold. Made by `fit` and `loadModel`. */
export interface Model {
  readonly detector: DetectorName
  /** Numbers in a row. */
  readonly columns: number
  /** A row is novel if its score is at or below this number. */
  readonly threshold: number
  /** What could not be done as asked in training, a sentence each. */
  readonly notes: readonly string[]
  /**
   * A score for each row or flow; higher = more normal. NaN for a flow without features. Throws ArgumentError for rows
   * that are not finite numbers of the model's width, ContractMismatchError for flows of another feature contract.
   */
  score(rows: Rows | Iterable<Flow>): Float64Array
  /** For each row or flow +1 = normal, −1 = novel. Errors as `score`. */
  predict(rows: Rows | Iterable<Flow>): Int8Array
  /** Whether one row or flow is novel. Errors as `score`. */
  isNovel(row: Flow | ArrayLike<number>): boolean
  /** The model file. */
  toBytes(): Uint8Array<ArrayBuffer>
}

const DEFAULT_FALSE_POSITIVE_RATE = 0.01
const DEFAULT_CALIBRATION_SHARE = 0.2
const OWN_OPTIONS = [
  'seed',
  'detector',
  'falsePositiveRate',
  'calibrationShare',
  'columns',
  'inputs',
] as const

/** Of this package; the bundler puts it in (tools/workspace/bundle-program.mjs). */
declare const ODDFLOW_VERSION: string

/**
 * Trains a detector on normal rows (n × D, n ≥ 10) or on flows of `readFlows`, and sets its threshold. The same seed gives
 * the same model, to the byte, on every machine. Throws ArgumentError that names the argument, DataError for rows that
 * nothing can be learned from.
 */
export function fit(rows: Rows | Iterable<Flow>, options: FitOptions = {}): Model {
  checkOptions(options)
  const { seed = 1, falsePositiveRate = DEFAULT_FALSE_POSITIVE_RATE, calibrationShare } = options
  if (typeof seed !== 'number')
    throw new ArgumentError(`seed: expected a whole number, found ${describe(seed)}`, 'seed')
  const rng = createRng(seed)
  const flows = flowsIn(rows)
  const given = detectorOptions(options)
  if (flows !== null) refuseForFlows(options)
  const matrix = flows === null ? matrixFrom(rows, options.columns) : null
  const detector =
    matrix === null
      ? { ...given, detector: given.detector ?? 'ensemble' }
      : optionsForRows(matrix, given, rng)
  checkParameters(detector)
  if (calibrationShare !== undefined && DETECTORS[detector.detector].holdsRowsOut) {
    throw new ArgumentError(
      `calibrationShare: does not apply to ${detector.detector}, which holds its inputs out in turn; leave it out`,
      'calibrationShare',
    )
  }
  const scaler = detector.scaler ?? 'none'
  const set = matrix === null ? setOfFlows(flows!, scaler) : setOfRows(matrix, options.inputs, scaler)
  const { saved } = trainModel(set, {
    detector,
    falsePositiveRate,
    calibrationShare: calibrationShare ?? DEFAULT_CALIBRATION_SHARE,
    seed,
    oddflowVersion: ODDFLOW_VERSION,
  })
  return new TrainedModel(saved)
}

function checkOptions(options: FitOptions): void {
  checkOptionNames(options, [...OWN_OPTIONS, ...OPTION_NAMES])
  const { detector, falsePositiveRate: rate = DEFAULT_FALSE_POSITIVE_RATE, calibrationShare: share } = options
  if (detector !== undefined && !isDetectorName(detector)) {
    throw new ArgumentError(
      `detector: expected one of ${Object.keys(DETECTORS).join(', ')}, found ${describe(detector)}`,
      'detector',
    )
  }
  if (!(typeof rate === 'number' && rate >= 1e-9 && rate < 1)) {
    throw new ArgumentError(
      `falsePositiveRate: expected a number from 1e-9 to below 1, found ${describe(rate)}`,
      'falsePositiveRate',
    )
  }
  if (share !== undefined && !(typeof share === 'number' && share > 0 && share < 1)) {
    throw new ArgumentError(
      `calibrationShare: expected a number between 0 and 1, found ${describe(share)}`,
      'calibrationShare',
    )
  }
}

function detectorOptions(options: FitOptions): DetectorOptions {
  const names = ['detector', ...OPTION_NAMES] as const
  return Object.fromEntries(
    names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  ) as DetectorOptions
}

type NamedDetector = DetectorOptions & { readonly detector: DetectorName }

function optionsForRows(
  rows: Matrix,
  given: DetectorOptions,
  rng: ReturnType<typeof createRng>,
): NamedDetector {
  if (given.detector !== undefined) return given as NamedDetector
  checkFinite(rows, 'rows')
  const suited = suitedDetector(rows, given, rng.fork('detector'))
  if (suited === null) {
    const tried = PLAIN_ROWS_DETECTORS.map(({ detector }) => detector).join(', ')
    throw new ArgumentError(
      `${Object.keys(given).join(', ')}: no detector that rows are tried with (${tried}) takes these options; name one that does with detector`,
      'detector',
    )
  }
  return { ...suited.preset, ...given } as NamedDetector
}

function setOfRows(
  rows: Matrix,
  inputs: ArrayLike<number> | undefined,
  scaler: FeatureContract['scaler'],
): TrainingSet {
  if (inputs !== undefined && inputs?.length !== rows.rows) {
    throw new ArgumentError(
      `inputs: expected ${rows.rows} numbers, one a row, found ${inputs?.length ?? describe(inputs)}`,
      'inputs',
    )
  }
  const inputOfRow = inputs === undefined ? new Uint32Array(rows.rows) : Uint32Array.from(inputs)
  const at = inputs === undefined ? -1 : Array.from(inputs).findIndex((input, i) => input !== inputOfRow[i])
  if (at >= 0) {
    throw new ArgumentError(
      `inputs[${at}]: expected a whole number of 0 or more, found ${describe(inputs![at])}`,
      'inputs',
    )
  }
  const contract: FeatureContract = {
    featureSet: 'rows',
    featureSetVersion: 1,
    dimension: rows.cols,
    scaler,
  }
  return { rows, inputOfRow, contract, onePacketRule: null }
}

function setOfFlows(flows: readonly FlowOrigin[], scaler: FeatureContract['scaler']): TrainingSet {
  if (flows.length === 0) throw new DataError('rows: expected flows to learn from, found none', 'rows')
  const { contract } = flows[0]!
  if (contract.featureSet !== 'flow-summary') {
    throw new ContractMismatchError(
      `rows: expected flows that were read without a model, found flows with the features ${contract.featureSet}; call readFlows without { model }`,
      'rows',
    )
  }
  const rows = createTrainingRows({ ...contract, scaler })
  flows.forEach(({ record, contract: other }) => {
    if (other !== contract) checkSameContract(contract, other)
    if (record.endReason === 'evicted') {
      throw new DataError(
        'rows: some flows were cut short for lack of memory, and would distort the model: read fewer captures, or give readFlows more memoryBytes',
        'rows',
      )
    }
    rows.add(record)
  })
  return rows.finish(null)
}

function refuseForFlows({ columns, inputs }: FitOptions): void {
  const name = columns !== undefined ? 'columns' : inputs !== undefined ? 'inputs' : null
  if (name !== null) throw new ArgumentError(`${name}: does not apply to flows; leave it out`, name)
}

/** The elements of an array or another list; null for a matrix, numbers, and what is nothing of the kind. */
function listed(rows: unknown): readonly unknown[] | null {
  if (Array.isArray(rows)) return rows
  // a Matrix of ml-matrix lists its numbers
  if (!isObject(rows) || ArrayBuffer.isView(rows) || 'columns' in rows) return null
  return Symbol.iterator in rows ? [...(rows as unknown as Iterable<unknown>)] : null
}

/** The origins of flows, null for anything else. Throws ArgumentError where some are flows and some are not. */
function flowsIn(rows: unknown): FlowOrigin[] | null {
  const values = listed(rows)
  if (values === null || (values.length === 0 && Array.isArray(rows))) return null
  if (CapturedFlow.originOf(values[0]) === undefined && values.length > 0) {
    if (Array.isArray(rows)) return null
    throw new ArgumentError(`rows[0]: expected a flow of readFlows, found ${describe(values[0])}`, 'rows')
  }
  return values.map((value, i) => {
    const origin = CapturedFlow.originOf(value)
    if (origin !== undefined) return origin
    throw new ArgumentError(`rows[${i}]: expected a flow of readFlows, found ${describe(value)}`, 'rows')
  })
}

/** The library's Model: a saved model with the scratch that scoring needs. */
export class TrainedModel implements Model {
  readonly #saved: SavedModel
  readonly #workspace: ScoreWorkspace
  #checkedContract: FlowContract | null = null

  constructor(saved: SavedModel) {
    this.#saved = saved
    this.#workspace = createScoreWorkspace(saved.detector)
  }

  /** Throws ArgumentError for anything that is no model of this library. */
  static savedOf(model: unknown): SavedModel {
    if (isObject(model) && #saved in model) return model.#saved
    throw new ArgumentError(`model: expected a model of fit or loadModel, found ${describe(model)}`, 'model')
  }

  get detector(): DetectorName {
    return this.#saved.detector.kind
  }

  get columns(): number {
    return this.#saved.contract.dimension
  }

  get threshold(): number {
    return this.#saved.threshold.value
  }

  get notes(): readonly string[] {
    const { detector, threshold } = this.#saved
    const { guaranteed, rows, rowsNeeded, bound } = threshold.calibration
    const promise = `falsePositiveRate ${threshold.falsePositiveRate} needs ${rowsNeeded} calibration rows, and there are ${rows}: expect up to ${(100 * bound).toPrecision(3)} % false alarms`
    return guaranteed ? detector.fitReport.notes : [...detector.fitReport.notes, promise]
  }

  score(rows: Rows | Iterable<Flow>): Float64Array {
    const flows = flowsIn(rows)
    if (flows === null) {
      const matrix = matrixFrom(rows, this.columns)
      return this.#scoreRows(matrix)
    }
    this.#checkFlows(flows)
    const withRows = flows.filter(({ record }) => record.row !== null)
    const data = new Float64Array(withRows.length * this.columns)
    withRows.forEach(({ record }, i) => {
      data.set(record.row!, i * this.columns)
    })
    const scores = this.#scoreRows({ rows: withRows.length, cols: this.columns, data })
    let at = 0
    return Float64Array.from(flows, ({ record }) => (record.row === null ? Number.NaN : scores[at++]!))
  }

  predict(rows: Rows | Iterable<Flow>): Int8Array {
    const given = (listed(rows) ?? rows) as Rows
    const scores = this.score(given)
    return Int8Array.from(scores, (score, i) => {
      const isNew = Number.isNaN(score)
        ? this.#isNovelWithoutRow((given as unknown as Flow[])[i]!)
        : isNovel(score, this.#saved.threshold)
      return isNew ? -1 : 1
    })
  }

  isNovel(row: Flow | ArrayLike<number>): boolean {
    return this.predict([row] as Rows)[0] === -1
  }

  toBytes(): Uint8Array<ArrayBuffer> {
    return encodeModelFile(this.#saved) as Uint8Array<ArrayBuffer>
  }

  #scoreRows(rows: Matrix): Float64Array {
    return scoreSamples(this.#saved.detector, asMatrix(rows), new Float64Array(rows.rows), this.#workspace)
  }

  #checkFlows(flows: readonly FlowOrigin[]): void {
    for (const { contract } of flows) {
      if (contract === this.#checkedContract) continue
      try {
        checkSameContract(this.#saved.contract, { ...contract, scaler: this.#saved.contract.scaler })
      } catch (error) {
        if (!(error instanceof ContractMismatchError)) throw error
        const advice =
          this.#saved.contract.featureSet === 'rows'
            ? 'the model was trained on rows, not on flows'
            : `read them for this model: readFlows(source, { model }) (${error.message})`
        throw new ContractMismatchError(`rows: these flows do not fit the model; ${advice}`, 'rows')
      }
      this.#checkedContract = contract
    }
  }

  #isNovelWithoutRow(flow: Flow): boolean {
    return judgeWithoutRow(this.#saved.onePacketRule, CapturedFlow.originOf(flow)!.record).novel
  }
}
