/**
 * Values learned from training flows (paper, section on features): T = 0.9-quantile of the durations of uncut flows
 * with the minimum of packets, in whole microseconds; p = 0.9-quantile of packets a piece after cutting, rounded down;
 * and the window of SAMP. Quantiles are numpy's default. Directional flows follow the authors' rules: floats of
 * seconds, T not rounded, windows from pieces.
 */
import {
  ArgumentError,
  connectionRules,
  DataError,
  DEFAULT_FLOW_PROTOCOLS,
  type FeatureSetOption,
  FLOW_SUMMARY_DIMENSION,
  type FlowContract,
  type FlowFeatureSet,
  type FlowProtocol,
  type FlowRules,
  type FlowSummaryContract,
  featureDimension,
  type IatSizeContract,
  type IatUnit,
  MAXIMUM_PACKETS_KEPT,
  maximumPacketsPerFlow,
  PACKET_FEATURE_SETS,
  type PacketContract,
  type PacketFeatureSet,
  type PacketView,
  packetFeatureSet,
  packetRules,
  type TruncationMode,
} from '@oddflow/core'
import { cutFlows, cutFlowsAtIdleGaps } from './extract-records.js'
import { createNoRows } from './feature-sets/feature-extractor.js'
import { PACKET_FEATURES } from './feature-sets/registry.js'
import type { CollectedFlows } from './flow-collector.js'
import { linearQuantile } from './numbers.js'

/**
 * Checks a caller's options for learning: their ranges, and refuses by name options that do not apply to the feature set or to
 * the way the flows were collected.
 */

/** Options of one feature set and not of another. */
const OWN_OPTIONS: readonly FeatureSetOption[] = [
  'iatUnit',
  'samplingQuantile',
  'headerPackets',
  'packetsKept',
]

/** Throws ArgumentError naming the option. */
function checkLearnOptions(flows: CollectedFlows, options: LearnContractOptions): void {
  const { featureSet = 'iat-size', quantile = 0.9, minimumPackets = 2, samplingQuantile = 0.3 } = options
  const { activeTimeoutMicros = null, headerPackets, packetsKept, mode } = options
  const most = featureSet === 'flow-summary' ? 2 : maximumPacketsPerFlow(featureSet)
  check('quantile', quantile >= 0 && quantile <= 1, 'a number from 0 to 1', quantile)
  check(
    'samplingQuantile',
    samplingQuantile >= 0 && samplingQuantile <= 1,
    'a number from 0 to 1',
    samplingQuantile,
  )
  check(
    'minimumPackets',
    isWhole(minimumPackets, 2, most),
    `a whole number from 2 to ${most}`,
    minimumPackets,
  )
  const activeFits = activeTimeoutMicros === null || isWhole(activeTimeoutMicros, 1, Number.MAX_SAFE_INTEGER)
  check('activeTimeoutMicros', activeFits, 'a whole number ≥ 1 or null', activeTimeoutMicros)
  const applies = (option: keyof LearnContractOptions, sets: readonly string[]): void => {
    const holds = options[option] === undefined || sets.includes(featureSet)
    check(option, holds, `no such option for ${featureSet}`, options[option])
  }
  applies('mode', PACKET_FEATURE_SETS)
  applies('quantile', PACKET_FEATURE_SETS)
  applies('minimumPackets', PACKET_FEATURE_SETS)
  for (const option of OWN_OPTIONS) {
    applies(
      option,
      PACKET_FEATURE_SETS.filter((name) => packetFeatureSet(name).options.includes(option)),
    )
  }
  if (headerPackets !== undefined) {
    check('headerPackets', isWhole(headerPackets, 2, most), `a whole number from 2 to ${most}`, headerPackets)
  }
  if (packetsKept !== undefined) {
    const fits = isWhole(packetsKept, 2, MAXIMUM_PACKETS_KEPT)
    check('packetsKept', fits, `a whole number from 2 to ${MAXIMUM_PACKETS_KEPT}`, packetsKept)
  }
  const directional = flows.flowKey === 'directional-5-tuple'
  if (featureSet === 'flow-summary') {
    check('flows', !directional, 'bidirectional flows for flow-summary', flows.flowKey)
    check('flows', flows.sizeMeasure === 'payload', 'payload sizes for flow-summary', flows.sizeMeasure)
  }
  if (mode !== undefined) {
    const expected = directional
      ? 'idle-gap for directional flows'
      : 'split or truncate for bidirectional flows'
    check('mode', (mode === 'idle-gap') === directional, expected, mode)
  }
  if (directional)
    check('activeTimeoutMicros', activeTimeoutMicros === null, 'null in idle-gap', activeTimeoutMicros)
}

function isWhole(value: number, low: number, high: number): boolean {
  return Number.isSafeInteger(value) && value >= low && value <= high
}

function check(field: string, holds: boolean, expected: string, found: unknown): void {
  if (!holds) throw new ArgumentError(`${field}: expected ${expected}, found ${String(found)}`, field)
}

