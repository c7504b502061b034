/**
 * RecordCutter: flows into records, and records into rows.
 *
 * A flow's packets come one by one. The contract's duration T cuts them:
 * - `truncate` (the paper): packets later than the record's start + T are counted, but are not in the row;
 * - `split`: the first packet later than start + T begins the next record, once the window holds the minimum
 *   of packets; until then the window stays open, so that slow traffic makes rows too.
 * The active timeout begins the next record in the same way, in both modes. The same cutter serves the
 * scoring of packets as they come and the cutting of collected flows, so their rows are equal to the bit.
 *
 * A row is the whole sequence iat1, size1, …, size(n), zero-padded or cut to 2p − 1 columns. So a record of
 * more than p packets has iat(p) in the last column, where one of p packets has size(p); the authors' rows are
 * made so. The first p + 1 packets of an open record are kept for it, in a PacketPool.
 */
import type { IatSizeContract } from '@oddflow/core'
import { grown } from './flow-identity.js'
import type { EndReason, FlowRecord, NoRowReason } from './flow-record.js'
import { createFlowRecord } from './flow-record.js'
import type { MemoryBudget } from './memory-budget.js'
import { PACKETS_PER_CHUNK, PacketPool, packetPoolBytes } from './packet-pool.js'

const NONE = -1

/** Places in a flow's state: times in microseconds, counts, and the first and last chunk of its packets. */
const START = 0
const LAST = 1
const FIRST = 2
const PACKETS = 3
const ROW_PACKETS = 4
const BYTES = 5
const HEAD = 6
const TAIL = 7
const STRIDE = 8
/** Chunks that are there from the start, beside those for one whole row. */
const INITIAL_CHUNKS = 64

function initialChunks(packetsPerFlow: number): number {
  return INITIAL_CHUNKS + Math.ceil((packetsPerFlow + 1) / PACKETS_PER_CHUNK)
}

/** Bytes that a cutter takes before its first flow. */
export function cutterBaseBytes(packetsPerFlow: number): number {
  return packetPoolBytes(initialChunks(packetsPerFlow))
}

/** The parts of a contract that cut; durationMicros may be Infinity here. */
export type CutRule = Pick<
  IatSizeContract,
  'packetsPerFlow' | 'iatUnit' | 'activeTimeoutMicros' | 'truncation' | 'minimumPackets'
>

export interface RecordCounts {
  records: number
  rows: number
  onePacketFlows: number
  shortRecords: number
  remainders: number
  remainderPackets: number
}

export class RecordCutter {
  readonly counts: RecordCounts = {
    records: 0,
    rows: 0,
    onePacketFlows: 0,
    shortRecords: 0,
    remainders: 0,
    remainderPackets: 0,
  }
  /** Bytes of the columns below for one flow. */
  readonly bytesPerFlow = 8 * STRIDE + 4
  readonly #rule: CutRule
  readonly #split: boolean
  readonly #unitMicros: number
  readonly #budget: MemoryBudget
  readonly #pool: PacketPool
  readonly #record: FlowRecord = createFlowRecord()
  readonly #row: Float64Array
  readonly #describe: (flow: number, record: FlowRecord) => void
  readonly #onRecord: (record: FlowRecord) => void
  /** STRIDE numbers a flow, one cache line: every packet needs nearly all of them. */
  #state = new Float64Array(0)
  #piece = new Uint32Array(0)

  /**
   * @param row - 2 · packetsPerFlow − 1 numbers, which the records' rows are written to.
   * @param describe - fills in who flow number `flow` is.
   */
  constructor(
    rule: CutRule,
    budget: MemoryBudget,
    row: Float64Array,
    describe: (flow: number, record: FlowRecord) => void,
    onRecord: (record: FlowRecord) => void,
  ) {
    this.#rule = rule
    this.#split = rule.truncation.mode === 'split'
    this.#unitMicros = rule.iatUnit === 'seconds' ? 1_000_000 : 1
    this.#budget = budget
    this.#row = row
    this.#describe = describe
    this.#onRecord = onRecord
    this.#pool = new PacketPool(initialChunks(rule.packetsPerFlow))
    budget.usedBytes += cutterBaseBytes(rule.packetsPerFlow)
  }

  resize(capacity: number): void {
    this.#state = grown(this.#state, new Float64Array(STRIDE * capacity))
    this.#piece = grown(this.#piece, new Uint32Array(capacity))
  }

  makeRoom(): boolean {
    const pool = this.#pool
    if (!pool.full) return true
    const capacity = this.#budget.reserveMore(pool.capacity, packetPoolBytes)
    if (capacity === pool.capacity) return false
    pool.grow(capacity)
    return true
  }

