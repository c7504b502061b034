/**
 * The feature sets by name: a file each, and a line here.
 */
import type { FlowContract, PacketFeatureSet } from '@oddflow/core'
import { createFlowSummaryRows } from './flow-summary.js'
import { createIatRows } from './iat.js'
import { createIatSizeRows } from './iat-size.js'
import type { RowMaker, RowMakerFactory } from './row-maker.js'
import { createSampRows } from './samp.js'
import { createSizeRows } from './size.js'
import { createHeaderBitsRows, createStatsHeaderRows } from './stats-header.js'

const FACTORIES: Readonly<Record<PacketFeatureSet, RowMakerFactory>> = {
  'iat-size': createIatSizeRows,
  iat: createIatRows,
  size: createSizeRows,
  'stats-header': createStatsHeaderRows,
  'samp-size': createSampRows,
  'samp-num': createSampRows,
  'header-bits': createHeaderBitsRows,
}

/** The row maker of a checked contract. */
export function createRowMaker(contract: FlowContract): RowMaker {
  if (contract.featureSet === 'flow-summary') return createFlowSummaryRows(contract)
  const seconds = 'iatUnit' in contract && contract.iatUnit === 'seconds'
  const perSecond = contract.truncation.mode === 'idle-gap' ? 1 : 1_000_000
  // TIME is in microseconds, or in idle-gap in seconds.
  const timeUnit = seconds ? perSecond : perSecond / 1_000_000
  return FACTORIES[contract.featureSet](contract, timeUnit)
}
