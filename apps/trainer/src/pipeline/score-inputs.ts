/**
 * Inputs → verdicts under a saved model: the path that `score`, `evaluate` and `demo` share.
 *
 * Flows are cut and turned into rows by the model's own feature contract, each row is scored as its record
 * ends, and the verdicts of a capture are given in the order of their first packets. Most contracts are streamed,
 * in memory bounded by the open flows. Idle-gap rules sort a flow's packets and ask which piece is its last, so a
 * capture under them is collected first, and one that is too long for that is refused.
 */
import { CaptureFileError } from '@oddflow/capture/node'
import type { FlowContract, Matrix, PacketView } from '@oddflow/core'
import {
  createScoreWorkspace,
  decisionFunction,
  isNovel,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { createFlowExtractor, extractRecords, type FlowCounters, type FlowRecord } from '@oddflow/flows'
import { createFlowExplainer, createFlowJudge, type FlowJudge, inFile } from '@oddflow/program'
import { inputKind } from '../input/input-kind.js'
import { readRowsUnder } from '../input/read-rows.js'
import { collectFlows, countersOf } from './collect-flows.js'
import { memoryOption, namingFlowMemory } from './flow-memory.js'
import { gatheringOf } from './flow-plan.js'
import { hashSeed } from './hash-seed.js'
import {
  BATCH_FRAMES,
  type CaptureInput,
  type CaptureRead,
  type ReadOptions,
  readPackets,
} from './read-packets.js'
import { RowSample } from './row-sample.js'
import { sumCounters } from './sum-counters.js'
import { countVerdicts, type Verdict, type VerdictCounts } from './verdict.js'
import { VerdictStore } from './verdict-store.js'

/** Everything found in one input. */
export interface ScoredInput {
  readonly input: string
  /** In input order; may be gone through more than once, until they are released. */
  readonly verdicts: Iterable<Verdict>
  /** Gives back the room that the verdicts take, which the end of the program does too. */
  release(): void
  /** Of all verdicts, also of those that were not asked for. */
  readonly counts: Readonly<VerdictCounts>
  /** A fair sample of the rows that were scored, when it was asked for. */
  readonly rows: Matrix | null
  /** null for feature rows. */
  readonly read: CaptureRead | null
}

export interface ScoreOptions extends ReadOptions, RecordOptions {
  /** The contract's. */
  readonly view: PacketView
  /** Keep a sample of the feature rows (for the embedding's picture). */
  readonly keepRows: boolean
  /** Give only verdicts of what is novel. */
  readonly novelOnly?: boolean | undefined
  /** Keep what explains novel verdicts. */
  readonly explain?: boolean | undefined
}

/** What else the reading of records may be told. */
export interface RecordOptions {
  /** Called with an input that cannot be read, which is then passed over; without it the error is thrown. */
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
  const rows = readRowsUnder(saved.contract, path)
  const scores = new Float64Array(rows.rows)
  scoreSamples(saved.detector, rows, scores, createScoreWorkspace(saved.detector))
  const threshold = saved.threshold.value
  const explainer = explain === true ? createFlowExplainer(saved) : null
  const verdicts = Array.from(scores, (score, row): Verdict => {
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
export interface RecordSink<Result> {
  /** To which rows are written. */
  readonly row: Float64Array
  /** Starts an input. */
  begin(input: string): void
  onRecord(record: FlowRecord): void
  end(read: CaptureRead): Result
}

/** Verdicts of the present input. */
type Judging = RecordSink<ScoredInput>

function createJudging(
  saved: SavedModel,
  path: string,
  { keepRows, novelOnly, explain }: Judged,
): Judging & { readonly contract: FlowContract } {
  const { contract, row, judge } = captureJudge(saved, path)
  const threshold = saved.threshold.value
  const storing = { novelOnly, explain: explain === true ? createFlowExplainer(saved) : undefined }
  let name = ''
  let verdicts = new VerdictStore('', threshold, storing)
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

type RecordReading = ReadOptions & RecordOptions & { readonly view: PacketView }

/** Captures, one after another, as records. */
interface RecordSource {
  /** All records of one capture; null where it cannot be read and somebody was told. */
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

/** null where the input cannot be read and somebody was told. */
async function unlessUnreadable<T>(reading: Promise<T>, { onUnreadable }: RecordOptions): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (onUnreadable === undefined || !(error instanceof CaptureFileError)) throw error
    onUnreadable(error)
    return null
  }
}
