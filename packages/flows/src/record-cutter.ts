/**
 * RecordCutter: cuts flows into records and makes rows.
 *
 * A flow's packets come one by one. The contract's duration T cuts them:
 *
 * - `truncate` (the paper): packets later than the record's start + T are counted, but are not in the row;
 * - `split`: the first packet later than start + T begins the next record, once the window holds the minimum of
 *   packets; until then the window stays open, so slow traffic makes rows too.
 *
 * The active timeout begins the next record in the same way, in both modes. The same cutter serves live scoring and
 * collected flows, so their rows are equal to the bit. (Idle-gap rules need the whole flow: extract-records.ts cuts,
 * and passes each piece to a cutter that does not.)
 *
 * The feature set decides what is kept of a packet. With `onEarlyRow`, a row is delivered as soon as it is final, and
 * its entries are freed; the record follows when it ends, without the row.
 */

import { type ColumnSource, HEAP_COLUMNS } from '@oddflow/capture'
import type { FeatureExtractor } from './feature-sets/feature-extractor.js'
import { addToSums, openSums, SUMS_STRIDE } from './feature-sets/flow-summary.js'
import type { FlowSink } from './flow-counters.js'
import {
  countRecord,
  createFlowRecord,
  createRecordCounts,
  type EndReason,
  type FlowRecord,
  grown,
  type NoRowReason,
  type RecordCounts,
} from './flow-record.js'
import { ENTRIES_PER_CHUNK, PacketPool, packetPoolBytes } from './flow-table.js'
import {
  addTotals,
  BYTES,
  cutterBytesPerFlow,
  cutterPoolBytes,
  describeState,
  ENTRIES,
  FIRST,
  FLAGS,
  HEAD,
  INITIATOR_BYTES,
  INITIATOR_IP,
  INITIATOR_PACKETS,
  IP,
  LAST,
  longestRecordChunks,
  type MemoryBudget,
  PACKETS,
  PIECE,
  ROW_PACKETS,
  SPARE_CHUNKS,
  START,
  START_STAMP,
  STRIDE,
  TAIL,
} from './memory-budget.js'
import { IAT, NUMBER, type PacketFields, STAMP, START as START_FIELD, TIME } from './packet-pass.js'

/**
 * RecordEntries: the feature set's entries of every open record, and the row made from them. They are linked in a PacketPool;
 * a record's state (memory-budget.ts) has the first, the last and the count.
 */

const NONE = -1

class RecordEntries {
  readonly #maker: FeatureExtractor
  readonly #budget: MemoryBudget
  readonly pool: PacketPool
  /** A record's entries, while its row is made. */
  #floats = new Float64Array(0)
  #words = new Uint32Array(0)

  /** @param chunks - beside those for one whole row. */
  constructor(
    maker: FeatureExtractor,
    budget: MemoryBudget,
    chunks: number,
    space: ColumnSource = HEAP_COLUMNS,
  ) {
    this.#maker = maker
    this.#budget = budget
    this.pool = new PacketPool(maker, chunks + longestRecordChunks(maker), space)
    budget.usedBytes += cutterPoolBytes(maker, chunks)
  }

  /** Reserves room for one more entry; false if the budget forbids it. */
  makeRoom(): boolean {
    const pool = this.pool
    const maker = this.#maker
    if (!pool.full || maker.maximumEntries === 0) return true
    const capacity = this.#budget.reserveMore(pool.capacity, (chunks) => packetPoolBytes(maker, chunks))
    if (capacity === pool.capacity) return false
    pool.grow(capacity)
    return true
  }

  /** Makes the record at `at` one without entries. */
  clear(state: Float64Array, at: number): void {
    state[at + ENTRIES] = 0
    state[at + HEAD] = NONE
    state[at + TAIL] = NONE
  }

