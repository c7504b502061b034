/**
 * Records of collected flows: the same cutter that scoring uses, fed from memory.
 */
import type { FlowContract, Matrix } from '@oddflow/core'
import {
  ArgumentError,
  ContractMismatchError,
  checkFeatureContract,
  createMatrix,
  explicitContract,
} from '@oddflow/core'
import type { CollectedFlows } from './collected-flows.js'
import { cutAtIdleGaps } from './cut-idle-gap.js'
import type { CutRule } from './cut-rule.js'
import { createRowMaker } from './feature-sets/registry.js'
import type { RowMaker } from './feature-sets/row-maker.js'
import { describeFlow, END_REASONS, type FlowRecord } from './flow-record.js'
import { MemoryBudget } from './memory-budget.js'
import {
  createPacketFields,
  IP_BYTES,
  META,
  NUMBER,
  type PacketFields,
  SIZE,
  STAMP,
  TIME,
} from './packet-fields.js'
import type { RecordCounts } from './record-counts.js'
import { RecordCutter } from './record-cutter.js'

/** What a contract and the flows that were collected for it must agree in. */
const GATHERED = [
  'idleTimeoutMicros',
  'sizeMeasure',
  'flowKey',
  'protocols',
  'endOnClose',
  'vlanKey',
] as const

/**
 * Cuts flows into records under a contract: flow by flow in order of first packets, a flow's records in turn.
 * Their rows are equal to the bit to those of a FlowExtractor over the same packets.
 * @param onRecord - gets each record; it and its arrays are valid until the call returns.
 * @throws ContractMismatchError if the flows were collected under another key, idle timeout or size measure, or of other
 *   transports.
 */
export function extractRecords(
  flows: CollectedFlows,
  contract: FlowContract,
  onRecord: (record: FlowRecord) => void,
): RecordCounts {
  const checked = checkFlowContract(contract)
  const wanted = explicitContract(checked) as FlowContract & typeof flows
  for (const field of GATHERED) {
    if (String(flows[field]) !== String(wanted[field])) {
      throw new ContractMismatchError(
        `${field}: the contract says ${wanted[field]}, the flows were collected with ${flows[field]}`,
        field,
      )
    }
  }
  const maker = createRowMaker(checked)
  const durationSeconds = 'truncation' in checked ? checked.truncation.durationSeconds : undefined
  return durationSeconds === undefined
    ? cutFlows(flows, cutRuleOf(checked), maker, onRecord)
    : cutFlowsAtIdleGaps(flows, durationSeconds, checked.minimumPackets, maker, onRecord)
}

/** The rows of collected flows as a Matrix, in the order of `extractRecords`. */
export function extractMatrix(flows: CollectedFlows, contract: FlowContract): Matrix {
  const { rows } = extractRecords(flows, contract, () => {})
  const out = createMatrix(rows, contract.dimension)
  let at = 0
  extractRecords(flows, contract, (record) => {
    if (record.row !== null) out.data.set(record.row, contract.dimension * at++)
  })
  return out
}

/** A checked contract of rows that are made from flows. */
export function checkFlowContract(contract: FlowContract): FlowContract {
  const checked = checkFeatureContract(contract)
  if (checked.featureSet === 'rows') {
    throw new ArgumentError('contract: expected a feature set made from flows, found rows', 'contract')
  }
  return checked
}

export function cutRuleOf(contract: FlowContract): CutRule {
  const { activeTimeoutMicros, minimumPackets } = contract
  // A flow summary covers the whole record.
  const { mode, durationMicros } =
    contract.featureSet === 'flow-summary'
      ? { mode: 'truncate', durationMicros: Number.POSITIVE_INFINITY }
      : contract.truncation
  return { split: mode === 'split', durationMicros, activeTimeoutMicros, minimumPackets }
}

/** Cuts by duration, without the checks of `extractRecords`. */
export function cutFlows(
  flows: CollectedFlows,
  rule: CutRule,
  maker: RowMaker,
  onRecord: (record: FlowRecord) => void,
): RecordCounts {
  let current = 0
  const cutter = createCutter(flows, rule, maker, () => current, onRecord)
  const packet = createPacketFields()
  const { packetOffset } = flows
  for (current = 0; current < flows.count; current++) {
    const first = packetOffset[current]
    const end = packetOffset[current + 1]
    readPacket(flows, first, packet)
    cutter.begin(0, packet)
    for (let i = first + 1; i < end; i++) {
      readPacket(flows, i, packet)
      cutter.append(0, packet)
    }
    cutter.end(0, END_REASONS[flows.endReason[current]])
  }
  return cutter.counts
}

/** Cuts by idle-gap rules, without the checks of `extractRecords`. The cutter's times are seconds. */
export function cutFlowsAtIdleGaps(
  flows: CollectedFlows,
  durationSeconds: number,
  minimumPackets: number,
  maker: RowMaker,
  onRecord: (record: FlowRecord) => void,
): RecordCounts {
  const { packetMicros } = flows
  const packet = createPacketFields()
  const whole: CutRule = {
    split: false,
    durationMicros: Number.POSITIVE_INFINITY,
    activeTimeoutMicros: null,
    minimumPackets,
  }
  let [flow, first, last] = [0, 0, 0]
  const cutter = createCutter(
    flows,
    whole,
    maker,
    () => flow,
    (record) => {
      record.startMicros = packetMicros[first]
      record.durationMicros = packetMicros[last] - packetMicros[first]
      onRecord(record)
    },
  )
  cutAtIdleGaps(flows, durationSeconds, (piece) => {
    flow = piece.flow
    first = piece.first
    last = piece.end - 1
    for (let i = first; i <= last; i++) {
      readPacket(flows, i, packet)
      packet[TIME] = packetMicros[i] / 1_000_000
      if (i === first) cutter.begin(0, packet, piece.pieceIndex)
      else cutter.append(0, packet)
    }
    if (piece.last || piece.reason === 'window') cutter.endPiece(0, piece.reason, piece.last)
    else cutter.end(0, piece.reason)
  })
  return cutter.counts
}

function createCutter(
  flows: CollectedFlows,
  rule: CutRule,
  maker: RowMaker,
  current: () => number,
  onRecord: (record: FlowRecord) => void,
): RecordCutter {
  const cutter = new RecordCutter({
    rule,
    maker,
    // The longest record is bounded by the contract, and there is one at a time.
    budget: new MemoryBudget(Number.POSITIVE_INFINITY),
    row: new Float64Array(maker.dimension),
    describe: (_slot, record) => describeFlow(flows.identity, current(), record),
    onRecord,
  })
  cutter.resize(1)
  return cutter
}

function readPacket(flows: CollectedFlows, i: number, packet: PacketFields): void {
  packet[NUMBER] = flows.packetNumber[i]
  packet[TIME] = flows.packetMicros[i]
  packet[SIZE] = flows.packetBytes[i]
  packet[IP_BYTES] = flows.packetIpBytes[i]
  packet[META] = flows.packetMeta[i]
  packet[STAMP] = packet[TIME] - (flows.packetShiftMicros?.[i] ?? 0)
}
