/**
 * Finds the number of a packet's flow: open addressing with linear probing over pairs (hash, flow + 1; 0 = empty), at
 * most half full, removal without tombstones (Knuth 6.4, algorithm R). The hash is keyed, so chosen keys cannot
 * lengthen probes. The slots grow, so that few flows stay close together in memory.
 */
import { type ColumnSource, HEAP_COLUMNS, type PacketBatch } from '@oddflow/capture'
import { halfSipHash13 } from '@oddflow/core'
import { ActivityLog, activityBytes, CLOSED, CLOSING, ESTABLISHED, HALF_OPEN } from './activity-log.js'
import type { FlowSink, PacketCounts } from './flow-counters.js'
import {
  createFlowIdentity,
  type EndReason,
  type FlowIdentity,
  FlowLines,
  growFlowIdentity,
  grown,
  HASH,
  IDENTITY_BYTES_BUT_KEYS,
  IPV4_KEY_WORDS,
  KEY_WORDS,
  LINE_BYTES,
  LINE_WORDS,
  writeKey,
} from './flow-record.js'

/**
 * FlowEviction: the flow to end without room for another. First a closed and delivered one, then an idle one, then a
 * closing one. While more than a quarter of the open flows are half-open, the least recently active of those, so a
 * flood ends its own flows. Otherwise, of the sixteen least recently active, the one with most packets in its row: it
 * loses least and frees most.
 */

/** What `evict` is given where room is wanted for a new flow. */
export const NO_FLOW = -1
/** Half-open flows may be one in this many of the open ones before they are ended for others. */
const HALF_OPEN_SHARE = 4
/** Least recently active flows that are compared. */
const COMPARED_FLOWS = 16

export class FlowEviction {
  readonly #table: FlowTable
  readonly #sink: FlowSink
  readonly #counts: PacketCounts
  readonly #isIdle: (flow: number) => boolean
  readonly #remove: (flow: number, reason: EndReason) => void

  constructor(
    table: FlowTable,
    sink: FlowSink,
    counts: PacketCounts,
    isIdle: (flow: number) => boolean,
    remove: (flow: number, reason: EndReason) => void,
  ) {
    this.#table = table
    this.#sink = sink
    this.#counts = counts
    this.#isIdle = isIdle
    this.#remove = remove
  }

  /** Ends a flow other than `current`, for a packet of that flow, or for a new flow if `current` is NO_FLOW. */
  evict(current: number): void {
    const counts = this.#counts
    const table = this.#table
    const closed = current === NO_FLOW ? table.activity.oldest(CLOSED) : NO_FLOW
    if (closed >= 0) {
      table.remove(closed)
      return
    }
    this.#sink.outOfMemory()
    const halfOpen = this.#oldestBut(HALF_OPEN, current)
    const established = this.#oldestBut(ESTABLISHED, current)
    const closing = this.#oldestBut(CLOSING, current)
    const isShareUsed = HALF_OPEN_SHARE * table.activity.count(HALF_OPEN) > table.count
    if (halfOpen >= 0 && this.#isIdle(halfOpen)) this.#evictIdle(halfOpen)
    else if (established >= 0 && this.#isIdle(established)) this.#evictIdle(established)
    else if (closing >= 0) this.#remove(closing, 'closed')
    else if (halfOpen >= 0 && (isShareUsed || established < 0)) {
      counts.evictedHalfOpenFlows++
      this.#remove(halfOpen, 'evicted')
    } else {
      counts.evictedActiveFlows++
      this.#remove(this.#ripestFrom(established, current), 'evicted')
    }
  }

  /** Of the COMPARED_FLOWS from `flow` on, the first of those with the smallest loss. */
  #ripestFrom(flow: number, current: number): number {
    let ripest = flow
    let most = -1
    for (let k = 0; k < COMPARED_FLOWS && flow >= 0; k++) {
      const ripeness = flow === current ? -1 : (this.#sink.ripeness?.(flow, current !== NO_FLOW) ?? 0)
      if (ripeness > most) {
        ripest = flow
        most = ripeness
      }
      flow = this.#table.activity.newer(flow)
    }
    return ripest
  }

  #evictIdle(flow: number): void {
    this.#counts.evictedIdleFlows++
    this.#remove(flow, 'idle-timeout')
  }

  #oldestBut(kind: number, current: number): number {
    const { activity } = this.#table
    const flow = activity.oldest(kind)
    return flow >= 0 && flow === current ? activity.newer(flow) : flow
  }
}