  /** Passes a packet of the record at `at` to the feature set; returns the entry it makes, or −1. */
  keep(state: Float64Array, at: number, packet: PacketFields): number {
    const pool = this.pool
    const maker = this.#maker
    // Whole numbers read from doubles, which need no box if a call is not inlined.
    const entries = state[at + ENTRIES] | 0
    const tail = state[at + TAIL] | 0
    const inChunk = entries & (ENTRIES_PER_CHUNK - 1)
    const last = entries === 0 ? NONE : ENTRIES_PER_CHUNK * tail + ((entries - 1) & (ENTRIES_PER_CHUNK - 1))
    if (!maker.keeps(pool, last, entries, packet)) return NONE
    let chunk = tail
    if (inChunk === 0) {
      chunk = pool.take(tail)
      state[at + TAIL] = chunk
      if (entries === 0) state[at + HEAD] = chunk
    }
    const entry = ENTRIES_PER_CHUNK * chunk + inChunk
    maker.write(pool, entry, packet)
    state[at + ENTRIES] = entries + 1
    return entry
  }

  /** Whether the row of the record at `at`, whose last entry is `last`, is final. */
  settled(state: Float64Array, at: number, last: number): boolean {
    return this.#maker.settled(this.pool, last, state[at + ENTRIES] | 0, state[at + ROW_PACKETS] | 0)
  }