/** Options of `learnFeatureContract`. */
export interface LearnContractOptions {
  /** Default iat-size. */
  readonly featureSet?: FlowFeatureSet
  /**
   * Default split; directional flows are cut in mode idle-gap, and others are not. Refused for flow-summary, like
   * quantile and minimumPackets: its rows cover whole records.
   */
  readonly mode?: TruncationMode
  /** Default seconds. Refused for feature sets without times in their rows. */
  readonly iatUnit?: IatUnit
  /** Whole number of microseconds, or null for no limit, which is the default except for flow-summary. */
  readonly activeTimeoutMicros?: number | null
  /** Default 2, the least that has an interarrival time. */
  readonly minimumPackets?: number
  /** Of durations and of packets, in [0, 1]. Default 0.9. */
  readonly quantile?: number
  /**
   * Quantile of flow durations for the windows of SAMP, in [0, 1]: the paper tries 0.1, 0.2, …, 0.9, 0.95. Default 0.3.
   */
  readonly samplingQuantile?: number
  /** Maximum number of packets whose headers make a header-bits row, and so of p. Default 10. */
  readonly headerPackets?: number
  /** Packets of a record that stats-header covers. Default 65,536, at least p. */
  readonly packetsKept?: number
  /** How the packets were decoded, which flows do not show. Default outer headers, fragments not joined. */
  readonly view?: PacketView
  /** Default none. */
  readonly scaler?: string
}

const OUTER_VIEW: PacketView = { decapsulation: 'outer', joinFragments: false }

/** Default cut of flow summaries, chosen by measurement: docs/results/default-recipe.md. */
export const DEFAULT_SUMMARY_TIMEOUTS: Pick<
  FlowSummaryContract,
  'idleTimeoutMicros' | 'activeTimeoutMicros'
> = { idleTimeoutMicros: 600_000_000, activeTimeoutMicros: 600_000_000 }

/** A contract of flow summaries, which needs no learning. Times are whole microseconds. */
export function flowSummaryContract(
  given: Partial<
    Pick<
      FlowSummaryContract,
      'idleTimeoutMicros' | 'activeTimeoutMicros' | 'scaler' | 'endOnClose' | 'vlanKey'
    >
  > = {},
  view: PacketView = OUTER_VIEW,
  protocols: readonly FlowProtocol[] = DEFAULT_FLOW_PROTOCOLS,
): FlowSummaryContract {
  const rules = { ...DEFAULT_SUMMARY_TIMEOUTS, ...given }
  return {
    featureSet: 'flow-summary',
    featureSetVersion: 1,
    dimension: FLOW_SUMMARY_DIMENSION,
    sizeMeasure: 'payload',
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: rules.idleTimeoutMicros,
    activeTimeoutMicros: rules.activeTimeoutMicros,
    minimumPackets: 1,
    scaler: rules.scaler ?? 'none',
    ...packetRules(view, protocols),
    ...connectionRules('flow-summary', rules),
  }
}

/** The ten quantiles of flow durations from which the paper takes windows of SAMP. */
export const SAMPLING_QUANTILES: readonly number[] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]

/**
 * Learns a contract from flows of normal traffic. p is limited by the widest row.
 *
 * @throws DataError if no flow has the minimum of packets, or if a learned window or duration is 0;
 *   ArgumentError if an option is out of range or does not apply.
 */
export function learnFeatureContract(
  flows: CollectedFlows,
  options?: LearnContractOptions & { readonly featureSet?: PacketFeatureSet },
): PacketContract
export function learnFeatureContract(flows: CollectedFlows, options?: LearnContractOptions): FlowContract
export function learnFeatureContract(
  flows: CollectedFlows,
  options: LearnContractOptions = {},
): FlowContract {
  const { featureSet = 'iat-size', quantile = 0.9, samplingQuantile = 0.3, iatUnit = 'seconds' } = options
  checkLearnOptions(flows, options)
  if (featureSet === 'flow-summary') {
    if (flows.count === 0) throw new DataError('no flow to learn from: train on a longer capture')
    const {
      activeTimeoutMicros = DEFAULT_SUMMARY_TIMEOUTS.activeTimeoutMicros,
      scaler = 'none',
      view,
    } = options
    const { idleTimeoutMicros, endOnClose, vlanKey, protocols } = flows
    const rules = { idleTimeoutMicros, activeTimeoutMicros, scaler, endOnClose, vlanKey }
    return flowSummaryContract(rules, view, protocols)
  }
  const learned =
    flows.flowKey === 'directional-5-tuple' ? learnIdleGap(flows, options) : learnCut(flows, options)
  const { minimumPackets = 2, activeTimeoutMicros = null, scaler = 'none' } = options
  const longest = linearQuantile(learned.lengths, quantile)
  // The authors' code rounds down whatever interpolation left.
  const whole = learned.truncation.mode === 'idle-gap' ? Math.floor(longest) : floorOf(longest)
  const length = Math.max(minimumPackets, whole)
  const { defaultPackets, learn } = PACKET_FEATURES[featureSet]
  const wanted = options.headerPackets ?? defaultPackets ?? Number.POSITIVE_INFINITY
  const most = Math.min(maximumPacketsPerFlow(featureSet), Math.max(minimumPackets, wanted))
  const packetsPerFlow = Math.min(most, length)
  const rules: FlowRules = {
    featureSetVersion: 1,
    dimension: featureDimension(featureSet, packetsPerFlow, learned.truncation.mode),
    packetsPerFlow,
    sizeMeasure: flows.sizeMeasure,
    flowKey: flows.flowKey,
    idleTimeoutMicros: flows.idleTimeoutMicros,
    activeTimeoutMicros,
    truncation: learned.truncation,
    minimumPackets,
    scaler,
    ...packetRules(options.view ?? OUTER_VIEW, flows.protocols),
    ...connectionRules(featureSet, flows),
  }
  const { truncation, samplingDurations } = learned
  const { mode } = truncation
  const { packetsKept } = options
  const own = learn?.({ iatUnit, packetsPerFlow, packetsKept, samplingQuantile, samplingDurations, mode })
  return { featureSet, ...rules, ...own } as PacketContract
}