  begin(flow: number, packetNumber: number, timeMicros: number, sizeBytes: number): void {
    this.#piece[flow] = 0
    this.#open(flow, packetNumber, timeMicros, sizeBytes)
  }

  append(flow: number, packetNumber: number, timeMicros: number, sizeBytes: number): void {
    const rule = this.#rule
    const age = timeMicros - this.#state[STRIDE * flow + START]
    const late = age > rule.truncation.durationMicros
    const active = rule.activeTimeoutMicros !== null && age > rule.activeTimeoutMicros
    if ((active || (late && this.#split)) && this.#state[STRIDE * flow + PACKETS] >= rule.minimumPackets) {
      this.#close(flow, active ? 'active-timeout' : 'window', true)
      this.#piece[flow]++
      this.#open(flow, packetNumber, timeMicros, sizeBytes)
      return
    }
    const iat = timeMicros - this.#state[STRIDE * flow + LAST]
    this.#state[STRIDE * flow + LAST] = timeMicros
    this.#state[STRIDE * flow + PACKETS]++
    this.#state[STRIDE * flow + BYTES] += sizeBytes
    if (late && !this.#split) return
    const index = this.#state[STRIDE * flow + ROW_PACKETS]++
    if (index > rule.packetsPerFlow) return
    if (this.#pool.startsChunk(index))
      this.#state[STRIDE * flow + TAIL] = this.#pool.take(this.#state[STRIDE * flow + TAIL])
    this.#pool.write(this.#state[STRIDE * flow + TAIL], index, iat, sizeBytes)
  }

  end(flow: number, reason: EndReason): void {
    this.#close(flow, reason, false)
  }

  #open(flow: number, packetNumber: number, timeMicros: number, sizeBytes: number): void {
    const chunk = this.#pool.take(NONE)
    this.#pool.write(chunk, 0, 0, sizeBytes)
    this.#state[STRIDE * flow + START] = timeMicros
    this.#state[STRIDE * flow + LAST] = timeMicros
    this.#state[STRIDE * flow + FIRST] = packetNumber
    this.#state[STRIDE * flow + PACKETS] = 1
    this.#state[STRIDE * flow + ROW_PACKETS] = 1
    this.#state[STRIDE * flow + BYTES] = sizeBytes
    this.#state[STRIDE * flow + HEAD] = chunk
    this.#state[STRIDE * flow + TAIL] = chunk
  }

  #close(flow: number, reason: EndReason, goesOn: boolean): void {
    const record = this.#record
    const packets = this.#state[STRIDE * flow + PACKETS]
    const rowPackets = this.#state[STRIDE * flow + ROW_PACKETS]
    this.#describe(flow, record)
    record.firstPacketNumber = this.#state[STRIDE * flow + FIRST]
    record.pieceIndex = this.#piece[flow]
    record.startMicros = this.#state[STRIDE * flow + START]
    record.durationMicros = this.#state[STRIDE * flow + LAST] - this.#state[STRIDE * flow + START]
    record.packets = packets
    record.bytes = this.#state[STRIDE * flow + BYTES]
    record.rowPackets = rowPackets
    record.endReason = reason
    record.noRowReason = this.#noRowReason(packets, rowPackets, record.pieceIndex > 0 && !goesOn)
    record.row = null
    if (record.noRowReason === null) {
      const kept = Math.min(rowPackets, this.#rule.packetsPerFlow + 1)
      this.#pool.writeRow(this.#state[STRIDE * flow + HEAD], kept, this.#unitMicros, this.#row)
      record.row = this.#row
    }
    this.#pool.release(this.#state[STRIDE * flow + HEAD], this.#state[STRIDE * flow + TAIL])
    this.#count(record)
    this.#onRecord(record)
  }

  #noRowReason(packets: number, rowPackets: number, leftover: boolean): NoRowReason | null {
    const minimum = this.#rule.minimumPackets
    if (rowPackets >= minimum) return null
    if (leftover && packets < minimum) return 'remainder'
    return packets === 1 ? 'one-packet' : 'too-few-packets'
  }

  #count(record: FlowRecord): void {
    const counts = this.counts
    counts.records++
    if (record.noRowReason === null) counts.rows++
    else if (record.noRowReason === 'one-packet') counts.onePacketFlows++
    else if (record.noRowReason === 'too-few-packets') counts.shortRecords++
    else {
      counts.remainders++
      counts.remainderPackets += record.packets
    }
  }
}
