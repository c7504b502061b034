/**
 * A feature contract in words: what a row is made of, its columns with their units, and how packets become flows.
 */
import {
  columnLabel,
  contractProtocols,
  endsOnClose,
  type FlowContract,
  type FlowFeatureSet,
  featureColumns,
  packetView,
  plural,
} from '@oddflow/core'
import type { ModelFact } from '@oddflow/detectors'

const SET_NAMES: Readonly<Record<FlowFeatureSet, string>> = {
  'iat-size': 'IAT+SIZE',
  iat: 'IAT',
  size: 'SIZE',
  'stats-header': 'STATS+HEADER',
  'samp-size': 'SAMP-SIZE',
  'samp-num': 'SAMP-NUM',
  'header-bits': 'header bits',
  'flow-summary': 'flow summary',
}

/** Columns that are named in full; of longer rows the first, and the last. */
const SHOWN_COLUMNS = 6

export function contractFacts(contract: FlowContract): ModelFact[] {
  return [
    { label: 'features', value: featureText(contract) },
    { label: 'columns', value: columnText(contract) },
    { label: 'flows', value: flowText(contract) },
  ]
}

/** "IAT+SIZE of the first 12 packets, seconds, frame bytes". */
export function featureText(contract: FlowContract): string {
  return `${SET_NAMES[contract.featureSet]} of ${rowBasis(contract)}`
}

function rowBasis(contract: FlowContract): string {
  if (contract.featureSet === 'flow-summary') return 'whole flows, logarithms of payload bytes and seconds'
  const packets = `the first ${plural(contract.packetsPerFlow, 'packet')}`
  const sizes = `${contract.sizeMeasure} bytes`
  switch (contract.featureSet) {
    case 'iat-size':
      return `${packets}, ${contract.iatUnit}, ${sizes}`
    case 'iat':
      return `${packets}, ${contract.iatUnit}`
    case 'size':
      return `${packets}, ${sizes}`
    case 'stats-header':
      return `flags and statistics of ${contract.packetsKept} packets at most, ${contract.iatUnit}, ${sizes}; TTLs of ${packets}`
    case 'samp-size':
      return `${windows(contract)}, ${sizes}`
    case 'samp-num':
      return `${windows(contract)}, packets`
    case 'header-bits':
      return packets
  }
}

function windows(contract: FlowContract & { readonly samplingIntervalMicros: number }): string {
  return `${plural(contract.dimension, 'window')} of ${contract.samplingIntervalMicros / 1e6} s`
}

/** "iat1_s, size1_bytes, …, size8_bytes". */
function columnText(contract: FlowContract): string {
  const labels = featureColumns(contract).map(columnLabel)
  const shown =
    labels.length <= SHOWN_COLUMNS ? labels : [...labels.slice(0, SHOWN_COLUMNS - 2), '…', labels.at(-1)]
  const note =
    contract.featureSet === 'iat-size'
      ? ' (a flow of fewer packets ends with its last size in the place of a time)'
      : ''
  return `${shown.join(', ')}${note}`
}

/** "split at 2.5 s", unless the rows cover whole flows. */
export function cutText(contract: FlowContract): string[] {
  if (contract.featureSet === 'flow-summary') return []
  const { mode, durationMicros } = contract.truncation
  return [`${mode} at ${durationMicros / 1e6} s`]
}

function flowText(contract: FlowContract): string {
  const { flowKey, idleTimeoutMicros, activeTimeoutMicros } = contract
  const { decapsulation, joinFragments } = packetView(contract)
  const parts = [
    `${flowKey === 'directional-5-tuple' ? 'one for each direction, IPv4' : 'bidirectional'}; idle timeout ${idleTimeoutMicros / 1e6} s${activeTimeoutMicros === null ? '' : `, active timeout ${activeTimeoutMicros / 1e6} s`}`,
    ...cutText(contract),
  ]
  const protocols = contractProtocols(contract).join(', ')
  if (contract.protocols !== undefined) parts.push(`of ${protocols}`)
  if (decapsulation === 'inner') parts.push('tunnels opened')
  if (joinFragments) parts.push('fragments joined')
  if (contract.vlanKey === true) parts.push('one for each VLAN')
  if (endsOnClose(contract)) parts.push('TCP flows end when they close')
  return parts.join('; ')
}
