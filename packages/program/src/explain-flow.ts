/**
 * Explains a novel flow or row: the features that moved its score, and at most three reasons. For an ensemble a
 * feature's weight is its nats of the score, for others the rise when columns take the values of the nearest normal
 * example. An unknown service always is a reason. No words or numbers are chosen by a device.
 */
import { type FeatureColumn, type FeatureContract, featureColumns, hasFixedColumns } from '@oddflow/core'
import {
  createExplainer,
  type NearestMode,
  type SavedModel,
  type ScoreExplanation,
  tailShare,
} from '@oddflow/detectors'
import {
  type ColumnTopic,
  type FlowEnd,
  grouped,
  measuredUnit,
  measuredValue,
  partsOf,
  plainScale,
  reasonText,
  serviceReason,
  told,
  topicOf,
} from './flow-reasons.js'
import { printable } from './messages.js'

/** How rare a score is among normal flows: its conformal p-value, or a bound on it. */
export interface Rarity {
  /** At most this share of normal flows has a score as low. */
  readonly atMost: number
  /** Normal flows that say so. */
  readonly flows: number
}

/**
 * Only for a novel score. A model that held its training flows out stores how low they scored. For others only the
 * threshold is known, and a score at or below it counts as that rare.
 */
export function scoreRarity(
  { threshold, groups }: Pick<SavedModel, 'threshold' | 'groups'>,
  score: number,
): Rarity {
  const { rows, bound } = threshold.calibration
  if (groups === undefined) return { atMost: bound, flows: rows }
  const held = tailShare(groups, score) * (rows + 1)
  // the table is linear between some of the flows: uses the count of the next one
  const asLow = held < 1 - RARITY_ROUNDING ? 0 : Math.ceil(held - RARITY_ROUNDING)
  return { atMost: Math.min(1, (1 + asLow) / (rows + 1)), flows: rows }
}

const RARITY_ROUNDING = 1e-6

/** "rarer than 1 flow in 1,600", or 1 row; null if not rare, or without a comparison. */
export function rarityText({ atMost, flows }: Rarity, kind: 'flow' | 'row' = 'flow'): string | null {
  const one = 1 / atMost
  if (flows === 0 || !(one >= 10)) return null
  const step = 10 ** Math.max(0, Math.floor(Math.log10(one)) - 1)
  return `rarer than 1 ${kind} in ${grouped(Math.floor(one / step) * step)}`
}

/**
 * The columns of a row: fixed by place, except in IAT+SIZE rows (feature-sets/iat-size.ts of the flows), where a flow
 * of n < p packets has size(n) in column 2n − 2 and then zeros. A stored row does not say n: no frame has size 0, so
 * its last column that is not 0 does. In the very last column a whole number of at least a header's bytes counts as a
 * size. Numbers nearer to 0 than any time or size count as 0, because unscaling rounds.
 */
function createRowColumns(
  contract: FeatureContract,
  columns: readonly FeatureColumn[],
): (row: Float64Array, packets: number | null) => RowColumns {
  if (contract.featureSet !== 'iat-size') return () => columns
  const { packetsPerFlow } = contract
  const { name, unit } = columns[0]
  const iat = (n: number): FeatureColumn => ({ name: `${name.slice(0, -1)}${n}`, unit })
  const last = columns.length - 1
  return (row, packets) => {
    const end = packets === null ? lastColumnOf(row) : Math.min(last, 2 * packets - 2)
    const isLonger = packets === null ? !isSize(row[last]) : packets > packetsPerFlow
    return columns.map((column, at) => {
      if (at % 2 === 1) return at <= end ? column : null
      const number = at / 2 + 1
      // a row that ends with a size in a size column continues: the time after it, in the last column, is 0
      if (at === last && end >= last - 1) return isLonger ? iat(number) : column
      if (at > end) return null
      return at === end ? { name: `size${number}`, unit: 'bytes' } : iat(number)
    })
  }
}

/** null where the row holds nothing: its flow is shorter. */
type RowColumns = readonly (FeatureColumn | null)[]

const LEAST_FRAME_BYTES = 14
const LONGEST_NAME = 60

/** Names for columns of bare rows; a name that is empty, repeated or equal to another column's number is not used. */
function namedColumns(contract: FeatureContract, names: readonly string[]): FeatureColumn[] {
  const shown = names.map((name) => printable(name).slice(0, LONGEST_NAME))
  return featureColumns(contract).map((column, at) => {
    const name = shown[at] ?? ''
    const isOwn = shown.indexOf(name) === shown.lastIndexOf(name) && !/^(x\d+)?$/.test(name)
    return isOwn ? { ...column, name } : column
  })
}

