/**
 * Groups of flows: one verdict for a capture or a device, from how unusual its flows are together.
 *
 * A flow's surprise is −log p, p the share of held-out training flows that score no higher, at most MAXIMUM_SURPRISE. A
 * group's score is the mean surprise, about 1 for usual flows. It is novel above LEAST_LEVEL and above the scores of
 * all training groups, which a new normal group exceeds in 1 of g + 1 cases. `unusual` counts flows among the lowest 5
 * %.
 */
import { ArgumentError, exp, type Matrix } from '@oddflow/core'
import { fieldsAt, finiteAt, refuseOtherFields, wholeAt } from '../fields.js'
import { type ModelFileParts, type ModelFileReader, matrixTensor } from '../model-file/layout.js'
import { checkTailTable } from './support-guard.js'
import { createTailFunction, fitTailTable, logTail, type TailFunction } from './tail-probability.js'

/** Of one flow, in nats. */
const MAXIMUM_SURPRISE = 6

/** Measured on watched devices: lower levels flag devices that changed a little, higher ones miss other devices. */
const LEAST_LEVEL = 1.9

/** Share of held-out flows that are unusual. */
const UNUSUAL_SHARE = 0.05

/** The level above which a group of flows is novel. */
export interface GroupLevel {
  /** A group is novel when its score is larger. */
  readonly level: number
  /** Number of training groups for the level, at least 2. */
  readonly groups: number
}

/** What is usual for groups of flows in training: captures, and devices. */
export interface GroupCalibration {
  /** TailTable of the held-out scores, K × 2. */
  readonly tail: Matrix
  /** A flow with this score or a lower one is unusual. */
  readonly flowLevel: number
  /** Null with fewer than two groups of that kind. */
  readonly capture: GroupLevel | null
  readonly device: GroupLevel | null
}

/** Held-out scores of training rows, and the groups of each row. */
export interface GroupedScores {
  readonly scores: Float64Array
  readonly capture: Uint32Array
  /** Equal numbers mark rows of one device in one capture. */
  readonly device?: Uint32Array
}

/** Throws ArgumentError without scores. */
export function calibrateGroups({ scores, capture, device }: GroupedScores): GroupCalibration {
  return calibrateOver(scores, { scores, capture, ...(device === undefined ? {} : { device }) }, null)
}

/**
 * A calibration with more groups added. `distribution` has the held-out scores of all flows so far; levels only rise.
 */
export function joinGroups(
  before: GroupCalibration,
  distribution: Float64Array,
  given: GroupedScores,
): GroupCalibration {
  return calibrateOver(distribution, given, before)
}

function calibrateOver(
  distribution: Float64Array,
  { scores, capture, device }: GroupedScores,
  before: GroupCalibration | null,
): GroupCalibration {
  if (distribution.length === 0) throw new ArgumentError('groups: expected held-out scores, found none')
  const tail = fitTailTable(distribution.slice())
  const sorted = distribution.slice().sort()
  const flowLevel = sorted[Math.max(0, Math.floor(UNUSUAL_SHARE * sorted.length) - 1)]!
  const surprise = surpriseOf(tail)
  const levelOver = (groups: Uint32Array, known: GroupLevel | null): GroupLevel | null =>
    levelOf(scores, groups, surprise, known)
  return {
    tail,
    flowLevel,
    capture: levelOver(capture, before?.capture ?? null),
    device: device === undefined ? (before?.device ?? null) : levelOver(device, before?.device ?? null),
  }
}

function levelOf(
  scores: Float64Array,
  groups: Uint32Array,
  surprise: (score: number) => number,
  known: GroupLevel | null,
): GroupLevel | null {
  const sums = new Map<number, { sum: number; flows: number }>()
  for (let i = 0; i < scores.length; i++) {
    const group = sums.get(groups[i]!) ?? { sum: 0, flows: 0 }
    group.sum += surprise(scores[i]!)
    group.flows++
    sums.set(groups[i]!, group)
  }
  const count = sums.size + (known?.groups ?? 0)
  if (count < 2) return null
  const means = Array.from(sums.values(), ({ sum, flows }) => sum / flows)
  const least = Math.max(known?.level ?? 0, LEAST_LEVEL)
  return { level: means.reduce((most, mean) => Math.max(most, mean), least), groups: count }
}

/** Of the tables that `tailShare` was asked about: it is asked for each alert. */
const tailFunctions = new WeakMap<Matrix, TailFunction>()

/** The share of held-out training flows that score no higher; an exponential tail continues below the lowest. */
export function tailShare({ tail }: Pick<GroupCalibration, 'tail'>, score: number): number {
  let table = tailFunctions.get(tail)
  if (table === undefined) {
    table = createTailFunction(tail)
    tailFunctions.set(tail, table)
  }
  return exp(logTail(table, score))
}

function surpriseOf(tail: Matrix): (score: number) => number {
  const table = createTailFunction(tail)
  return (score) => Math.min(MAXIMUM_SURPRISE, -logTail(table, score))
}

/** The verdict on one group of flows. */
export interface GroupVerdict {
  readonly flows: number
  readonly unusual: number
  /** Mean surprise; 0 for no flows. */
  readonly score: number
  readonly novel: boolean
}

/** Adds up the flows of one group. */
export interface Group {
  add(score: number): void
  verdict(): GroupVerdict
}

/** Collects groups of one kind. Throws ArgumentError if the calibration has no level for them. */
export function createGroups(calibration: GroupCalibration, kind: 'capture' | 'device'): () => Group {
  const level = calibration[kind]
  if (level === null) {
    throw new ArgumentError(
      `the model has no level for a ${kind}: train it on two captures or more${kind === 'device' ? ' that hold devices' : ''}`,
    )
  }
  const surprise = surpriseOf(calibration.tail)
  return () => {
    let flows = 0
    let unusual = 0
    let sum = 0
    return {
      add(score) {
        flows++
        if (score <= calibration.flowLevel) unusual++
        sum += surprise(score)
      },
      verdict() {
        const score = flows === 0 ? 0 : sum / flows
        return { flows, unusual, score, novel: score > level.level }
      },
    }
  }
}

/** Metadata of models with a group calibration, and the beginning of its tensor's name. */
export const GROUPS_KEY = 'groups'

export function encodeGroups({ tail, flowLevel, capture, device }: GroupCalibration): ModelFileParts {
  return {
    metadata: { [GROUPS_KEY]: { flowLevel, capture, device } },
    tensors: { 'groups.tail': matrixTensor(tail) },
  }
}

export function decodeGroups(file: ModelFileReader): GroupCalibration {
  const head = fieldsAt(file.json(GROUPS_KEY), GROUPS_KEY)
  refuseOtherFields(head, GROUPS_KEY, ['flowLevel', 'capture', 'device'])
  return checkGroups({ ...head, tail: file.matrix('groups.tail') })
}

/** Throws ArgumentError with the invalid field. */
export function checkGroups(value: unknown): GroupCalibration {
  const { tail, flowLevel, capture, device } = fieldsAt(value, GROUPS_KEY)
  return {
    tail: checkTailTable(tail, 'groups.tail'),
    flowLevel: finiteAt(flowLevel, 'groups.flowLevel'),
    capture: checkLevel(capture, 'groups.capture'),
    device: checkLevel(device, 'groups.device'),
  }
}

function checkLevel(value: unknown, field: string): GroupLevel | null {
  if (value === null) return null
  const level = fieldsAt(value, field)
  refuseOtherFields(level, field, ['level', 'groups'])
  return {
    level: finiteAt(level.level, `${field}.level`),
    groups: wholeAt(level.groups, `${field}.groups`, 2),
  }
}