  /** Writes the row of the record at `at`. */
  fillRow(state: Float64Array, at: number, record: FlowRecord, row: Float64Array): void {
    const maker = this.#maker
    const entries = state[at + ENTRIES] | 0
    if (maker.entryFloats * entries > this.#floats.length) {
      this.#floats = new Float64Array(maker.entryFloats * Math.min(2 * entries, maker.maximumEntries))
    }
    if (maker.entryWords * entries > this.#words.length) {
      this.#words = new Uint32Array(maker.entryWords * Math.min(2 * entries, maker.maximumEntries))
    }
    this.pool.gather(state[at + HEAD] | 0, entries, this.#floats, this.#words)
    maker.fill(this.#floats, this.#words, entries, record, row)
  }

  /** Gives back the entries of the record at `at`. */
  release(state: Float64Array, at: number): void {
    if (state[at + HEAD] !== NONE) this.pool.release(state[at + HEAD] | 0, state[at + TAIL] | 0)
    this.clear(state, at)
  }
}

const NO_WORDS = new Uint32Array(0)

interface RecordCutterOptions {
  readonly rule: CutRule
  readonly maker: FeatureExtractor
  readonly budget: MemoryBudget
  /** D numbers, which the records' rows are written to. */
  readonly row: Float64Array
  /** Fills in who flow number `flow` is. */
  readonly describe: (flow: number, record: FlowRecord) => void
  readonly onRecord: (record: FlowRecord) => void
  readonly onEarlyRow?: ((record: FlowRecord) => void) | undefined
  /** Chunks beside those for one whole row. */
  readonly chunks?: number
  /** Where its columns come from. Default the heap. */
  readonly space?: ColumnSource | undefined
}

export class RecordCutter implements FlowSink {
  readonly counts: RecordCounts = createRecordCounts()
  /** Bytes of the columns below for one flow. */
  readonly bytesPerFlow: number
  /** Keeps the reads in advance from being optimized away. */
  warmth = 0
  readonly #rule: CutRule
  readonly #maker: FeatureExtractor
  readonly entries: RecordEntries
  readonly #space: ColumnSource
  readonly #record: FlowRecord = createFlowRecord()
  readonly #row: Float64Array
  readonly #describe: (flow: number, record: FlowRecord) => void
  readonly #onRecord: (record: FlowRecord) => void
  readonly #onEarlyRow: ((record: FlowRecord) => void) | undefined
  /** STRIDE numbers a flow, two cache lines: every packet needs nearly all of them. */
  state: Float64Array = new Float64Array(0)
  /** SUMS_STRIDE numbers a flow if the row is made of running sums, otherwise none. */
  sums: Float64Array = new Float64Array(0)
  /** Those of one record, while its row is made. */
  readonly #rowSums = new Float64Array(SUMS_STRIDE)

  constructor(options: RecordCutterOptions) {
    this.#rule = options.rule
    this.#maker = options.maker
    this.bytesPerFlow = cutterBytesPerFlow(options.maker)
    this.#space = options.space ?? HEAP_COLUMNS
    this.entries = new RecordEntries(
      options.maker,
      options.budget,
      options.chunks ?? SPARE_CHUNKS,
      this.#space,
    )
    this.#row = options.row
    this.#describe = options.describe
    this.#onRecord = options.onRecord
    this.#onEarlyRow = options.onEarlyRow
  }

  resize(capacity: number): void {
    this.state = grown(this.state, this.#space.float64(STRIDE * capacity))
    if (this.#maker.keepsSums === true) {
      this.sums = grown(this.sums, this.#space.float64(SUMS_STRIDE * capacity))
    }
  }

  makeRoom(): boolean {
    return this.entries.makeRoom()
  }

  /** The tracker then ends another flow. */
  outOfMemory(): void {}

  /** @param piece - number of the flow's record that begins. */
  begin(flow: number, packet: PacketFields, piece = 0): void {
    this.state[STRIDE * flow + PIECE] = piece + 1
    this.#open(flow, packet)
  }

  append(flow: number, packet: PacketFields): void {
    const rule = this.#rule
    const state = this.state
    const at = STRIDE * flow
    const time = packet[TIME]
    const age = time - state[at + START]
    const late = age > rule.durationMicros
    const active = rule.activeTimeoutMicros !== null && age > rule.activeTimeoutMicros
    if ((active || (late && rule.split)) && state[at + PACKETS] >= rule.minimumPackets) {
      this.#close(flow, active ? 'active-timeout' : 'window', true, false)
      state[at + PIECE] = Math.abs(state[at + PIECE]) + 1
      this.#open(flow, packet)
      return
    }
    packet[IAT] = time - state[at + LAST]
    packet[START_FIELD] = state[at + START]
    state[at + LAST] = time
    state[at + PACKETS]++
    addTotals(state, at, packet)
    if (late && !rule.split) return
    state[at + ROW_PACKETS]++
    if (this.#maker.keepsSums === true) {
      addToSums(this.sums, SUMS_STRIDE * flow, packet, state[at + PACKETS] === 2)
    } else if (state[at + PIECE] > 0) this.#keep(flow, packet)
  }

  /** Reads the states of these flows into the cache before their packets come. */
  warm(flows: Int32Array, count: number): void {
    const state = this.state
    const sums = this.#maker.keepsSums === true ? this.sums : null
    let read = 0
    for (let k = 0; k < count; k++) {
      const at = STRIDE * flows[k]
      if (at < 0) continue
      read += state[at] + state[at + STRIDE / 2] + state[at + STRIDE - 1]
      if (sums !== null) read += sums[SUMS_STRIDE * flows[k]]
    }
    this.warmth = read
  }

  end(flow: number, reason: EndReason): void {
    this.#close(flow, reason, false, false)
  }

  /** Ends a piece of a flow cut by idle gaps. @param last - without a further piece. */
  endPiece(flow: number, reason: EndReason, last: boolean): void {
    this.#close(flow, reason, !last, last)
  }

  /**
   * How complete the flow's row is: its packets and windows, 0 with too few packets for a row. A delivered row counts
   * as most complete when room for a flow is needed, and frees none for packets.
   */
  ripeness(flow: number, forPackets: boolean): number {
    const state = this.state
    const at = STRIDE * flow
    if (state[at + PIECE] < 0) return forPackets ? 0 : Number.POSITIVE_INFINITY
    return state[at + ROW_PACKETS] < this.#rule.minimumPackets ? 0 : state[at + ENTRIES]
  }

  /** Delivers the flow's row if no packet at `nowMicros` or later can change it. */
  settle(flow: number, nowMicros: number): void {
    const state = this.state
    const at = STRIDE * flow
    if (state[at + PIECE] < 0) return
    const { split, durationMicros, activeTimeoutMicros, minimumPackets } = this.#rule
    const age = nowMicros - state[at + START]
    const over = age > durationMicros || (activeTimeoutMicros !== null && age > activeTimeoutMicros)
    const packets = split || age <= durationMicros ? state[at + PACKETS] : state[at + ROW_PACKETS]
    if (over && packets >= minimumPackets && state[at + ROW_PACKETS] >= minimumPackets) this.#giveEarly(flow)
  }

  #open(flow: number, packet: PacketFields): void {
    const state = this.state
    const at = STRIDE * flow
    const time = packet[TIME]
    packet[IAT] = 0
    packet[START_FIELD] = time
    state[at + START_STAMP] = packet[STAMP]
    state[at + START] = time
    state[at + LAST] = time
    state[at + FIRST] = packet[NUMBER]
    state[at + PACKETS] = 1
    state[at + ROW_PACKETS] = 1
    state[at + BYTES] = 0
    state[at + IP] = 0
    state[at + INITIATOR_PACKETS] = 0
    state[at + INITIATOR_BYTES] = 0
    state[at + INITIATOR_IP] = 0
    state[at + FLAGS] = 0
    this.entries.clear(state, at)
    addTotals(state, at, packet)
    if (this.#maker.keepsSums === true) openSums(this.sums, SUMS_STRIDE * flow, packet)
    else this.#keep(flow, packet)
  }

  #keep(flow: number, packet: PacketFields): void {
    const entry = this.entries.keep(this.state, STRIDE * flow, packet)
    if (entry >= 0 && this.#onEarlyRow !== undefined && this.#isSettled(flow, entry)) this.#giveEarly(flow)
  }

  #isSettled(flow: number, entry: number): boolean {
    const state = this.state
    const at = STRIDE * flow
    return state[at + ROW_PACKETS] >= this.#rule.minimumPackets && this.entries.settled(state, at, entry)
  }

  #giveEarly(flow: number): void {
    const record = this.#describeRecord(flow, 'end-of-capture')
    record.noRowReason = null
    record.rowGivenEarly = true
    record.row = this.#makeRow(flow, record)
    this.entries.release(this.state, STRIDE * flow)
    this.state[STRIDE * flow + PIECE] *= -1
    this.#onEarlyRow?.(record)
  }

  #close(flow: number, reason: EndReason, goesOn: boolean, lastPiece: boolean): void {
    const record = this.#describeRecord(flow, reason)
    record.noRowReason = lastPiece ? 'last-piece' : noRowReason(record, this.#rule.minimumPackets, goesOn)
    record.rowGivenEarly = this.state[STRIDE * flow + PIECE] < 0
    record.row = record.noRowReason === null && !record.rowGivenEarly ? this.#makeRow(flow, record) : null
    this.entries.release(this.state, STRIDE * flow)
    countRecord(this.counts, record)
    this.#onRecord(record)
  }

  #describeRecord(flow: number, reason: EndReason): FlowRecord {
    const record = this.#record
    this.#describe(flow, record)
    describeState(this.state, STRIDE * flow, record)
    record.endReason = reason
    return record
  }

  #makeRow(flow: number, record: FlowRecord): Float64Array {
    if (this.#maker.keepsSums === true) {
      const at = SUMS_STRIDE * flow
      for (let k = 0; k < SUMS_STRIDE; k++) this.#rowSums[k] = this.sums[at + k]
      this.#maker.fill(this.#rowSums, NO_WORDS, 0, record, this.#row)
    } else this.entries.fillRow(this.state, STRIDE * flow, record, this.#row)
    return this.#row
  }
}

/** CutRule: where a contract cuts a flow into records, and which records have no row. */

/** How a contract cuts; durationMicros may be Infinity here. */
export interface CutRule {
  /** Whether a new record begins after durationMicros, or the row leaves out the rest. */
  readonly split: boolean
  readonly durationMicros: number
  readonly activeTimeoutMicros: number | null
  readonly minimumPackets: number
}

/**
 * Why a record, other than a last piece, has no row; null if it has one. @param goesOn the flow continues in another
 * record
 */
export function noRowReason(record: FlowRecord, minimumPackets: number, goesOn: boolean): NoRowReason | null {
  if (record.rowPackets >= minimumPackets) return null
  if (goesOn) return 'too-few-packets'
  if (record.pieceIndex > 0 && record.packets < minimumPackets) return 'remainder'
  return record.packets === 1 ? 'one-packet' : 'too-few-packets'
}