function lastColumnOf(row: Float64Array): number {
  for (let at = row.length - 1; at >= 0; at--) if (Math.abs(row[at]) > ROUNDING) return at
  return -1
}

function isSize(value: number): boolean {
  return value > LEAST_FRAME_BYTES - 0.5 && Math.abs(value - Math.round(value)) <= ROUNDING
}

/** A feature that makes a flow novel, beside its usual values. */
export interface ExplainedFeature {
  readonly name: string
  readonly unit: string
  /** null where the flow has no such feature, having ended before. */
  readonly value: number | null
  /** Of the most similar normal flow that the model stores; null if it has no such feature. */
  readonly nearest: number | null
  /** Of the typical flow of the mode; null if it has no such feature, or without modes. */
  readonly typical: number | null
  /**
   * For an ensemble, nats of the score; otherwise the rise of the score when the feature, after those before it, equals
   * the nearest flow's.
   */
  readonly gain: number
}

/** Why a flow is novel. */
export interface FlowExplanation {
  /** Features by name; the flow as a whole, if no feature makes the difference; or no normal flow to compare with. */
  readonly reason: 'features' | 'whole' | 'no-comparison'
  /** At most MAXIMUM_REASONS, the most telling first. */
  readonly reasons: readonly string[]
  /** null where the detector has no modes. */
  readonly mode: NearestMode | null
  /** The most telling first. */
  readonly features: readonly ExplainedFeature[]
  /** What the ends of the nearest normal flow sent; null for other features than flow summaries, and without a comparison. */
  readonly nearestBytes: Readonly<Record<FlowEnd, number>> | null
}

interface JudgedRow {
  /** D numbers. */
  readonly row: Float64Array
  readonly score: number
  readonly threshold: number
  /** Of the row's flow; null if unknown. */
  readonly packets: number | null
  /** What this end sent is "sent"; default the initiator. */
  readonly viewpoint?: FlowEnd
}

/** Explains the verdict on a row of a flow. */
export type FlowExplainer = (judged: JudgedRow) => FlowExplanation

const MAXIMUM_REASONS = 3
/** Least share of the way from the score to the threshold; a feature with a smaller rise explains nothing. */
const NEGLIGIBLE_GAIN = 0.01
/** Least share of an ensemble's score; a feature below it is only named if it is the first. */
const NEGLIGIBLE_NATS = 0.15
/** What a model remembers comes back from its scaler exact to rounding. */
const ROUNDING = 1e-7

const NOTHING: FlowExplanation = {
  reason: 'no-comparison',
  reasons: [],
  mode: null,
  features: [],
  nearestBytes: null,
}

/** The first ones; a service that training did not have is among them. */
function reasonsOf(topics: readonly Topic[]): string[] {
  const told = topics.filter(({ text }) => text !== null)
  const first = told.slice(0, MAXIMUM_REASONS)
  const unknown = told.find(({ isUnknown }) => isUnknown)
  if (unknown !== undefined && !first.includes(unknown)) first[MAXIMUM_REASONS - 1] = unknown
  return first.flatMap(({ text }) => text ?? [])
}

/** What moved the score, before it has words. */
interface Topic {
  /** The value of a category column that training did not have. */
  readonly isUnknown: boolean
  readonly feature: ExplainedFeature
  /** null where nothing plain can be said. */
  readonly text: string | null
}

type TopicsOf = (judged: JudgedRow, explanation: ScoreExplanation, weights: ColumnWeights) => Topic[]

