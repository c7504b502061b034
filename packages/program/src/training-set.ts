/** Collected flows → a training set under a contract: rows, where each came from, and the rule for flows of one packet. */
import { createMatrix, type FlowContract } from '@oddflow/core'
import { type CollectedFlows, extractRecords, learnOnePacketRule } from '@oddflow/flows'
import { createDeviceNumbers } from './device-of.js'
import type { TrainingSet } from './train-model.js'

/** @param checkCount - is given the number of rows before they are allocated, and may throw. */
export function trainingSetOf(
  flows: CollectedFlows,
  contract: FlowContract,
  checkCount: (rows: number) => void = () => {},
): TrainingSet {
  const { rows: count } = extractRecords(flows, contract, () => {})
  checkCount(count)
  const rows = createMatrix(count, contract.dimension)
  const inputOfRow = new Uint32Array(count)
  const deviceOfRow = new Uint32Array(count)
  const deviceNumber = createDeviceNumbers()
  let at = 0
  extractRecords(flows, contract, (record) => {
    if (record.row === null) return
    rows.data.set(record.row, at * contract.dimension)
    inputOfRow[at] = record.captureIndex
    deviceOfRow[at++] = deviceNumber(record)
  })
  // a contract with rows for flows of one packet needs no rule for them
  const onePacketRule = contract.minimumPackets === 1 ? null : learnOnePacketRule(flows)
  return { rows, inputOfRow, deviceOfRow, contract, onePacketRule }
}
