/**
 * Inputs → verdicts under a saved model: the path that `score`, `evaluate` and `demo` share.
 *
 * Flows are cut and turned into rows by the model's own feature contract, each row is scored as its record
 * ends, and the verdicts of a capture are given in the order of their first packets.
 */
import { ContractMismatchError, type Matrix } from '@oddflow/core'
import {
  createScoreWorkspace,
  decisionFunction,
  isNovel,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { createFlowExtractor, type FlowCounters } from '@oddflow/flows'
import { createFlowJudge, type FlowJudge, inFile } from '@oddflow/program'
import { inputKindOfAll } from '../input/input-kind.js'
import { readRows } from '../input/read-rows.js'
import { hashSeed } from './hash-seed.js'
import { type CaptureRead, type ReadOptions, readPackets } from './read-packets.js'
import { RowSample } from './row-sample.js'
import type { Verdict } from './verdict.js'
import { VerdictStore } from './verdict-store.js'

/** Everything found in one input. */
export interface ScoredInput {
  readonly input: string
  /** In input order; may be gone through more than once. */
  readonly verdicts: Iterable<Verdict>
  /** A fair sample of the rows that were scored, when it was asked for. */
  readonly rows: Matrix | null
  /** null for feature rows. */
  readonly read: CaptureRead | null
}

export interface ScoreOptions extends ReadOptions {
  /** Keep a sample of the feature rows (for the embedding's picture). */
  readonly keepRows: boolean
}

export interface ScoreSummary {
  /** Where the packets went; null for feature rows. */
  readonly counters: FlowCounters | null
}

/** Scores inputs one after another and hands each on as it is done. */
export async function scoreInputs(
  saved: SavedModel,
  paths: readonly string[],
  options: ScoreOptions,
  onInput: (scored: ScoredInput) => void,
): Promise<ScoreSummary> {
  if (inputKindOfAll(paths) === 'rows') {
    for (const path of paths) onInput(scoreRows(saved, path, options.keepRows))
    return { counters: null }
  }
  return { counters: await scoreCaptures(saved, paths, options, onInput) }
}

function scoreRows(saved: SavedModel, path: string, keepRows: boolean): ScoredInput {
  const rows = readRows(path)
  const { dimension } = saved.contract
  if (rows.cols !== dimension) {
    throw new ContractMismatchError(
      `${path}: rows of ${rows.cols} numbers, but the model was trained on rows of ${dimension}; use rows made under its feature contract (oddflow extract --model)`,
    )
  }
  const scores = new Float64Array(rows.rows)
  scoreSamples(saved.detector, rows, scores, createScoreWorkspace(saved.detector))
  const verdicts = Array.from(
    scores,
    (score, row): Verdict => ({
      score,
      decision: decisionFunction(score, saved.threshold),
      novel: isNovel(score, saved.threshold),
      rule: 'score',
      input: path,
      row,
      flow: null,
    }),
  )
  return { input: path, verdicts, rows: keepRows ? rows : null, read: null }
}

/** Rows kept of one input. */
const SAMPLE_ROWS = 5_000

/** A file is finite, so its open flows may take what a long-running watcher's may not. */
const OPEN_FLOWS_BYTES = 512 * 1024 * 1024

async function scoreCaptures(
  saved: SavedModel,
  paths: readonly string[],
  options: ScoreOptions,
  onInput: (scored: ScoredInput) => void,
): Promise<FlowCounters> {
  const { contract, row, judge } = captureJudge(saved, paths[0])
  const threshold = saved.threshold.value
  let verdicts = new VerdictStore('', threshold)
  let sample = new RowSample(contract.dimension, SAMPLE_ROWS)

  const extractor = createFlowExtractor({
    contract,
    row,
    hashSeed: hashSeed(),
    memoryBytes: OPEN_FLOWS_BYTES,
    onRecord: (record) => {
      // what is left of a long flow after its last window was part of a flow already judged: counted alone
      if (record.noRowReason === 'remainder') return
      verdicts.add(record, judge(record))
      if (options.keepRows && record.row !== null) sample.add(record.row)
    },
  })
  for (const path of paths) {
    verdicts = new VerdictStore(path, threshold)
    sample = new RowSample(contract.dimension, SAMPLE_ROWS)
    const read = await readPackets(path, options, (packets) => extractor.add(packets))
    extractor.endCapture()
    onInput({ input: path, verdicts, rows: options.keepRows ? sample.matrix() : null, read })
  }
  return extractor.finish()
}

function captureJudge(saved: SavedModel, path: string): FlowJudge {
  try {
    return createFlowJudge(saved)
  } catch (error) {
    throw inFile(path, error)
  }
}