/** @param names of the columns, if a file of bare rows has any: shown instead of x1, x2 … */
export function createFlowExplainer(
  { detector, contract }: SavedModel,
  names: readonly string[] = [],
): FlowExplainer {
  const explainer = createExplainer(detector)
  if (explainer === null) return () => NOTHING
  const { categoryColumn = -1 } = detector.scaler
  const columns = contract.featureSet === 'rows' ? namedColumns(contract, names) : featureColumns(contract)
  const isSummary = contract.featureSet === 'flow-summary'
  const topicsOf = isSummary
    ? summaryTopics(columns, categoryColumn)
    : namedTopics(columns, categoryColumn, {
        columnsOf: createRowColumns(contract, columns),
        isOfMeans: detector.kind === 'gmm' || detector.kind === 'pca',
        keepsPlaces: contract.featureSet === 'rows' || hasFixedColumns(contract),
      })
  const bytesColumns = {
    initiator: columns.findIndex(({ name }) => name === 'initiator_bytes'),
    responder: columns.findIndex(({ name }) => name === 'responder_bytes'),
  }
  const bytesIn = (values: Float64Array, end: FlowEnd): number =>
    measuredValue(columns[bytesColumns[end]]!, values[bytesColumns[end]]!)
  return (judged) => {
    const { row, score, threshold } = judged
    const explanation = explainer.explain(row, score, threshold)
    const { mode, nearestRow } = explanation
    const topics = topicsOf(judged, explanation, weightsOf(explanation, threshold - score))
    return {
      reason: topics.length === 0 ? 'whole' : 'features',
      reasons: reasonsOf(topics),
      mode,
      features: topics.map(({ feature }) => feature),
      nearestBytes: isSummary
        ? { initiator: bytesIn(nearestRow, 'initiator'), responder: bytesIn(nearestRow, 'responder') }
        : null,
    }
  }
}

/** Of flow summaries: a family of columns that say much the same is one topic, shown by its column of most weight. */
function summaryTopics(columns: readonly FeatureColumn[], categoryColumn: number): TopicsOf {
  const measured = (values: Float64Array, at: number): number => measuredValue(columns[at]!, values[at]!)
  const parts = columns.map(({ name }) => partsOf(name))
  const places = new Map(columns.map(({ name }, column) => [name, column]))
  const at = (name: string): number => places.get(name) ?? -1
  return ({ row, viewpoint = 'initiator' }, { nearestRow, typicalRow, columns: surprises }, weights) => {
    const packets = {
      initiator: measured(row, at('initiator_packets')),
      responder: measured(row, at('responder_packets')),
    }
    const isKnown = surprises?.category !== 'new' && surprises?.category !== 'rare'
    const families = new Map<
      string,
      { topic: ColumnTopic; column: number; largest: number; weight: number }
    >()
    for (const [column, weight] of weights.of) {
      const topic = topicOf(parts[column]!, packets, isKnown)
      const family = families.get(topic.family)
      if (family === undefined) {
        families.set(topic.family, { topic, column: at(topic.name), largest: weight, weight })
        continue
      }
      if (weight > family.largest) Object.assign(family, { topic, column: at(topic.name), largest: weight })
      family.weight += weight
    }
    return telling([...families.values()], weights, categoryColumn).map(({ topic, column, weight }) => {
      const value = measured(row, column)
      const nearest = measured(nearestRow, column)
      const { low, high } = surprises?.usual ?? {}
      const usual =
        low === undefined || high === undefined
          ? null
          : { low: measured(low, column), high: measured(high, column) }
      const isUnknown = column === categoryColumn
      return {
        isUnknown,
        feature: {
          name: columns[column]!.name,
          unit: measuredUnit(columns[column]!),
          value,
          // normal flows have their own services: the row's is shown in their place
          nearest: isUnknown ? null : nearest,
          typical: typicalRow === null ? null : measured(typicalRow, column),
          gain: weight,
        },
        text: isUnknown
          ? serviceReason(row[column]!, surprises?.category === 'rare')
          : reasonText(topic, { value, nearest, usual }, viewpoint),
      }
    })
  }
}

interface NamedRules {
  readonly columnsOf: ReturnType<typeof createRowColumns>
  /** The model's examples are means, not real flows: only column places are known. */
  readonly isOfMeans: boolean
  /** A column means the same in all rows. */
  readonly keepsPlaces: boolean
}

