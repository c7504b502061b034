/**
 * Inputs → flows, rows and verdicts under a model's feature contract, in the order of first packets. Most contracts
 * are streamed, in memory bounded by the open flows. Idle-gap rules need whole flows, so a capture is collected first.
 */
import { CaptureFileError } from '@oddflow/capture/node'
import {
  ContractMismatchError,
  DataError,
  type FlowContract,
  type Matrix,
  matrixOf,
  plural,
} from '@oddflow/core'
import {
  createScoreWorkspace,
  decisionFunction,
  isNovel,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import {
  type CollectedFlows,
  createFlowCollector,
  createFlowExtractor,
  extractMatrix,
  extractRecords,
  type FlowCounters,
  type FlowRecord,
  type RecordCounts,
} from '@oddflow/flows'
import {
  createDeviceNumbers,
  createFlowExplainer,
  createFlowJudge,
  type FlowJudge,
  inFile,
} from '@oddflow/program'
import { hashSeed, inputKind, nameInputs, noFlowIn } from '../inputs.js'
import { RowSample } from '../library/rows.js'
import { describePackets } from '../output/verdict-lines.js'
import { type FlowGathering, gatheringOf, memoryOption, namingFlowMemory } from './flow-plan.js'
import {
  BATCH_FRAMES,
  type CaptureInput,
  type CaptureRead,
  type Reading,
  readPackets,
} from './read-packets.js'
import { readRowsUnder, readTableUnder } from './read-rows.js'
import { countVerdicts, type InputVerdict, type VerdictCounts, VerdictStore } from './verdict-store.js'

interface CollectedCaptures {
  readonly flows: CollectedFlows
  readonly reads: readonly CaptureRead[]
}

/** Reads every capture into one collection; flows never cross inputs. */
export async function collectFlows(
  inputs: readonly CaptureInput[],
  gathering: FlowGathering,
  options: Reading,
): Promise<CollectedCaptures> {
  const collector = namingFlowMemory(() =>
    createFlowCollector({ ...gathering, ...memoryOption(options), hashSeed: hashSeed() }),
  )
  const reads: CaptureRead[] = []
  for (const input of inputs) {
    try {
      reads.push(await readPackets(input, options, (packets) => collector.add(packets)))
    } catch (error) {
      if (!(error instanceof DataError)) throw error
      throw new DataError(`${input.name}: ${error.detail} (--filter, --flow-memory)`, error.field)
    }
    collector.endCapture()
  }
  return { flows: collector.finish(), reads }
}

/** Most numbers of a matrix of rows: 1 GiB. */
const MAXIMUM_NUMBERS = 2 ** 27

/** Throws DataError if the rows do not fit into memory. */
export function checkRowsFit(rows: number, { dimension, featureSet }: FlowContract): void {
  if (rows * dimension <= MAXIMUM_NUMBERS) return
  throw new DataError(
    `${rows} rows of ${dimension} numbers (${featureSet}) exceed the limit of ${MAXIMUM_NUMBERS} numbers: use fewer or shorter captures, or --filter`,
  )
}

/** The rows of collected flows, and what became of their records. Throws DataError as `checkRowsFit` does. */
export function rowsOfFlows(
  flows: CollectedFlows,
  contract: FlowContract,
): { readonly rows: Matrix; readonly counts: RecordCounts } {
  const counts = extractRecords(flows, contract, () => {})
  checkRowsFit(counts.rows, contract)
  return { rows: extractMatrix(flows, contract), counts }
}

/** The counters of flows that were collected and then cut; a collector ends none for lack of memory. */
export function countersOf(flows: CollectedFlows, counts: RecordCounts): FlowCounters {
  return {
    ...flows.counters,
    ...counts,
    heldPackets: 0,
    evictedFlows: 0,
    evictedHalfOpenFlows: 0,
    evictedActiveFlows: 0,
    evictedIdleFlows: 0,
  }
}

/** Counters of several captures as one. At least one part. */
export function sumCounters(parts: readonly FlowCounters[]): FlowCounters {
  const sums: Record<string, number> = {}
  const dropped: Record<string, number> = {}
  for (const part of parts) {
    for (const [name, value] of Object.entries(part)) {
      if (typeof value === 'number') sums[name] = (sums[name] ?? 0) + value
    }
    for (const [reason, count] of Object.entries(part.dropped)) {
      dropped[reason] = (dropped[reason] ?? 0) + (count ?? 0)
    }
  }
  return { ...parts[0], ...sums, dropped }
}

/** Everything found in one input. */
interface ScoredInput {
  readonly input: string
  /** In input order; may be gone through more than once, until they are released. */
  readonly verdicts: Iterable<InputVerdict>
  /** Gives back the room that the verdicts take, which the end of the program does too. */
  release(): void
  /** Of all verdicts, including the ones that `novelOnly` leaves out. */
  readonly counts: Readonly<VerdictCounts>
  /** A fair sample of the rows that were scored, when it was asked for. */
  readonly rows: Matrix | null
  /** null for feature rows. */
  readonly read: CaptureRead | null
}

export interface ScoreOptions extends Reading, RecordOptions {
  /** Keep a sample of the feature rows (for the embedding's picture). */
  readonly keepRows: boolean
  /** Give only verdicts of what is novel. */
  readonly novelOnly?: boolean | undefined
  /** Keep what explains novel verdicts. */
  readonly explain?: boolean | undefined
}

export interface RecordOptions {
  /** Reports an input that cannot be read, which is then skipped; without it the error is thrown. */
  readonly onUnreadable?: ((error: CaptureFileError) => void) | undefined
}

type Judged = Pick<ScoreOptions, 'keepRows' | 'novelOnly' | 'explain'>

export interface ScoreSummary {
  /** Where the packets went; null for feature rows. */
  readonly counters: FlowCounters | null
}

/** Scores inputs of one kind one after another and hands each on as it is done. */
export async function scoreInputs(
  saved: SavedModel,
  inputs: readonly CaptureInput[],
  options: ScoreOptions,
  onInput: (scored: ScoredInput) => void,
): Promise<ScoreSummary> {
  if (inputKind(inputs[0].files[0]) === 'rows') {
    for (const { name } of inputs) onInput(scoreRows(saved, name, options))
    return { counters: null }
  }
  const { contract, ...judging } = createJudging(saved, inputs[0].name, options)
  return { counters: await readRecords(contract, inputs, options, judging, onInput) }
}

/** Hands the flow records of captures to `sink`, in the way that the contract asks for, and what comes of each on. */
export async function readRecords<Result>(
  contract: FlowContract,
  inputs: readonly CaptureInput[],
  options: RecordReading,
  sink: RecordSink<Result>,
  onInput: (result: Result) => void,
): Promise<FlowCounters> {
  const source = (contract.flowKey === 'directional-5-tuple' ? collectedRecords : streamedRecords)(
    contract,
    options,
    sink,
  )
  for (const input of inputs) {
    sink.begin(input.name)
    const read = await source.read(input)
    if (read === null) continue
    onInput(sink.end(read))
    if (read.stoppedBy !== null) break
  }
  return source.finish()
}

function scoreRows(saved: SavedModel, path: string, { keepRows, novelOnly, explain }: Judged): ScoredInput {
  const { matrix: rows, columnNames } = readTableUnder(saved.contract, path)
  const scores = new Float64Array(rows.rows)
  scoreSamples(saved.detector, rows, scores, createScoreWorkspace(saved.detector))
  const threshold = saved.threshold.value
  const explainer = explain === true ? createFlowExplainer(saved, columnNames ?? []) : null
  const verdicts = Array.from(scores, (score, row): InputVerdict => {
    const novel = isNovel(score, saved.threshold)
    const numbers = rows.data.subarray(row * rows.cols, (row + 1) * rows.cols)
    return {
      score,
      decision: decisionFunction(score, saved.threshold),
      novel,
      rule: 'score',
      input: path,
      row,
      flow: null,
      ...(explainer === null || !novel
        ? {}
        : { explain: () => explainer({ row: numbers, score, threshold, packets: null }) }),
    }
  })
  return {
    input: path,
    verdicts: novelOnly === true ? verdicts.filter(({ novel }) => novel) : verdicts,
    release() {},
    counts: countVerdicts(verdicts),
    rows: keepRows ? rows : null,
    read: null,
  }
}

/** Rows kept of one input. */
const SAMPLE_ROWS = 5_000

/** Records in, something of the present input out. */
interface RecordSink<Result> {
  /** To which rows are written. */
  readonly row: Float64Array
  /** Starts an input. */
  begin(input: string): void
  onRecord(record: FlowRecord): void
  end(read: CaptureRead): Result
}

function createJudging(
  saved: SavedModel,
  path: string,
  { keepRows, novelOnly, explain }: Judged,
): RecordSink<ScoredInput> & { readonly contract: FlowContract } {
  const { contract, row, judge } = captureJudge(saved, path)
  const threshold = saved.threshold.value
  const storing = { novelOnly, explain: explain === true ? createFlowExplainer(saved) : undefined }
  let name = path
  let verdicts = new VerdictStore(path, threshold, storing)
  let sample = new RowSample(row.length, SAMPLE_ROWS)
  return {
    contract,
    row,
    begin(input) {
      name = input
      verdicts = new VerdictStore(input, threshold, storing)
      sample = new RowSample(row.length, SAMPLE_ROWS)
    },
    onRecord(record) {
      // what is left of a long flow after its last window was part of a flow already judged: counted alone
      if (record.noRowReason === 'remainder') return
      verdicts.add(record, judge(record))
      if (keepRows && record.row !== null) sample.add(record.row)
    },
    end(read) {
      const store = verdicts
      return {
        input: name,
        verdicts: store,
        release: () => store.release(),
        counts: store.counts,
        rows: keepRows ? sample.matrix() : null,
        read,
      }
    },
  }
}

function captureJudge(saved: SavedModel, path: string): FlowJudge {
  try {
    return createFlowJudge(saved)
  } catch (error) {
    throw inFile(path, error)
  }
}

type RecordReading = Reading & RecordOptions

/** Captures, one after another, as records. */
interface RecordSource {
  /** All records of one capture; null if it cannot be read and was reported. */
  read(input: CaptureInput): Promise<CaptureRead | null>
  finish(): FlowCounters
}

/** Records come as they end. */
function streamedRecords(
  contract: FlowContract,
  options: RecordReading,
  sink: Pick<RecordSink<unknown>, 'row' | 'onRecord'>,
): RecordSource {
  const extractor = namingFlowMemory(() =>
    createFlowExtractor({
      contract,
      row: sink.row,
      hashSeed: hashSeed(),
      ...memoryOption(options),
      onRecord: (record) => sink.onRecord(record),
    }),
  )
  const packets = extractor.createBatch(BATCH_FRAMES)
  return {
    async read(input) {
      const read = await unlessUnreadable(
        readPackets(input, options, (batch) => extractor.add(batch), packets),
        options,
      )
      extractor.endCapture()
      return read
    },
    finish: () => extractor.finish(),
  }
}

/** Records come once a capture's flows are whole. */
function collectedRecords(
  contract: FlowContract,
  options: RecordReading,
  sink: Pick<RecordSink<unknown>, 'row' | 'onRecord'>,
): RecordSource {
  const counters: FlowCounters[] = []
  return {
    async read(input) {
      const collected = await unlessUnreadable(collectFlows([input], gatheringOf(contract), options), options)
      if (collected === null) return null
      const { flows, reads } = collected
      const counts = extractRecords(flows, contract, (record) => {
        if (record.row !== null) sink.row.set(record.row)
        sink.onRecord(record)
      })
      counters.push(countersOf(flows, counts))
      return reads[0]
    },
    finish: () => sumCounters(counters),
  }
}

/** null if the input cannot be read and was reported. */
async function unlessUnreadable<T>(reading: Promise<T>, { onUnreadable }: RecordOptions): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (onUnreadable === undefined || !(error instanceof CaptureFileError)) throw error
    onUnreadable(error)
    return null
  }
}

