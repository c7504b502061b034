/**
 * The feature sets by name: a file each, and a line here. Their columns and their fields of the contract stand in
 * @oddflow/core.
 */
import type { FlowContract, PacketFeatureSet } from '@oddflow/core'
import type { FeatureExtractor, PacketFeatures } from './feature-extractor.js'
import { createFlowSummaryRows } from './flow-summary.js'
import { createIatRows } from './iat.js'
import { createIatSizeRows } from './iat-size.js'
import { createSampRows, learnSampling } from './samp.js'
import { createSizeRows } from './size.js'
import { createHeaderBitsRows, createStatsHeaderRows, learnStatsHeader } from './stats-header.js'

export const PACKET_FEATURES: Readonly<Record<PacketFeatureSet, PacketFeatures>> = {
  'iat-size': { create: createIatSizeRows, learn: ({ iatUnit }) => ({ iatUnit }) },
  iat: { create: createIatRows, learn: ({ iatUnit }) => ({ iatUnit }) },
  size: { create: createSizeRows },
  'stats-header': { create: createStatsHeaderRows, learn: learnStatsHeader },
  'samp-size': { create: createSampRows, learn: learnSampling },
  'samp-num': { create: createSampRows, learn: learnSampling },
  'header-bits': { create: createHeaderBitsRows, defaultPackets: 10 },
}

/** The feature extractor of a checked contract. */
export function createFeatureExtractor(contract: FlowContract): FeatureExtractor {
  if (contract.featureSet === 'flow-summary') return createFlowSummaryRows(contract)
  const seconds = 'iatUnit' in contract && contract.iatUnit === 'seconds'
  const perSecond = contract.truncation.mode === 'idle-gap' ? 1 : 1_000_000
  // TIME is in microseconds, or in idle-gap in seconds.
  const timeUnit = seconds ? perSecond : perSecond / 1_000_000
  return PACKET_FEATURES[contract.featureSet].create(contract, timeUnit)
}
