/**
 * Captures → models and verdicts, as `oddflow train` and `oddflow score` make them: the same packages, rows in the same
 * order, so the same model bytes. A study reads each capture once and judges it by many models.
 */
import { compileFilter, createPacketBatch, decodePackets, packetStatusCode } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { DataError, type FlowContract, type Matrix } from '@oddflow/core'
import { createGroups, type DetectorOptions, type SavedModel } from '@oddflow/detectors'
import { auc, rocCurve, tprAtFpr } from '@oddflow/evaluation'
import {
  type CollectedFlows,
  createFlowCollector,
  createFlowExtractor,
  extractRecords,
  learnFeatureContract,
} from '@oddflow/flows'
import { createFlowJudge, type TrainingSet, trainingSetOf, trainModel } from '@oddflow/program'
import { note } from '../output.js'
import { VERSION } from '../version.js'
import type { Findings } from './study.js'

/** What `oddflow train` is told, as far as a study varies it. */
export interface Recipe {
  readonly features: 'flow-summary' | 'iat-size'
  readonly idleSeconds: number
  /** null: flows are not cut. */
  readonly activeSeconds: number | null
  readonly detector: DetectorOptions
}

export interface Capture {
  readonly path: string
  /** Packets that count; null for all. */
  readonly filter: string | null
}

export const wholeCapture = (path: string): Capture => ({ path, filter: null })

const BATCH_FRAMES = 2048
const FILTERED_OUT = packetStatusCode('filtered-out')
const FALSE_POSITIVE_RATE = 0.01
const CALIBRATION_SHARE = 0.2
const TICK_MICROS = 1_000_000

/** Flows of captures, which never cross from one into the next. */
export async function collectFlows(captures: readonly Capture[], recipe: Recipe): Promise<CollectedFlows> {
  const collector = createFlowCollector({
    sizeMeasure: recipe.features === 'flow-summary' ? 'payload' : 'frame',
    idleTimeoutMicros: 1e6 * recipe.idleSeconds,
    endOnClose: recipe.features === 'flow-summary',
  })
  for (const capture of captures) {
    for await (const packets of packetsOf(capture, BATCH_FRAMES)) collector.add(packets)
    collector.endCapture()
  }
  return collector.finish()
}

async function* packetsOf({ path, filter }: Capture, batchFrames: number) {
  const keeps = filter === null ? null : compileFilter(filter)
  const packets = createPacketBatch(batchFrames)
  const source = openCapture(path, { batchFrames, emptyIsDamage: true })
  for await (const frames of source) {
    decodePackets(frames, packets)
    if (keeps !== null) {
      for (let i = 0; i < packets.count; i++) if (!keeps(packets, i)) packets.status[i] = FILTERED_OUT
    }
    yield packets
  }
  const { end } = source
  if (end !== null && (end.truncated || end.error !== null)) note(`${path}: ${end.detail ?? 'cut short'}`)
}

export async function trainOn(
  captures: readonly Capture[],
  recipe: Recipe,
  seed: number,
): Promise<SavedModel> {
  return trainOnFlows(await collectFlows(captures, recipe), recipe, seed)
}

export function trainOnFlows(flows: CollectedFlows, recipe: Recipe, seed: number): SavedModel {
  return trainOnSet(trainingSet(flows, recipe), recipe.detector, seed)
}

/** As `oddflow train` makes a model of rows of a file. */
export function trainOnRows(rows: Matrix, detector: DetectorOptions, seed: number): SavedModel {
  const scaler = detector.scaler ?? 'none'
  const contract = { featureSet: 'rows', featureSetVersion: 1, dimension: rows.cols, scaler } as const
  const inputOfRow = new Uint32Array(rows.rows)
  return trainOnSet({ rows, inputOfRow, contract, onePacketRule: null }, detector, seed)
}

export function trainOnSet(set: TrainingSet, detector: DetectorOptions, seed: number): SavedModel {
  return trainModel(set, {
    detector,
    falsePositiveRate: FALSE_POSITIVE_RATE,
    calibrationShare: CALIBRATION_SHARE,
    seed,
    oddflowVersion: VERSION,
  }).saved
}

export function trainingSet(flows: CollectedFlows, recipe: Recipe): TrainingSet {
  const contract = learnFeatureContract(flows, {
    featureSet: recipe.features,
    activeTimeoutMicros: recipe.activeSeconds === null ? null : 1e6 * recipe.activeSeconds,
    scaler: recipe.detector.scaler ?? 'none',
  })
  return trainingSetOf(flows, contract)
}

export interface JudgedFlows {
  /** Of the flow records that have one; higher is more normal. */
  readonly scores: readonly number[]
  /** Flow records that got a verdict. */
  readonly judged: number
  readonly flagged: number
  /** Captures with scored flows, and those flagged as a group; null of a model without a level for captures. */
  readonly groups: { readonly judged: number; readonly flagged: number } | null
}

