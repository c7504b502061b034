/**
 * Records and rows from packets under a contract, for scoring, within a stated number of bytes. When they are full,
 * each new flow ends another one (flow-tracker.ts), counted by kind.
 */
import { createPacketBatch, type PacketBatch } from '@oddflow/capture'
import { ArgumentError, contractProtocols, endsOnClose, type FlowContract } from '@oddflow/core'
import { CLOSED, CLOSING } from './activity-log.js'
import { checkFlowContract, cutRuleOf } from './extract-records.js'
import { createFeatureExtractor } from './feature-sets/registry.js'
import type { FlowCounters } from './flow-counters.js'
import { describeFlow, type FlowRecord } from './flow-record.js'
import { FlowTracker } from './flow-tracker.js'
import { extractorMemory, MemoryBudget } from './memory-budget.js'
import { checkCount, Gate } from './one-packet-rule.js'
import { createPacketPass, type PacketPass } from './packet-pass.js'
import { RecordCutter } from './record-cutter.js'

/** Options of `createFlowExtractor`. */
export interface FlowExtractorOptions {
  /** Any contract except mode idle-gap, whose rules need whole flows (extractRecords). */
  readonly contract: FlowContract
  /** Called for each record when it ends. The record and its arrays are valid until the call returns. */
  readonly onRecord: (record: FlowRecord) => void
  /**
   * Called once for a record whose row is final, with that row and the record so far: when the packets of the row have
   * come (p + 1 for iat-size, p for most sets), or in `expire`, when the contract's duration has passed. `onRecord`
   * follows when the record ends, with `rowGivenEarly` and without the row, so no row is judged twice. Rows equal those
   * of a run without this.
   */
  readonly onEarlyRow?: (record: FlowRecord) => void
  /**
   * Called for each packet that would start a flow. If it returns false, the packet is in no flow and is dropped as
   * `not-admitted`. It lets a caller shed new flows (overload, a quota) while open flows continue. It is not called for
   * a flow that resumes after its idle timeout. It must not call the extractor.
   */
  readonly admitsFlow?: (batch: PacketBatch, i: number) => boolean
  /**
   * Called when the clock behind the timestamps was set (PacketOrder of @oddflow/capture): by how much, and the number
   * of the first packet after that. Records whose first packet came before have times of the old clock. Called again
   * with the opposite value if it was a false detection. It must not call the extractor.
   */
  readonly onClockStep?: (byMicros: number, packetNumber: number) => void
  /** D numbers that rows are written to; allocated if not given. */
  readonly row?: Float64Array
  /** Bytes for open flows, about 300 for a short one. Default 32 MiB: about 84,000 flows. */
  readonly memoryBytes?: number
  /** Key of the flow table's hash. Results do not depend on it. Use a random key for untrusted traffic. */
  readonly hashSeed?: number
}

/** Open flows of scoring take no more than this unless told otherwise. */
export const DEFAULT_FLOW_MEMORY_BYTES = 32 * 1024 * 1024

/** Makes records and feature rows of flows as they end, in bounded memory. */
export class FlowExtractor {
  /** Flows that fit into memoryBytes. */
  readonly maximumFlows: number
  readonly #tracker: FlowTracker
  readonly #cutter: RecordCutter
  readonly #pass: PacketPass | null
  readonly #givesEarlyRows: boolean
  readonly #gate = new Gate()

