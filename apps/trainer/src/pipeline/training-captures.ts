/** Captures → a training set: flows, the contract learned from them, rows, and the rule for flows of one packet. */
import { checkFinite, createMatrix, type PacketView } from '@oddflow/core'
import { extractRecords, learnFeatureContract, learnOnePacketRule } from '@oddflow/flows'
import { createDeviceNumbers, type TrainingSet } from '@oddflow/program'
import { namingInputs } from '../input/name-inputs.js'
import { warn } from '../output/messages.js'
import { checkRowsFit, collectFlows } from './collect-flows.js'
import type { FlowPlan } from './flow-plan.js'
import { type CaptureInput, complaints, type ReadOptions } from './read-packets.js'

export async function readTrainingCaptures(
  inputs: readonly CaptureInput[],
  plan: FlowPlan,
  scaler: TrainingSet['contract']['scaler'],
  options: ReadOptions & { readonly view: PacketView },
): Promise<TrainingSet> {
  const { flows, reads } = await collectFlows(inputs, plan.gathering, options)
  for (const line of reads.flatMap(complaints)) warn(line)
  const names = inputs.map(({ name }) => name)
  const contract = namingInputs(names, () =>
    learnFeatureContract(flows, { ...plan.learning, view: options.view, scaler }),
  )
  const counts = extractRecords(flows, contract, () => {})
  checkRowsFit(counts.rows, contract)
  const rows = createMatrix(counts.rows, contract.dimension)
  const inputOfRow = new Uint32Array(counts.rows)
  const deviceOfRow = new Uint32Array(counts.rows)
  const deviceNumber = createDeviceNumbers()
  let at = 0
  extractRecords(flows, contract, (record) => {
    if (record.row === null) return
    rows.data.set(record.row, at * contract.dimension)
    inputOfRow[at] = record.captureIndex
    deviceOfRow[at++] = deviceNumber(record)
  })
  checkFinite(rows, 'rows')
  // A flow summary has rows for flows of one packet.
  const onePacketRule = contract.minimumPackets === 1 ? null : learnOnePacketRule(flows)
  return { rows, inputOfRow, deviceOfRow, contract, onePacketRule }
}
