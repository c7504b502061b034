/**
 * What training learns about flows: the duration T to cut at and the number of packets p of a row.
 *
 * Paper, section on features: flows are cut at the 90th percentile of their durations in the training data,
 * and a row has as many places as the 90th percentile of packets a flow. T = 0.9-quantile of the durations of
 * flows with the minimum of packets (uncut), in whole microseconds, at least 1; then the flows are cut, and
 * p = 0.9-quantile of packets a piece, over pieces that make rows, rounded down, at least the minimum.
 * Rounding T down changes no cut, since times are whole microseconds. Quantiles are numpy's default (linear).
 */

import type { IatSizeContract, IatUnit, ScalerName, TruncationMode } from '@oddflow/core'
import { ArgumentError, DataError, MAXIMUM_DIMENSION } from '@oddflow/core'
import type { CollectedFlows } from './collected-flows.js'
import { cutFlows } from './extract-records.js'
import { linearQuantile } from './linear-quantile.js'

export interface LearnContractOptions {
  /** Default split. */
  readonly mode?: TruncationMode
  /** Default seconds. */
  readonly iatUnit?: IatUnit
  /** Whole number of microseconds, or null (the default) for no such limit. */
  readonly activeTimeoutMicros?: number | null
  /** Default 2, the least that has an interarrival time. */
  readonly minimumPackets?: number
  /** Of durations and of packets, in [0, 1]. Default 0.9. */
  readonly quantile?: number
  /** Default none. */
  readonly scaler?: ScalerName
}

/** The most packets that the widest row has places for. */
const MAXIMUM_PACKETS = (MAXIMUM_DIMENSION + 1) / 2

/**
 * Learns a contract from flows of normal traffic. p is at most 32,768, the widest row that a model may have.
 * @throws DataError if no flow has the minimum of packets; ArgumentError if an option is out of range.
 */
export function learnIatSizeContract(
  flows: CollectedFlows,
  options: LearnContractOptions = {},
): IatSizeContract {
  const { mode = 'split', iatUnit = 'seconds', activeTimeoutMicros = null, scaler = 'none' } = options
  const { minimumPackets = 2, quantile = 0.9 } = options
  check('quantile', quantile >= 0 && quantile <= 1, 'a number from 0 to 1', quantile)
  const wholeMinimum = Number.isSafeInteger(minimumPackets) && minimumPackets >= 2
  check(
    'minimumPackets',
    wholeMinimum && minimumPackets <= MAXIMUM_PACKETS,
    'a whole number ≥ 2',
    minimumPackets,
  )
  const activeFits =
    activeTimeoutMicros === null || (Number.isSafeInteger(activeTimeoutMicros) && activeTimeoutMicros >= 1)
  check('activeTimeoutMicros', activeFits, 'a whole number ≥ 1 or null', activeTimeoutMicros)

  const rule = { packetsPerFlow: minimumPackets, iatUnit, activeTimeoutMicros, minimumPackets }
  const durations: number[] = []
  cutFlows(flows, { ...rule, truncation: { mode, durationMicros: Number.POSITIVE_INFINITY } }, (record) => {
    if (record.row !== null) durations.push(record.durationMicros)
  })
  if (durations.length === 0) {
    throw new DataError(
      `no flow of ${minimumPackets} or more packets to learn from (${flows.count} flows in all): ` +
        'train on a longer capture',
    )
  }
  const durationMicros = Math.max(1, floorOf(linearQuantile(durations, quantile)))
  const truncation = { mode, durationMicros }
  const lengths: number[] = []
  cutFlows(flows, { ...rule, truncation }, (record) => {
    if (record.row !== null) lengths.push(record.rowPackets)
  })
  if (lengths.length === 0) {
    throw new DataError(
      `no flow has ${minimumPackets} packets within ${durationMicros} µs: train on more flows, or use mode split`,
    )
  }
  const length = Math.max(minimumPackets, floorOf(linearQuantile(lengths, quantile)))
  const packetsPerFlow = Math.min(MAXIMUM_PACKETS, length)
  return {
    featureSet: 'iat-size',
    featureSetVersion: 1,
    dimension: 2 * packetsPerFlow - 1,
    packetsPerFlow,
    iatUnit,
    sizeMeasure: flows.sizeMeasure,
    flowKey: 'bidirectional-5-tuple',
    idleTimeoutMicros: flows.idleTimeoutMicros,
    activeTimeoutMicros,
    truncation,
    minimumPackets,
    scaler,
  }
}

/** Rounds down what interpolation left: a quantile within 1e-9 of a whole number is that number. */
function floorOf(value: number): number {
  const whole = Math.round(value)
  return Math.abs(value - whole) <= 1e-9 * Math.max(1, Math.abs(value)) ? whole : Math.floor(value)
}

function check(field: string, holds: boolean, expected: string, found: unknown): void {
  if (!holds) throw new ArgumentError(`${field}: expected ${expected}, found ${String(found)}`, field)
}