  constructor(options: FlowExtractorOptions) {
    const contract = checkFlowContract(options.contract)
    if (contract.flowKey === 'directional-5-tuple') {
      throw new ArgumentError(
        'contract: mode idle-gap sorts the packets of a key and drops the last piece of a flow, so it needs whole ' +
          'flows: collect them (createFlowCollector) and use extractRecords',
        'contract',
      )
    }
    const row = options.row ?? new Float64Array(contract.dimension)
    if (row.length !== contract.dimension) {
      throw new ArgumentError(`row: expected ${contract.dimension} numbers, found ${row.length}`, 'row')
    }
    const maker = createFeatureExtractor(contract)
    const memoryBytes = options.memoryBytes ?? DEFAULT_FLOW_MEMORY_BYTES
    const endOnClose = endsOnClose(contract)
    const memory = extractorMemory(maker, memoryBytes, endOnClose)
    if (!(memoryBytes >= memory.bytes)) {
      throw new ArgumentError(
        `memoryBytes: expected at least ${memory.bytes} bytes, found ${memoryBytes}`,
        'memoryBytes',
      )
    }
    this.maximumFlows = memory.flows
    this.#givesEarlyRows = options.onEarlyRow !== undefined
    const passes = maker.keepsFirstPackets === true || maker.keepsSums === true
    const pass = passes ? createPacketPass(memory.bytes) : null
    // All is shared out at once; nothing grows beyond it.
    const budget = new MemoryBudget(memory.bytes)
    const rule = cutRuleOf(contract)
    const cutter = new RecordCutter({
      rule,
      maker,
      budget,
      row,
      describe: (flow, record) => describeFlow(this.#tracker.table.identity, flow, record),
      onRecord: options.onRecord,
      onEarlyRow: options.onEarlyRow,
      chunks: memory.chunks,
      space: pass?.space,
    })
    const tracking = {
      idleTimeoutMicros: contract.idleTimeoutMicros,
      sizeMeasure: contract.sizeMeasure,
      hashSeed: options.hashSeed ?? 0,
      protocols: contractProtocols(contract),
      endOnClose,
      vlanKey: contract.vlanKey === true,
      initialFlows: memory.flows,
      admitsFlow: options.admitsFlow,
      onClockStep: options.onClockStep,
      pass,
    }
    this.#pass = pass
    this.#cutter = cutter
    this.#tracker = new FlowTracker(tracking, budget, cutter)
    pass?.bind(this.#tracker, cutter, maker, rule, contract.idleTimeoutMicros, this.#givesEarlyRows)
  }

  /** Flows started so far, as in `counters`; cheap to read often. */
  get flows(): number {
    return this.#tracker.counts.flows
  }

  /** Flows that are open now. */
  get openFlows(): number {
    const { table } = this.#tracker
    return table.count - table.activity.count(CLOSED)
  }

  /**
   * The capture time up to which packets have come. It follows steps of the capture's clock and ignores a packet from
   * the future. −Infinity before the first packet.
   */
  get latestMicros(): number {
    return this.#tracker.latestMicros
  }

  /**
   * A batch for `add`, as createPacketBatch makes them. Any batch works, but most extractors take up to a third less time
   * for packets of the first batch that they made.
   */
  createBatch(capacity: number): PacketBatch {
    return this.#pass?.createBatch(capacity) ?? createPacketBatch(capacity)
  }

  /**
   * Takes a batch, which may be reused afterwards. Packets wait until a later one has come (PacketOrder of
   * @oddflow/capture), or for `expire` or the end. Throws ArgumentError if the batch's count is not a number of packets
   * it has room for, after `finish`, and from inside onRecord or onEarlyRow.
   */
  add(batch: PacketBatch): void {
    checkCount(batch)
    this.#gate.pass('add', () => this.#tracker.add(batch))
  }

  /**
   * States that the clock behind the timestamps was set by this much, known from another clock. A step forward of less
   * than a week looks like a silence; with this call it ends no flow. Files need no such call.
   */
  clockSet(byMicros: number): void {
    if (!Number.isFinite(byMicros)) {
      throw new ArgumentError(`byMicros: expected a number, found ${String(byMicros)}`, 'byMicros')
    }
    this.#tracker.clockSet(byMicros)
  }

  /**
   * Ends every flow that is idle at `nowMicros`, or that closed half a second before (where flows end on close), and
   * delivers early rows that are complete by time (a walk over all open flows, only with onEarlyRow). For live traffic,
   * where a verdict must not wait: the caller knows that no packet older than nowMicros (capture time) will come. Files
   * need no such call. Throws ArgumentError if nowMicros is not a number.
   */
  expire(nowMicros: number): void {
    if (!(nowMicros <= Number.POSITIVE_INFINITY)) {
      throw new ArgumentError(`nowMicros: expected a number, found ${String(nowMicros)}`, 'nowMicros')
    }
    this.#gate.pass('expire', () => {
      const clockMicros = this.#tracker.expire(nowMicros)
      if (!this.#givesEarlyRows) return
      this.#tracker.table.activity.visit((flow) => this.#cutter.settle(flow, clockMicros), CLOSING)
    })
  }

  /**
   * Ends at most `limit` flows, the longest silent first, and returns whether more are left. Use it at the end of a
   * capture to take the records in parts: they have the same order as from endCapture or finish, which must follow. No
   * packet of the capture may follow.
   */
  endFlows(limit: number): boolean {
    if (!(limit >= 0)) {
      throw new ArgumentError(`limit: expected a number of 0 or more, found ${String(limit)}`, 'limit')
    }
    return this.#gate.pass('endFlows', () => this.#tracker.endOldest(limit))
  }

  /** Ends all flows; the following packets belong to another capture with its own flows. */
  endCapture(): void {
    this.#gate.pass('endCapture', () => this.#tracker.endCapture())
  }

  /** Ends all flows and returns the final counts. */
  finish(): FlowCounters {
    if (!this.#gate.isClosed) this.endCapture()
    this.#gate.isClosed = true
    return this.counters()
  }

  /** Counts so far, of records that have ended. */
  counters(): FlowCounters {
    const { counts, heldPackets } = this.#tracker
    const { evictedIdleFlows, evictedHalfOpenFlows, evictedActiveFlows } = counts
    return {
      packets: counts.packets + heldPackets,
      heldPackets,
      packetsInFlows: counts.packetsInFlows,
      dropped: counts.dropped(),
      ...this.#tracker.times(),
      flows: counts.flows,
      evictedFlows: evictedHalfOpenFlows + evictedActiveFlows,
      evictedHalfOpenFlows,
      evictedActiveFlows,
      evictedIdleFlows,
      ...this.#cutter.counts,
    }
  }
}

/** Creates an extractor. Throws ArgumentError if the contract does not support streaming or an option is out of range. */
export function createFlowExtractor(options: FlowExtractorOptions): FlowExtractor {
  return new FlowExtractor(options)
}
