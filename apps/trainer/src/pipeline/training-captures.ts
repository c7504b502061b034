/** Captures → a training set: flows, the contract learned from them, rows, and the rule for flows of one packet. */
import { checkFinite, type PacketView } from '@oddflow/core'
import { learnFeatureContract } from '@oddflow/flows'
import { type TrainingSet, trainingSetOf } from '@oddflow/program'
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
  const set = trainingSetOf(flows, contract, (rows) => checkRowsFit(rows, contract))
  checkFinite(set.rows, 'rows')
  return set
}