export interface StreamedRows {
  readonly rows: number
  /** Flow records without a row. */
  readonly withoutRow: number
  /** null for feature rows. */
  readonly counters: FlowCounters | null
  readonly reads: readonly CaptureRead[]
}

const BATCH_ROWS = 100

/**
 * Feature rows under a model's contract, as flows end. `onRows` gets at most 100 rows at a time with the number of
 * their input and, for captures, numbers that are equal for one device in one input; it may keep them.
 */
export async function streamRows(
  { contract }: SavedModel,
  inputs: readonly CaptureInput[],
  options: Reading & {
    /** Called for each flow with a row, in the order of the rows and before they come. */
    readonly onFlow?: (record: FlowRecord) => void
  },
  onRows: (rows: Matrix, input: number, devices: Uint32Array | null) => void,
): Promise<StreamedRows> {
  const { dimension } = contract
  if (inputKind(inputs[0].files[0]) === 'rows') {
    let total = 0
    inputs.forEach(({ name }, input) => {
      const { rows, cols, data } = readRowsUnder(contract, name)
      options.progress.stage(`reading ${name}`, rows)
      for (let i = 0; i < rows; i += BATCH_ROWS) {
        const count = Math.min(BATCH_ROWS, rows - i)
        onRows(matrixOf(count, cols, data.slice(i * cols, (i + count) * cols)), input, null)
        options.progress.update(i + count)
      }
      options.progress.stop()
      total += rows
    })
    return { rows: total, withoutRow: 0, counters: null, reads: [] }
  }
  if (contract.featureSet === 'rows') {
    throw new ContractMismatchError(
      `${inputs[0].name}: the model was trained on feature rows, not on captures; give rows made in the way its own were`,
    )
  }
  const row = new Float64Array(dimension)
  const batch = new Float64Array(BATCH_ROWS * dimension)
  const devices = new Uint32Array(BATCH_ROWS)
  const deviceNumber = createDeviceNumbers()
  let filled = 0
  let input = -1
  let rows = 0
  let withoutRow = 0
  const flush = (): void => {
    if (filled > 0) {
      const rowsOfBatch = matrixOf(filled, dimension, batch.slice(0, filled * dimension))
      onRows(rowsOfBatch, input, devices.slice(0, filled))
    }
    filled = 0
  }
  const reads: CaptureRead[] = []
  const counters = await readRecords(
    contract,
    inputs,
    options,
    {
      row,
      begin() {
        input++
      },
      onRecord(record) {
        if (record.row === null) {
          if (record.noRowReason !== 'remainder') withoutRow++
          return
        }
        options.onFlow?.(record)
        batch.set(record.row, filled * dimension)
        devices[filled] = deviceNumber(record)
        rows++
        if (++filled === BATCH_ROWS) flush()
      },
      end(read) {
        flush()
        return read
      },
    },
    (read) => reads.push(read),
  )
  return { rows, withoutRow, counters, reads }
}

/** Throws DataError where the inputs gave no row, and says why. */
export function refuseNoRows(
  paths: readonly string[],
  { rows, withoutRow, counters, reads }: StreamedRows,
): void {
  if (rows > 0) return
  if (withoutRow === 0)
    throw noFlowIn(paths, counters === null ? 'no rows' : describePackets(counters, reads))
  throw new DataError(
    `${nameInputs(paths)}: ${plural(withoutRow, 'flow record')} in it, but none with a row: nothing to learn from`,
  )
}
