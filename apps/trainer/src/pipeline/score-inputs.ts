/**
 * Inputs → verdicts under a saved model: the path that `score`, `evaluate` and `demo` share.
 *
 * Flows are cut and turned into rows by the model's own feature contract, each row is scored as its record
 * ends, and the verdicts of a capture are given in the order of their first packets.
 */
import { formatAddress } from '@oddflow/capture'
import { ContractMismatchError, type Matrix, matrixOf } from '@oddflow/core'
import {
  createScoreWorkspace,
  decisionFunction,
  isNovel,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { createFlowExtractor, type FlowCounters, type FlowRecord, judgeOnePacket } from '@oddflow/flows'
import { inputKindOfAll } from '../input/input-kind.js'
import { readRows } from '../input/read-rows.js'
import { hashSeed } from './hash-seed.js'
import { type CaptureRead, type ReadOptions, readPackets } from './read-packets.js'
import type { FlowFacts, Verdict } from './verdict.js'

/** Everything found in one input. */
export interface ScoredInput {
  readonly input: string
  readonly verdicts: readonly Verdict[]
  /** The rows behind the verdicts with a score, in the same order, when they were asked for. */
  readonly rows: Matrix | null
  /** null for feature rows. */
  readonly read: CaptureRead | null
}

export interface ScoreOptions extends ReadOptions {
  /** Keep the feature rows (for the embedding's picture). */
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

/** A verdict with what its place in the order depends on. */
interface Pending {
  readonly verdict: Verdict
  readonly firstPacketNumber: number
  readonly row: Float64Array | null
}

async function scoreCaptures(
  saved: SavedModel,
  paths: readonly string[],
  options: ScoreOptions,
  onInput: (scored: ScoredInput) => void,
): Promise<FlowCounters> {
  const { contract, detector, threshold, onePacketRule } = saved
  if (contract.featureSet !== 'iat-size') {
    throw new ContractMismatchError(
      `${paths[0]}: the model was trained on feature rows, not on captures; train on captures, or extract rows in the way its own were made`,
    )
  }
  const workspace = createScoreWorkspace(detector)
  const row = new Float64Array(contract.dimension)
  const matrix = matrixOf(1, contract.dimension, row)
  const score = new Float64Array(1)
  let input = ''
  let pending: Pending[] = []

  const judge = (record: FlowRecord): Pick<Verdict, 'score' | 'decision' | 'novel' | 'rule'> => {
    if (record.row !== null) {
      scoreSamples(detector, matrix, score, workspace)
      return {
        score: score[0],
        decision: decisionFunction(score[0], threshold),
        novel: isNovel(score[0], threshold),
        rule: 'score',
      }
    }
    if (record.noRowReason === 'one-packet') {
      const novel = onePacketRule === null || judgeOnePacket(onePacketRule, record)
      return { score: null, decision: null, novel, rule: 'one-packet' }
    }
    return { score: null, decision: null, novel: false, rule: 'not-judged' }
  }

  const extractor = createFlowExtractor({
    contract,
    row,
    hashSeed: hashSeed(),
    onRecord: (record) => {
      // what is left of a long flow after its last window was part of a flow already judged: counted alone
      if (record.noRowReason === 'remainder') return
      pending.push({
        verdict: { ...judge(record), input, row: null, flow: describe(record, input) },
        firstPacketNumber: record.firstPacketNumber,
        row: options.keepRows && record.row !== null ? record.row.slice() : null,
      })
    },
  })
  for (const path of paths) {
    input = path
    pending = []
    const read = await readPackets(path, options, (packets) => extractor.add(packets))
    extractor.endCapture()
    pending.sort((a, b) => a.firstPacketNumber - b.firstPacketNumber)
    onInput({
      input: path,
      verdicts: pending.map((p) => p.verdict),
      rows: options.keepRows ? keptRows(pending, contract.dimension) : null,
      read,
    })
  }
  return extractor.finish()
}

function keptRows(pending: readonly Pending[], dimension: number): Matrix {
  const rows = pending.flatMap((p) => (p.row === null ? [] : [p.row]))
  const data = new Float64Array(rows.length * dimension)
  rows.forEach((values, i) => {
    data.set(values, i * dimension)
  })
  return matrixOf(rows.length, dimension, data)
}

function describe(record: FlowRecord, capture: string): FlowFacts {
  return {
    capture,
    protocol: record.protocol === 6 ? 'tcp' : 'udp',
    source: formatAddress(record.initiatorAddress, 0, record.ipVersion),
    sourcePort: record.initiatorPort,
    destination: formatAddress(record.responderAddress, 0, record.ipVersion),
    destinationPort: record.responderPort,
    startMicros: record.startMicros,
    durationMicros: record.durationMicros,
    packets: record.packets,
    bytes: record.bytes,
    piece: record.pieceIndex,
  }
}