/** Of other feature sets: a feature's name is a topic. */
function namedTopics(
  columns: readonly FeatureColumn[],
  categoryColumn: number,
  { columnsOf, isOfMeans, keepsPlaces }: NamedRules,
): TopicsOf {
  return ({ row, packets }, { nearestRow, typicalRow, columns: surprises }, weights) => {
    const own = { values: row, columns: columnsOf(row, packets) }
    const remembered = (values: Float64Array): NamedRow => ({
      values,
      columns: isOfMeans ? own.columns : columnsOf(values, null),
    })
    const nearest = remembered(nearestRow)
    const typical = typicalRow === null ? null : remembered(typicalRow)
    const byName = new Map<string, { readonly column: number; readonly of: FeatureColumn; weight: number }>()
    for (const [at, weight] of weights.of) {
      const column = at === categoryColumn ? columns[at]! : whatDiffers(own, nearest, at)
      if (column === null) continue
      const earlier = byName.get(column.name)
      if (earlier === undefined) byName.set(column.name, { column: at, of: column, weight })
      else earlier.weight += weight
    }
    const { low, high } = (keepsPlaces ? surprises?.usual : null) ?? {}
    const textOf = (at: number, { name, unit }: FeatureColumn, value: number | null): string => {
      const normal = featureOf(nearest, name)
      if (value === null || normal === null) return lackText({ name, unit }, value, normal)
      const usual = low === undefined || high === undefined ? null : { low: low[at]!, high: high[at]! }
      return told({ value, nearest: normal, usual }, plainScale(unit), (shown) => `${name} ${shown}`)
    }
    return telling([...byName.values()], weights, categoryColumn).map(({ column: at, of, weight }) => {
      const { name, unit } = of
      const value = featureOf(own, name)
      const isUnknown = at === categoryColumn
      return {
        isUnknown,
        feature: {
          name,
          unit,
          value,
          nearest: isUnknown ? null : featureOf(nearest, name),
          typical: typical === null ? null : featureOf(typical, name),
          gain: weight,
        },
        text: isUnknown
          ? `${name} ${value} was ${surprises?.category === 'rare' ? 'rarely or ' : ''}never seen`
          : textOf(at, of, value),
      }
    })
  }
}

// ---- weights

interface ColumnWeights {
  /** Columns with what they make of the score, above 0. */
  readonly of: readonly (readonly [column: number, weight: number])[]
  /** A topic of less is no reason. */
  readonly least: number
  /** In order of weight, always including the first; otherwise in the order of the explanation. */
  readonly isRanked: boolean
}

function weightsOf({ columns, features }: ScoreExplanation, lack: number): ColumnWeights {
  if (columns === null) {
    const of = features.map(({ column, gain }) => [column, gain] as const)
    return { of, least: NEGLIGIBLE_GAIN * lack, isRanked: false }
  }
  const of: [column: number, weight: number][] = []
  let sum = 0
  for (let column = 0; column < columns.nats.length; column++) {
    const nats = columns.nats[column]!
    if (!(nats > 0)) continue
    of.push([column, nats])
    sum += nats
  }
  return { of, least: NEGLIGIBLE_NATS * sum, isRanked: true }
}

function telling<T extends { readonly column: number; readonly weight: number }>(
  topics: T[],
  { least, isRanked }: ColumnWeights,
  categoryColumn: number,
): T[] {
  if (isRanked) topics.sort((a, b) => b.weight - a.weight)
  return topics.filter(
    ({ column, weight }, i) =>
      weight > 0 && (weight >= least || (isRanked && i === 0) || column === categoryColumn),
  )
}

// ---- features by name

interface NamedRow {
  readonly values: Float64Array
  readonly columns: RowColumns
}

/** null where the flow has no such feature. */
function featureOf({ values, columns }: NamedRow, name: string): number | null {
  const at = columns.findIndex((column) => column?.name === name)
  return at === -1 ? null : values[at]!
}

/**
 * The feature by which two rows differ in a column. Where one flow ends and the other continues, one row has a size in
 * the column and the other a time, or nothing. If the size is equal in both, the feature is the time that one lacks.
 * null if they differ only by rounding.
 */
function whatDiffers(own: NamedRow, nearest: NamedRow, at: number): FeatureColumn | null {
  const [here, there] = [own.columns[at] ?? null, nearest.columns[at] ?? null]
  if (here !== null && here.name === there?.name) return here
  for (const column of [here, there, own.columns[at - 1], nearest.columns[at - 1]]) {
    if (column === null || column === undefined) continue
    const [value, normal] = [featureOf(own, column.name), featureOf(nearest, column.name)]
    if (value === null || normal === null ? value !== normal : Math.abs(value - normal) > ROUNDING)
      return column
  }
  return null
}

function lackText({ name, unit }: FeatureColumn, value: number | null, normal: number | null): string {
  const of = (x: number | null): string =>
    x === null ? 'none' : [Number.isInteger(x) ? x : Number(x.toPrecision(3)), unit].join(' ').trim()
  return value === null
    ? `no ${name} (normal: ${of(normal)})`
    : `${name} ${of(value)} (normal: ${of(normal)})`
}
