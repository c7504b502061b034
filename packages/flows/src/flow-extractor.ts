/**
 * FlowExtractor: packets in, records and rows out, under a contract. The scoring half of this package.
 *
 * Holds the first packetsPerFlow packets of each open record and nothing else of the traffic, within a stated
 * number of bytes. When they are full, the least recently active flow is ended and counted.
 */
import type { PacketBatch } from '@oddflow/capture'
import { ArgumentError, checkFeatureContract, type IatSizeContract } from '@oddflow/core'
import type { FlowCounters } from './flow-counters.js'
import { describeFlow, type FlowRecord } from './flow-record.js'
import { type FlowSink, FlowTracker } from './flow-tracker.js'
import { MemoryBudget } from './memory-budget.js'
import { cutterBaseBytes, RecordCutter } from './record-cutter.js'

export interface FlowExtractorOptions {
  readonly contract: IatSizeContract
  /** Called for each record as it ends. The record and its arrays are valid until the call returns. */
  readonly onRecord: (record: FlowRecord) => void
  /** D numbers that rows are written to; allocated if not given. */
  readonly row?: Float64Array
  /** Bytes that open flows may take: about 240 for a short one. Default 512 MiB. */
  readonly memoryBytes?: number
  /** Key of the flow table's hash. Results do not depend on it; where traffic may be hostile, pick it at random. */
  readonly hashSeed?: number
}

export interface FlowExtractor {
  /** Takes a batch; the batch may be used again after. */
  add(batch: PacketBatch): void
  /**
   * Ends every flow that is idle at `nowMicros`. For live traffic, where a verdict must not wait for the end:
   * the caller knows that no packet older than nowMicros is still to come. Files need no such call.
   */
  expire(nowMicros: number): void
  /** Ends all flows; packets that follow are of another capture, which has its own flows. */
  endCapture(): void
  /** Ends all flows and returns the final counts. */
  finish(): FlowCounters
  /** Counts so far, of records that have ended. */
  counters(): FlowCounters
  /** Flows that are open now. */
  readonly openFlows: number
}

const DEFAULT_MEMORY_BYTES = 512 * 1024 * 1024
const MINIMUM_MEMORY_BYTES = 64 * 1024

/**
 * Starts an extractor.
 * @throws ArgumentError, FormatError if the contract is not one for iat-size rows or an option is out of range.
 */
export function createFlowExtractor(options: FlowExtractorOptions): FlowExtractor {
  const contract = checkFeatureContract(options.contract)
  if (contract.featureSet !== 'iat-size') {
    throw new ArgumentError(
      `contract: expected featureSet iat-size, found ${contract.featureSet}`,
      'contract',
    )
  }
  const row = options.row ?? new Float64Array(contract.dimension)
  if (row.length !== contract.dimension) {
    throw new ArgumentError(`row: expected ${contract.dimension} numbers, found ${row.length}`, 'row')
  }
  const memoryBytes = options.memoryBytes ?? DEFAULT_MEMORY_BYTES
  // The longest row must fit beside the smallest table, or ending other flows would not make room for it.
  const least = MINIMUM_MEMORY_BYTES + cutterBaseBytes(contract.packetsPerFlow)
  if (!(memoryBytes >= least)) {
    throw new ArgumentError(`memoryBytes: expected at least ${least}, found ${memoryBytes}`, 'memoryBytes')
  }
  const budget = new MemoryBudget(memoryBytes)
  const cutter: RecordCutter = new RecordCutter(
    contract,
    budget,
    row,
    (flow, record) => describeFlow(tracker.table.identity, flow, record),
    options.onRecord,
  )
  const sink: FlowSink = {
    bytesPerFlow: cutter.bytesPerFlow,
    resize: (capacity) => cutter.resize(capacity),
    makeRoom: () => cutter.makeRoom(),
    outOfMemory: () => {},
    begin: (flow, number, time, size) => cutter.begin(flow, number, time, size),
    append: (flow, number, time, size) => cutter.append(flow, number, time, size),
    end: (flow, reason) => cutter.end(flow, reason),
  }
  const tracker: FlowTracker = new FlowTracker(
    {
      idleTimeoutMicros: contract.idleTimeoutMicros,
      sizeMeasure: contract.sizeMeasure,
      hashSeed: options.hashSeed ?? 0,
    },
    budget,
    sink,
  )
  const counters = (): FlowCounters => {
    const { packets, packetsInFlows, timestampBackwards, flows, evictedFlows } = tracker.counts
    return {
      packets,
      packetsInFlows,
      dropped: tracker.counts.dropped(),
      timestampBackwards,
      flows,
      evictedFlows,
      ...cutter.counts,
    }
  }
  return {
    add: (batch) => tracker.add(batch),
    expire: (nowMicros) => tracker.expire(nowMicros),
    endCapture: () => tracker.endCapture(),
    finish: () => {
      tracker.endCapture()
      return counters()
    },
    counters,
    get openFlows() {
      return tracker.table.count
    },
  }
}