/** Verdicts on all flow records of one capture, with and without a score, and on the capture as a group. */
export function judgeFlows(model: SavedModel, flows: CollectedFlows): JudgedFlows {
  const { contract, row, judge } = createFlowJudge(model)
  const group = model.groups?.capture == null ? null : createGroups(model.groups, 'capture')()
  const scores: number[] = []
  let judged = 0
  let flagged = 0
  extractRecords(flows, contract, (record) => {
    if (record.row !== null) row.set(record.row)
    const { score, novel, rule } = judge(record)
    if (rule === 'not-judged') return
    judged++
    if (novel) flagged++
    if (score === null) return
    scores.push(score)
    group?.add(score)
  })
  const verdict = group?.verdict() ?? null
  return {
    scores,
    judged,
    flagged,
    groups: verdict === null ? null : { judged: verdict.flows > 0 ? 1 : 0, flagged: verdict.novel ? 1 : 0 },
  }
}

/** Of captures, at least one, each alone. `flowsOf` may remember what it has read. */
export async function judgeCaptures<T>(
  model: SavedModel,
  captures: readonly T[],
  flowsOf: (capture: T) => Promise<CollectedFlows>,
): Promise<JudgedFlows> {
  const parts: JudgedFlows[] = []
  for (const capture of captures) parts.push(judgeFlows(model, await flowsOf(capture)))
  const sum = (of: (part: JudgedFlows) => number): number =>
    parts.reduce((total, part) => total + of(part), 0)
  return {
    scores: parts.flatMap(({ scores }) => scores),
    judged: sum(({ judged }) => judged),
    flagged: sum(({ flagged }) => flagged),
    groups: parts.some(({ groups }) => groups === null)
      ? null
      : { judged: sum(({ groups }) => groups!.judged), flagged: sum(({ groups }) => groups!.flagged) },
  }
}

/** `isNovel`: 1 = novel. Throws DataError where rows of one kind are missing. */
export function rank(scores: ArrayLike<number>, isNovel: ArrayLike<number>): Pick<Findings, 'auc' | 'found'> {
  const area = auc(scores, isNovel)
  const point = tprAtFpr(rocCurve(scores, isNovel), FALSE_POSITIVE_RATE)
  if (area.value === null) throw new DataError(`no AUC: ${area.reason}`)
  if (point.value === null) throw new DataError(`no rate: ${point.reason}`)
  return { auc: area.value, found: point.value }
}

/** Both kinds must be there. */
export function compare(normal: JudgedFlows, novel: JudgedFlows): Findings {
  const isNovel = [...normal.scores.map(() => 0), ...novel.scores.map(() => 1)]
  const scores = [...normal.scores, ...novel.scores]
  return {
    normalFlows: normal.judged,
    novelFlows: novel.judged,
    ...rank(scores, isNovel),
    normalFlagged: normal.flagged / normal.judged,
    novelFlagged: novel.flagged / novel.judged,
    groups:
      normal.groups === null || novel.groups === null
        ? null
        : {
            normal: normal.groups.flagged / normal.groups.judged,
            novel: novel.groups.flagged / novel.groups.judged,
          },
  }
}

/**
 * Seconds of packet time from a capture's first counted packet to the first flagged verdict, for a watcher that looks
 * at its flows once a second, on after the last packet; null where nothing is flagged.
 */
export async function secondsToFirstFlag(model: SavedModel, capture: Capture): Promise<number | null> {
  const { contract, row, judge } = createFlowJudge(model)
  let first: number | null = null
  let now = 0
  let flaggedAt: number | null = null
  const extractor = createFlowExtractor({
    contract,
    row,
    onRecord(record) {
      if (flaggedAt === null && judge(record).novel) flaggedAt = now
    },
  })
  const lookUntil = (until: number): void => {
    while (now + TICK_MICROS <= until) {
      now += TICK_MICROS
      extractor.expire(now)
    }
  }
  for await (const packets of packetsOf(capture, 1)) {
    for (let i = 0; i < packets.count; i++) {
      if (packets.status[i] === FILTERED_OUT) continue
      const time = packets.timestampMicros[i]!
      if (first === null) {
        first = time
        now = time
      }
      lookUntil(time)
      now = Math.max(now, time)
    }
    extractor.add(packets)
  }
  lookUntil(now + longestWaitMicros(contract))
  extractor.finish()
  return flaggedAt === null || first === null ? null : (flaggedAt - first) / 1e6
}

/** After so long without a packet no flow is open. */
function longestWaitMicros({ idleTimeoutMicros }: FlowContract): number {
  return idleTimeoutMicros + 2 * TICK_MICROS
}