/** `learnFeatureContract` for IAT+SIZE. */
export function learnIatSizeContract(
  flows: CollectedFlows,
  options: Omit<LearnContractOptions, 'featureSet'> = {},
): IatSizeContract {
  return learnFeatureContract(flows, { ...options, featureSet: 'iat-size' }) as IatSizeContract
}

interface Learned {
  readonly truncation: FlowRules['truncation']
  /** Packets of each row. */
  readonly lengths: number[]
  /** Durations whose quantiles are the windows of SAMP: microseconds, or seconds in idle-gap. */
  readonly samplingDurations: number[]
}

function learnCut(flows: CollectedFlows, options: LearnContractOptions): Learned {
  const { minimumPackets = 2, quantile = 0.9, activeTimeoutMicros = null } = options
  const mode = options.mode === 'truncate' ? 'truncate' : 'split'
  const rule = { split: mode === 'split', activeTimeoutMicros, minimumPackets }
  const durations: number[] = []
  cutFlows(flows, { ...rule, durationMicros: Number.POSITIVE_INFINITY }, createNoRows(), (record) => {
    if (record.noRowReason === null) durations.push(record.durationMicros)
  })
  checkSomeFlows(durations, flows, minimumPackets)
  const durationMicros = Math.max(1, floorOf(linearQuantile(durations, quantile)))
  const lengths: number[] = []
  cutFlows(flows, { ...rule, durationMicros }, createNoRows(), (record) => {
    if (record.noRowReason === null) lengths.push(record.rowPackets)
  })
  if (lengths.length === 0) {
    throw new DataError(
      `no flow has ${minimumPackets} packets within ${durationMicros} µs: train on more flows, or use mode split`,
    )
  }
  return { truncation: { mode, durationMicros }, lengths, samplingDurations: durations }
}

function learnIdleGap(flows: CollectedFlows, options: LearnContractOptions): Learned {
  const { minimumPackets = 2, quantile = 0.9 } = options
  const durations: number[] = []
  for (let f = 0; f < flows.count; f++) {
    const [first, end] = [flows.packetOffset[f], flows.packetOffset[f + 1]]
    if (end - first >= minimumPackets) durations.push(secondsBetween(flows, first, end - 1))
  }
  checkSomeFlows(durations, flows, minimumPackets)
  const durationSeconds = linearQuantile(durations, quantile)
  if (!(durationSeconds > 0)) {
    throw new DataError(`durationSeconds: the ${quantile}-quantile of flow durations is 0: nothing to cut at`)
  }
  const lengths: number[] = []
  const samplingDurations: number[] = []
  cutFlowsAtIdleGaps(flows, durationSeconds, minimumPackets, createNoRows(), (record) => {
    if (record.noRowReason !== null) return
    lengths.push(record.packets)
    const start = record.startMicros / 1_000_000
    samplingDurations.push((record.startMicros + record.durationMicros) / 1_000_000 - start)
  })
  if (lengths.length === 0) throw new DataError('idle-gap rules leave no piece: train on more flows')
  return {
    truncation: {
      mode: 'idle-gap',
      durationMicros: Math.floor(durationSeconds * 1_000_000),
      durationSeconds,
    },
    lengths,
    samplingDurations,
  }
}

function checkSomeFlows(durations: readonly number[], flows: CollectedFlows, minimumPackets: number): void {
  if (durations.length > 0) return
  throw new DataError(
    `no flow of ${minimumPackets} or more packets to learn from (${flows.count} flows in all): ` +
      'train on a longer capture',
  )
}

function secondsBetween(flows: CollectedFlows, i: number, j: number): number {
  return flows.packetMicros[j] / 1_000_000 - flows.packetMicros[i] / 1_000_000
}

/** Removes interpolation errors: a quantile within 1e-9 of a whole number becomes that number. */
function floorOf(value: number): number {
  const whole = Math.round(value)
  return Math.abs(value - whole) <= 1e-9 * Math.max(1, Math.abs(value)) ? whole : Math.floor(value)
}
