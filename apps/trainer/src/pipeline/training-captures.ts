/**
 * Captures → a training set: contract, rows, and the rule for flows of one packet. Flow summaries need nothing
 * learned, so rows are made as flows end; other feature sets learn from all flows, which are held for that.
 */
import { checkFinite, DataError, type FlowContract, type PacketView } from '@oddflow/core'
import {
  type FlowCounters,
  flowSummaryContract,
  learnFeatureContract,
  type RecordCounts,
} from '@oddflow/flows'
import { createTrainingRows, type TrainingRows, type TrainingSet, trainingSetOf } from '@oddflow/program'
import { nameInputs, namingInputs, noFlowIn, warn } from '../inputs.js'
import { describePackets } from '../output/verdict-lines.js'
import type { FlowPlan } from './flow-plan.js'
import { type CaptureInput, type CaptureRead, complaints, type Reading } from './read-packets.js'
import { checkRowsFit, collectFlows, countersOf, readRecords } from './score-inputs.js'

/** Of open flows whose rows are made as they end, unless --flow-memory says otherwise: about 1.5 million of them. */
const OPEN_FLOWS_BYTES = 512 * 1024 * 1024

export async function readTrainingCaptures(
  inputs: readonly CaptureInput[],
  plan: FlowPlan,
  scaler: TrainingSet['contract']['scaler'],
  options: Reading,
): Promise<TrainingSet> {
  const set =
    plan.learning.featureSet === 'flow-summary'
      ? await readSummaries(inputs, plan, scaler, options)
      : await readFlows(inputs, plan, scaler, options)
  checkFinite(set.rows, 'rows')
  return set
}

const NO_RECORDS: RecordCounts = {
  records: 0,
  rows: 0,
  onePacketFlows: 0,
  shortRecords: 0,
  remainders: 0,
  remainderPackets: 0,
  lastPieces: 0,
}

async function readFlows(
  inputs: readonly CaptureInput[],
  plan: FlowPlan,
  scaler: TrainingSet['contract']['scaler'],
  options: Reading,
): Promise<TrainingSet> {
  const { flows, reads } = await collectFlows(inputs, plan.gathering, options)
  for (const line of reads.flatMap(complaints)) warn(line)
  if (flows.count === 0) {
    throw noFlowIn(namesOf(inputs), describePackets(countersOf(flows, NO_RECORDS), reads))
  }
  const contract = namingInputs(namesOf(inputs), () =>
    learnFeatureContract(flows, { ...plan.learning, view: options.view, scaler }),
  )
  return trainingSetOf(flows, contract, (rows) => checkRowsFit(rows, contract))
}

async function readSummaries(
  inputs: readonly CaptureInput[],
  plan: FlowPlan,
  scaler: TrainingSet['contract']['scaler'],
  options: Reading,
): Promise<TrainingSet> {
  const { rows, counters, reads } = await readRowsOfCaptures(
    inputs,
    summaryContract(plan, options.view, scaler),
    options,
  )
  for (const line of reads.flatMap(complaints)) warn(line)
  if (rows.count === 0) throw noFlowIn(namesOf(inputs), describePackets(counters, reads))
  return namingInputs(namesOf(inputs), () => rows.finish(null))
}

/** The contract of a plan of flow summaries, which needs no flows. */
export function summaryContract(
  { gathering, learning }: FlowPlan,
  view: PacketView,
  scaler: TrainingSet['contract']['scaler'] = 'none',
): FlowContract {
  const { activeTimeoutMicros } = learning
  return flowSummaryContract(
    { ...gathering, scaler, ...(activeTimeoutMicros === undefined ? {} : { activeTimeoutMicros }) },
    view,
    gathering.protocols,
  )
}

interface RowsOfCaptures {
  readonly rows: TrainingRows
  readonly counters: FlowCounters
  readonly reads: readonly CaptureRead[]
}

/** Rows under a contract, made as flows end. Throws DataError where more flows are open than fit. */
export async function readRowsOfCaptures(
  inputs: readonly CaptureInput[],
  contract: FlowContract,
  options: Reading,
): Promise<RowsOfCaptures> {
  const rows = createTrainingRows(contract, (count) => checkRowsFit(count, contract))
  const flowMemoryBytes = options.flowMemoryBytes ?? OPEN_FLOWS_BYTES
  const reads: CaptureRead[] = []
  const counters = await readRecords(
    contract,
    inputs,
    { ...options, flowMemoryBytes },
    {
      row: new Float64Array(contract.dimension),
      begin() {},
      onRecord(record) {
        // to leave flows out, or to cut them early, would bend what is normal in silence
        if (record.endReason === 'evicted') throw tooManyFlows(inputs, flowMemoryBytes)
        rows.add(record)
      },
      end: (read) => read,
    },
    (read) => reads.push(read),
  )
  return { rows, counters, reads }
}

function tooManyFlows(inputs: readonly CaptureInput[], bytes: number): DataError {
  return new DataError(
    `${nameInputs(namesOf(inputs))}: more flows are open at once than fit into ${bytes} bytes: use fewer or shorter captures, a --filter, or a larger --flow-memory`,
    'memoryBytes',
  )
}

function namesOf(inputs: readonly CaptureInput[]): string[] {
  return inputs.map(({ name }) => name)
}