/**
 * PacketPool: the feature set's entries of every open record (one for each of the first p packets, or for each window of a
 * time series), in linked chunks of four, because most flows are short and rows may be long. A record's chunks return to
 * the free list when it ends.
 */

export const ENTRIES_PER_CHUNK = 4
const CHUNK = ENTRIES_PER_CHUNK

/**
 * In a pool's `state`: the first free chunk, or −1, and the number of chunks ever used.
 */
const FREE = 0
const TOUCHED = 1

/** How much an entry holds. */
export interface EntryLayout {
  readonly entryFloats: number
  readonly entryWords: number
}

/** Bytes of a pool of this many chunks. */
export function packetPoolBytes(layout: EntryLayout, chunks: number): number {
  return chunks * (CHUNK * (8 * layout.entryFloats + 4 * layout.entryWords) + 4)
}

export class PacketPool {
  capacity: number
  /** Entry `at` has floats[entryFloats · at …] and words[entryWords · at …]. */
  floats: Float64Array
  words: Uint32Array
  /** For each used chunk the next one of its record, for each free one the next free one; −1 for none. */
  next: Int32Array
  /** FREE and TOUCHED. */
  readonly state: Int32Array
  readonly #layout: EntryLayout
  readonly #space: ColumnSource

  constructor(layout: EntryLayout, capacity: number, space: ColumnSource = HEAP_COLUMNS) {
    this.#layout = layout
    this.#space = space
    this.capacity = capacity
    this.floats = space.float64(CHUNK * layout.entryFloats * capacity)
    this.words = space.uint32(CHUNK * layout.entryWords * capacity)
    this.next = space.int32(capacity)
    this.state = space.int32(2)
    this.state[FREE] = NONE
  }

  get full(): boolean {
    return this.state[FREE] === NONE && this.state[TOUCHED] === this.capacity
  }

  /** Takes a chunk and links it after chunk `after`, unless that is −1. The pool must not be full. */
  take(after: number): number {
    const { next, state } = this
    let chunk = state[FREE]
    if (chunk === NONE) chunk = state[TOUCHED]++
    else state[FREE] = next[chunk]
    next[chunk] = NONE
    if (after !== NONE) next[after] = chunk
    return chunk
  }

  /** Gives back the chunks from `head` to `tail`. */
  release(head: number, tail: number): void {
    this.next[tail] = this.state[FREE]
    this.state[FREE] = head
  }

  /** Copies the `count` entries of the record that begins with chunk `head` into contiguous arrays. */
  gather(head: number, count: number, floats: Float64Array, words: Uint32Array): void {
    const { entryFloats, entryWords } = this.#layout
    let chunk = head
    for (let done = 0; done < count; done += CHUNK) {
      const entries = Math.min(CHUNK, count - done)
      for (let k = 0; k < entries * entryFloats; k++) {
        floats[entryFloats * done + k] = this.floats[CHUNK * entryFloats * chunk + k]
      }
      for (let k = 0; k < entries * entryWords; k++) {
        words[entryWords * done + k] = this.words[CHUNK * entryWords * chunk + k]
      }
      chunk = this.next[chunk]
    }
  }

