/**
 * Records of collected flows: the same cutter that scoring uses, fed from memory.
 */

import type { IatSizeContract, Matrix } from '@oddflow/core'
import { ArgumentError, ContractMismatchError, checkFeatureContract, createMatrix } from '@oddflow/core'
import type { CollectedFlows } from './collected-flows.js'
import { describeFlow, END_REASONS, type FlowRecord } from './flow-record.js'
import { MemoryBudget } from './memory-budget.js'
import { type CutRule, type RecordCounts, RecordCutter } from './record-cutter.js'

/**
 * Cuts flows into records under a contract: flow by flow in order of first packets, a flow's records in turn.
 * Their rows are equal to the bit to those of a FlowExtractor over the same packets.
 * @param onRecord - gets each record; it and its arrays are valid until the call returns.
 * @throws ContractMismatchError if the flows were collected under another idle timeout or size measure.
 */
export function extractRecords(
  flows: CollectedFlows,
  contract: IatSizeContract,
  onRecord: (record: FlowRecord) => void,
): RecordCounts {
  const checked = checkFeatureContract(contract)
  if (checked.featureSet !== 'iat-size') {
    throw new ArgumentError(`contract: expected featureSet iat-size, found ${checked.featureSet}`, 'contract')
  }
  for (const field of ['idleTimeoutMicros', 'sizeMeasure'] as const) {
    if (flows[field] !== checked[field]) {
      throw new ContractMismatchError(
        `${field}: the contract says ${checked[field]}, the flows were collected with ${flows[field]}`,
        field,
      )
    }
  }
  return cutFlows(flows, checked, onRecord)
}

/** The rows of collected flows as a Matrix, in the order of `extractRecords`. */
export function extractMatrix(flows: CollectedFlows, contract: IatSizeContract): Matrix {
  const { rows } = extractRecords(flows, contract, () => {})
  const out = createMatrix(rows, contract.dimension)
  let at = 0
  extractRecords(flows, contract, (record) => {
    if (record.row !== null) out.data.set(record.row, contract.dimension * at++)
  })
  return out
}

/** `extractRecords` without its checks. */
export function cutFlows(
  flows: CollectedFlows,
  rule: CutRule,
  onRecord: (record: FlowRecord) => void,
): RecordCounts {
  let current = 0
  const cutter = new RecordCutter(
    rule,
    new MemoryBudget(Number.POSITIVE_INFINITY),
    new Float64Array(2 * rule.packetsPerFlow - 1),
    (_slot, record) => describeFlow(flows.identity, current, record),
    onRecord,
  )
  cutter.resize(1)
  const { packetOffset, packetMicros, packetBytes, packetNumber } = flows
  for (current = 0; current < flows.count; current++) {
    const first = packetOffset[current]
    const end = packetOffset[current + 1]
    cutter.begin(0, packetNumber[first], packetMicros[first], packetBytes[first])
    for (let i = first + 1; i < end; i++) {
      cutter.append(0, packetNumber[i], packetMicros[i], packetBytes[i])
    }
    cutter.end(0, END_REASONS[flows.endReason[current]])
  }
  return cutter.counts
}
