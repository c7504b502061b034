/** Records of collected flows: the same cutter as for scoring, fed from memory. */
import {
  ArgumentError,
  ContractMismatchError,
  checkFeatureContract,
  createMatrix,
  explicitContract,
  type FlowContract,
  type Matrix,
} from '@oddflow/core'
import type { FeatureExtractor } from './feature-sets/feature-extractor.js'
import { createFeatureExtractor } from './feature-sets/registry.js'
import type { CollectedFlows } from './flow-collector.js'
import {
  copyIdentity,
  createFlowIdentity,
  describeFlow,
  END_REASONS,
  type FlowRecord,
  type RecordCounts,
} from './flow-record.js'
import { MemoryBudget } from './memory-budget.js'
import { floorDivide } from './numbers.js'
import {
  createPacketFields,
  IP_BYTES,
  META,
  NUMBER,
  type PacketFields,
  SIZE,
  STAMP,
  TIME,
} from './packet-pass.js'
import { type CutRule, RecordCutter } from './record-cutter.js'

/**
 * Splits the packets of each directional key into flows at the idle timeout, as the authors' code does: a stable sort
 * by time, then a flow after every longer gap. Times are floats of seconds, so a gap of exactly 600 s may come out
 * slightly longer or shorter, as there.
 */

const IDLE_TIMEOUT = END_REASONS.indexOf('idle-timeout')

/** @param keys - one "flow" for each key; its columns are changed. */
export function splitDirectional(keys: CollectedFlows): CollectedFlows {
  const { packetMicros, packetOffset, packetNumber, idleTimeoutMicros } = keys
  const timeoutSeconds = idleTimeoutMicros / 1_000_000
  const offsets: number[] = [0]
  const keyOf: number[] = []
  for (let key = 0; key < keys.count; key++) {
    const [first, end] = [packetOffset[key], packetOffset[key + 1]]
    sortByTime(keys, first, end)
    for (let i = first + 1; i < end; i++) {
      if (packetMicros[i] / 1_000_000 - packetMicros[i - 1] / 1_000_000 > timeoutSeconds) {
        offsets.push(i)
        keyOf.push(key)
      }
    }
    offsets.push(end)
    keyOf.push(key)
  }
  const count = keyOf.length
  const identity = createFlowIdentity(count)
  const endReason = new Uint8Array(count)
  for (let f = 0; f < count; f++) {
    copyIdentity(keys.identity, keyOf[f], identity, f)
    identity.firstPacketNumber[f] = packetNumber[offsets[f]]
    endReason[f] = keyOf[f] === keyOf[f + 1] ? IDLE_TIMEOUT : keys.endReason[keyOf[f]]
  }
  return {
    ...keys,
    count,
    identity,
    endReason,
    packetOffset: Float64Array.from(offsets),
    counters: { ...keys.counters, flows: count },
  }
}

function sortByTime(flows: CollectedFlows, first: number, end: number): void {
  const { packetMicros } = flows
  let sorted = true
  for (let i = first + 1; i < end && sorted; i++) sorted = packetMicros[i] >= packetMicros[i - 1]
  if (sorted) return
  const order = Array.from({ length: end - first }, (_, k) => first + k)
  order.sort((i, j) => packetMicros[i] - packetMicros[j] || i - j)
  const columns = [packetMicros, flows.packetBytes, flows.packetIpBytes, flows.packetMeta, flows.packetNumber]
  for (const column of columns) {
    const values = order.map((i) => column[i])
    column.set(values, first)
  }
}

/** Settings that must agree between a contract and the flows collected for it. */
const GATHERED = [
  'idleTimeoutMicros',
  'sizeMeasure',
  'flowKey',
  'protocols',
  'endOnClose',
  'vlanKey',
] as const

/**
 * Cuts flows into records under a contract: flows in order of their first packets, a flow's records in turn. Their rows
 * equal those of a FlowExtractor over the same packets, to the bit.
 *
 * @param onRecord - gets each record; it and its arrays are valid until the call returns. @throws ContractMismatchError
 * if the flows were collected under another key, idle timeout or size measure, or for other
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
  const maker = createFeatureExtractor(checked)
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
  maker: FeatureExtractor,
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

/**
 * Cuts by idle-gap rules of the authors' code, without the checks of `extractRecords`: a piece ends when the next packet
 * comes more than the duration after the previous one; for the first packet of a later piece, after
 * start + floor((t − start) / duration) · duration. The last piece of a cut flow makes no row. Times are floats of
 * seconds and follow Python operation by operation, so rows equal the authors' to the bit.
 */
export function cutFlowsAtIdleGaps(
  flows: CollectedFlows,
  durationSeconds: number,
  minimumPackets: number,
  maker: FeatureExtractor,
  onRecord: (record: FlowRecord) => void,
): RecordCounts {
  const { packetMicros, packetOffset } = flows
  const packet = createPacketFields()
  const durationMicros = Number.POSITIVE_INFINITY
  const whole: CutRule = { split: false, durationMicros, activeTimeoutMicros: null, minimumPackets }
  let [flow, first, next] = [0, 0, 0]
  const cutter = createCutter(
    flows,
    whole,
    maker,
    () => flow,
    (record) => {
      record.startMicros = packetMicros[first]
      record.durationMicros = packetMicros[next - 1] - packetMicros[first]
      onRecord(record)
    },
  )
  for (; flow < flows.count; flow++) {
    const end = packetOffset[flow + 1]
    next = packetOffset[flow]
    let [piece, start, reference] = [0, 0, 0]
    for (; next < end; next++) {
      const time = packetMicros[next] / 1_000_000
      readPacket(flows, next, packet)
      packet[TIME] = time
      const begins = next === packetOffset[flow]
      if (!begins && time - reference <= durationSeconds) {
        cutter.append(0, packet)
        reference = time
        continue
      }
      if (begins) start = time
      else {
        cutter.endPiece(0, 'window', false)
        piece++
        start += floorDivide(time - start, durationSeconds) * durationSeconds
      }
      reference = start
      first = next
      cutter.begin(0, packet, piece)
    }
    const reason = END_REASONS[flows.endReason[flow]]
    if (piece > 0) cutter.endPiece(0, reason, true)
    else cutter.end(0, reason)
  }
  return cutter.counts
}

function createCutter(
  flows: CollectedFlows,
  rule: CutRule,
  maker: FeatureExtractor,
  current: () => number,
  onRecord: (record: FlowRecord) => void,
): RecordCutter {
  const cutter = new RecordCutter({
    rule,
    maker,
    // The contract limits the longest record, and there is one at a time.
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
