/**
 * Checks of what a caller asks of learning: ranges, and options that do not apply to the feature set or to
 * the way the flows were collected, by name.
 */
import {
  ArgumentError,
  MAXIMUM_PACKETS_KEPT,
  maximumPacketsPerFlow,
  PACKET_FEATURE_SETS,
} from '@oddflow/core'
import type { CollectedFlows } from './collected-flows.js'
import type { LearnContractOptions } from './learn-contract.js'

export const DEFAULT_HEADER_PACKETS = 10
export const DEFAULT_PACKETS_KEPT = 65_536

/** Throws ArgumentError naming the option. */
export function checkLearnOptions(flows: CollectedFlows, options: LearnContractOptions): void {
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
  applies('iatUnit', ['iat-size', 'iat', 'stats-header'])
  applies('samplingQuantile', ['samp-size', 'samp-num'])
  applies('headerPackets', ['header-bits'])
  applies('packetsKept', ['stats-header'])
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
