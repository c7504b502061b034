/** Captures → models and verdicts, the same bytes as those of `oddflow train` and `oddflow score`. */
import { compileFilter, createPacketBatch, decodePackets, packetStatusCode } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { concatRows, DataError, type FlowContract, type Matrix } from '@oddflow/core'
import {
  createGroups,
  type DetectorModel,
  type DetectorOptions,
  isNovel,
  type SavedModel,
  type Threshold,
} from '@oddflow/detectors'
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
import { VERSION } from '../run/machine.js'
import { scoresOf } from '../run/trial-model.js'
import type { Findings } from './study.js'

/** Options of `oddflow train` that studies vary. */
export interface Recipe {
  readonly features: 'flow-summary' | 'iat-size'
  readonly idleSeconds: number
  /** null: flows are not cut. */
  readonly activeSeconds: number | null
  readonly detector: DetectorOptions
}

// ---- recipes

const DEFAULT_RECIPE: Recipe = {
  features: 'flow-summary',
  idleSeconds: 600,
  activeSeconds: 600,
  detector: { detector: 'ensemble' },
}
/** No flow of a capture is so long. */
const UNCUT_SECONDS = 1e7

function detectedBy(detector: DetectorOptions): Recipe {
  return { ...DEFAULT_RECIPE, detector }
}

/** One detector on the rows of the default, standardised as the ensemble's are. */
function alone(detector: DetectorOptions): Recipe {
  return detectedBy({ ...detector, scaler: 'standard' })
}

function cutAt(idleSeconds: number, activeSeconds: number): Recipe {
  return { ...DEFAULT_RECIPE, idleSeconds, activeSeconds }
}

export const DEFAULT_VARIANT = 'default'

/** Recipes by name. The studies judge `default`; recipe.ts compares the others with it. */
const VARIANTS: Readonly<Record<string, Recipe>> = {
  [DEFAULT_VARIANT]: DEFAULT_RECIPE,
  before: {
    features: 'iat-size',
    idleSeconds: 600,
    activeSeconds: null,
    detector: { detector: 'oc-kjl-qs' },
  },
  'nearest+hbos+gmm': detectedBy({ detector: 'ensemble', members: ['nearest', 'hbos', 'gmm'] }),
  'nearest+hbos+oc-kjl': detectedBy({ detector: 'ensemble', members: ['nearest', 'hbos', 'oc-kjl'] }),
  'nearest+hbos+iforest': detectedBy({ detector: 'ensemble', members: ['nearest', 'hbos', 'iforest'] }),
  'ensemble-of-nearest': detectedBy({ detector: 'ensemble', members: ['nearest'] }),
  'ensemble-of-hbos': detectedBy({ detector: 'ensemble', members: ['hbos'] }),
  'm-50': detectedBy({ detector: 'ensemble', m: 50 }),
  'm-32': detectedBy({ detector: 'ensemble', m: 32 }),
  'bins-10': detectedBy({ detector: 'ensemble', bins: 10 }),
  'bins-30': detectedBy({ detector: 'ensemble', bins: 30 }),
  nearest: alone({ detector: 'nearest' }),
  hbos: alone({ detector: 'hbos' }),
  gmm: alone({ detector: 'gmm' }),
  'oc-kjl': alone({ detector: 'oc-kjl' }),
  'oc-kjl-d-10-q-0.6': alone({ detector: 'oc-kjl', d: 10, bandwidthQuantile: 0.6 }),
  'ocsvm-nu-0.01': alone({ detector: 'ocsvm', nu: 0.01 }),
  'ocsvm-nu-0.5': alone({ detector: 'ocsvm', nu: 0.5 }),
  iforest: alone({ detector: 'iforest' }),
  pca: alone({ detector: 'pca' }),
  kde: alone({ detector: 'kde' }),
  'idle-900-cut-900': cutAt(900, 900),
  'idle-600-uncut': cutAt(600, UNCUT_SECONDS),
  'idle-600-cut-300': cutAt(600, 300),
  'idle-600-cut-60': cutAt(600, 60),
  'idle-300-uncut': cutAt(300, UNCUT_SECONDS),
  'idle-300-cut-600': cutAt(300, 600),
  'idle-300-cut-300': cutAt(300, 300),
  'idle-120-cut-300': cutAt(120, 300),
  'idle-60-cut-60': cutAt(60, 60),
}

export const VARIANT_NAMES = Object.keys(VARIANTS)

export function variantNamed(name: string): Recipe {
  const recipe = VARIANTS[name]
  if (recipe === undefined) throw new RangeError(`${name}: no such variant`)
  return recipe
}

/** As the command line of `oddflow train` has it. */
export function describeRecipe({ features, idleSeconds, activeSeconds, detector }: Recipe): string {
  const options = Object.entries(detector).map(([name, value]) => {
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
    return value === true ? flag : `${flag} ${Array.isArray(value) ? value.join(',') : String(value)}`
  })
  return [
    'oddflow train …',
    `--features ${features}`,
    `--idle-timeout ${idleSeconds}`,
    ...(activeSeconds === null ? [] : [`--active-timeout ${activeSeconds}`]),
    ...options,
  ].join(' ')
}

// ---- captures to flows, models and verdicts

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

/** Packet time from the first counted packet to the first flagged verdict, for a watcher that looks once a second. */
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

// ---- scores of rows by a model

/** `labels`: 1 = novel. Throws DataError where rows of one kind are missing. */
export function areaOf(scores: Float64Array, labels: ArrayLike<number>): number {
  const { value } = auc(scores, labels)
  if (value === null) throw new DataError('expected normal rows and novel ones to judge')
  return value
}

export function aucOf(model: DetectorModel, normal: Matrix, novel: Matrix): number {
  const scores = scoresOf(model, concatRows([normal, novel]))
  return areaOf(scores, new Uint8Array(scores.length).fill(1, normal.rows))
}

interface Judge {
  readonly detector: DetectorModel
  readonly threshold: Threshold
}

/** Share of rows called novel; 0 of none. */
export function novelShare({ detector, threshold }: Judge, rows: Matrix): number {
  if (rows.rows === 0) return 0
  return scoresOf(detector, rows).filter((score) => isNovel(score, threshold)).length / rows.rows
}
