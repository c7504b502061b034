/**
 * RecordEntries: what the feature set keeps of the packets of every open record, and the row that it makes of it.
 *
 * The entries of a record hang together in a PacketPool; its state (record-state.ts) says where they begin and end,
 * and how many there are. What an entry is is the feature set's business (feature-sets/row-maker.ts).
 */
import { cutterPoolBytes, longestRecordChunks } from './cutter-memory.js'
import type { RowMaker } from './feature-sets/row-maker.js'
import type { FlowRecord } from './flow-record.js'
import type { MemoryBudget } from './memory-budget.js'
import type { PacketFields } from './packet-fields.js'
import { ENTRIES_PER_CHUNK, PacketPool, packetPoolBytes } from './packet-pool.js'
import { ENTRIES, HEAD, ROW_PACKETS, TAIL } from './record-state.js'
import { HEAP, type Space } from './space.js'

const NONE = -1

export class RecordEntries {
  readonly #maker: RowMaker
  readonly #budget: MemoryBudget
  readonly pool: PacketPool
  /** A record's entries, while its row is made. */
  #floats = new Float64Array(0)
  #words = new Uint32Array(0)

  /** @param chunks - beside those for one whole row. */
  constructor(maker: RowMaker, budget: MemoryBudget, chunks: number, space: Space = HEAP) {
    this.#maker = maker
    this.#budget = budget
    this.pool = new PacketPool(maker, chunks + longestRecordChunks(maker), space)
    budget.usedBytes += cutterPoolBytes(maker, chunks)
  }

  /** Makes sure that one entry more can be kept; false if the budget forbids. */
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

  /** Shows the feature set a packet of the record at `at`; the entry that it makes of it, -1 where it makes none. */
  keep(state: Float64Array, at: number, packet: PacketFields): number {
    const pool = this.pool
    const maker = this.#maker
    // Whole numbers out of doubles: as such they need no box where a call is not inlined.
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

  /** Whether no further packet can change the row of the record at `at`, whose last entry is `last`. */
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