  grow(capacity: number): void {
    const { entryFloats, entryWords } = this.#layout
    this.floats = grown(this.floats, this.#space.float64(CHUNK * entryFloats * capacity))
    this.words = grown(this.words, this.#space.uint32(CHUNK * entryWords * capacity))
    this.next = grown(this.next, this.#space.int32(capacity))
    this.capacity = capacity
  }
}

const NONE = -1
const INITIAL_SLOTS = 128
/** Packets prepared at a time: the data read for them fits into the nearest cache. */
export const PREPARED_PACKETS = 64

/** Bytes of a table for `capacity` flows, including the smaller slot arrays that were replaced on the way. */
export function flowTableBytes(capacity: number, closes = false): number {
  const columns = capacity * (LINE_BYTES + IDENTITY_BYTES_BUT_KEYS)
  return columns + activityBytes(capacity, closes) + 16 * slotCountFor(capacity)
}

function slotCountFor(capacity: number): number {
  let slots = INITIAL_SLOTS
  while (slots < 2 * capacity) slots *= 2
  return slots
}

interface FlowTableOptions {
  /** Each direction is a flow of its own. Default false. */
  readonly directional?: boolean
  /** The VLAN is part of the key. Default false. */
  readonly vlanKey?: boolean
  /** Flows may be closing or closed (activity-log.ts). Default false. */
  readonly closes?: boolean
  /** Where its columns come from. Default the heap. */
  readonly space?: ColumnSource
}

/** The open flows: an open-addressing hash table over typed arrays. */
export class FlowTable {
  readonly lines: FlowLines
  readonly identity: FlowIdentity
  readonly activity: ActivityLog
  /** Flows there is room for. */
  capacity: number
  /** Flows in the table. */
  count = 0
  /** Whether the source of the packet last looked up is end b of its key. */
  lastSwapped = false
  /** Of each prepared packet, the flow that is probably its own, or -1. */
  readonly preparedFlow = new Int32Array(PREPARED_PACKETS)
  /** Keeps the reads in advance from being optimized away. */
  warmth = 0
  readonly #preparedHash = new Int32Array(PREPARED_PACKETS)
  readonly #space: ColumnSource
  readonly #directional: boolean
  readonly vlanKey: boolean
  /** Key of the hash. */
  readonly key0: number
  readonly key1: number
  /** Keys of the prepared packets, followed by that of a packet that was not prepared. */
  readonly #keys = new Uint32Array(KEY_WORDS * (PREPARED_PACKETS + 1))
  readonly #preparedSwapped = new Uint8Array(PREPARED_PACKETS)
  /** The key last looked up: its place in #keys, its words, its hash. */
  #keyAt = 0
  #words = KEY_WORDS
  #hash = 0
  /** Pairs of hash and flow + 1, a power of two of them. */
  slots: Int32Array
  #mask = INITIAL_SLOTS - 1
  /** First free flow that was used before; each links to the next in HASH. */
  #free = NONE
  /** Flows that were ever in use. */
  #touched = 0

  /** @param hashSeed - any number; tables with different seeds place the same keys differently. */
  constructor(capacity: number, hashSeed: number, options: FlowTableOptions = {}) {
    const { directional = false, vlanKey = false, closes = false, space = HEAP_COLUMNS } = options
    this.capacity = capacity
    this.#space = space
    this.lines = new FlowLines(capacity, space)
    this.identity = createFlowIdentity(capacity, this.lines.keys, LINE_WORDS)
    this.activity = new ActivityLog(capacity, this.lines, space, closes)
    this.slots = space.int32(2 * INITIAL_SLOTS)
    this.#directional = directional
    this.vlanKey = vlanKey
    this.key0 = hashSeed | 0
    this.key1 = Math.floor(hashSeed / 4294967296) | 0
  }

  /**
   * Prepares `findPrepared` for up to PREPARED_PACKETS packets from `start` on: hashes their keys and reads the memory of
   * the lookups in advance, since memory serves independent reads at once, but not the dependent reads of a search.
   */
  prepare(batch: PacketBatch, start: number, count: number): void {
    const keys = this.#keys
    const swapped = this.#preparedSwapped
    const hashes = this.#preparedHash
    for (let k = 0; k < count; k++) {
      const at = KEY_WORDS * k
      swapped[k] = writeKey(batch, start + k, keys, at, this.#directional, this.vlanKey) ? 1 : 0
      const words = batch.ipVersion[start + k] === 4 ? IPV4_KEY_WORDS : KEY_WORDS
      hashes[k] = halfSipHash13(keys, at, words, this.key0, this.key1)
    }
    const slots = this.slots
    const mask = this.#mask
    const flows = this.preparedFlow
    for (let k = 0; k < count; k++) flows[k] = slots[2 * (hashes[k] & mask) + 1] - 1
    const { words } = this.lines
    let read = 0
    for (let k = 0; k < count; k++) {
      const flow = flows[k]
      if (flow >= 0) read ^= words[LINE_WORDS * flow]
    }
    this.warmth = read
  }

  /** `find` of the packet that was number k of those prepared. */
  findPrepared(batch: PacketBatch, i: number, k: number): number {
    this.lastSwapped = this.#preparedSwapped[k] === 1
    return this.#search(
      KEY_WORDS * k,
      batch.ipVersion[i] === 4 ? IPV4_KEY_WORDS : KEY_WORDS,
      this.#preparedHash[k],
    )
  }

  /** Number of the flow of packet i, or −1. Remembers the key for `insert`. */
  find(batch: PacketBatch, i: number): number {
    const words = batch.ipVersion[i] === 4 ? IPV4_KEY_WORDS : KEY_WORDS
    const at = KEY_WORDS * PREPARED_PACKETS
    this.lastSwapped = writeKey(batch, i, this.#keys, at, this.#directional, this.vlanKey)
    return this.#search(at, words, halfSipHash13(this.#keys, at, words, this.key0, this.key1))
  }

  #search(keyAt: number, words: number, hash: number): number {
    const key = this.#keys
    this.#keyAt = keyAt
    this.#words = words
    this.#hash = hash
    const slots = this.slots
    const { keys } = this.lines
    const mask = this.#mask
    let slot = hash & mask
    for (;;) {
      const entry = slots[2 * slot + 1]
      if (entry === 0) return NONE
      if (slots[2 * slot] === hash) {
        const at = LINE_WORDS * (entry - 1)
        let w = 0
        while (w < words && keys[at + w] === key[keyAt + w]) w++
        if (w === words) return entry - 1
      }
      slot = (slot + 1) & mask
    }
  }

  get full(): boolean {
    return this.count === this.capacity
  }

  /** Adds the key last looked up, as the most recent half-open flow. The table must not be full. */
  insert(): number {
    let flow = this.#free
    if (flow === NONE) flow = this.#touched++
    else this.#free = this.lines.words[LINE_WORDS * flow + HASH]
    const { keys } = this.lines
    const words = this.#words
    for (let w = 0; w < KEY_WORDS; w++) {
      keys[LINE_WORDS * flow + w] = w < words ? this.#keys[this.#keyAt + w] : 0
    }
    this.lines.words[LINE_WORDS * flow + HASH] = this.#hash
    this.activity.add(flow)
    this.count++
    if (2 * this.count > this.#mask + 1) this.#growSlots()
    else this.#place(flow, this.#hash)
    return flow
  }

  /** Takes a flow out; its number may be given to another. */
  remove(flow: number): void {
    const slots = this.slots
    const mask = this.#mask
    let hole = this.lines.words[LINE_WORDS * flow + HASH] & mask
    while (slots[2 * hole + 1] !== flow + 1) hole = (hole + 1) & mask
    for (let slot = (hole + 1) & mask; slots[2 * slot + 1] !== 0; slot = (slot + 1) & mask) {
      // An entry may fill the hole unless its home slot is after the hole.
      const home = slots[2 * slot] & mask
      if (((slot - home) & mask) >= ((slot - hole) & mask)) {
        slots[2 * hole] = slots[2 * slot]
        slots[2 * hole + 1] = slots[2 * slot + 1]
        hole = slot
      }
    }
    slots[2 * hole + 1] = 0
    this.activity.remove(flow)
    this.lines.words[LINE_WORDS * flow + HASH] = this.#free
    this.#free = flow
    this.count--
  }

  /** Makes room for more flows; numbers stay. */
  grow(capacity: number): void {
    this.lines.grow(capacity)
    growFlowIdentity(this.identity, capacity, this.lines.keys)
    this.activity.grow(capacity)
    this.capacity = capacity
  }

  #growSlots(): void {
    const slots = 2 * (this.#mask + 1)
    this.slots = this.#space.int32(2 * slots)
    this.#mask = slots - 1
    this.activity.visit((flow) => this.#place(flow, this.lines.words[LINE_WORDS * flow + HASH]))
  }

  #place(flow: number, hash: number): void {
    const slots = this.slots
    const mask = this.#mask
    let slot = hash & mask
    while (slots[2 * slot + 1] !== 0) slot = (slot + 1) & mask
    slots[2 * slot] = hash
    slots[2 * slot + 1] = flow + 1
  }
}
