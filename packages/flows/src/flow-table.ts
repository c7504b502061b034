/**
 * FlowTable: from a packet to the number of its flow, in two or three cache lines.
 *
 * Open addressing with linear probing over one Int32Array of pairs (hash, flow + 1; 0 = empty), at most half
 * full. A removal shifts the following entries back (Knuth 6.4, algorithm R), so there are no tombstones and
 * a table that churns for months stays as fast as a new one. The hash is keyed (core's halfSipHash13): probe
 * lengths hold against whoever chooses the keys. Flows have small numbers, reused when they end, under which
 * everybody else keeps columns. They hang in one list by last activity, so the least recently active one is
 * found at once; the order of that list, and so every result, does not depend on the hash key.
 */
import type { PacketBatch } from '@oddflow/capture'
import { halfSipHash13 } from '@oddflow/core'
import {
  createFlowIdentity,
  type FlowIdentity,
  growFlowIdentity,
  grown,
  IDENTITY_BYTES,
  IPV4_KEY_WORDS,
  KEY_WORDS,
  writeKey,
} from './flow-identity.js'

const NONE = -1

/** Bytes of a table for `capacity` flows. */
export function flowTableBytes(capacity: number): number {
  return capacity * (IDENTITY_BYTES + 4 + 4 + 4) + 8 * slotCountFor(capacity)
}

function slotCountFor(capacity: number): number {
  let slots = 16
  while (slots < 2 * capacity) slots *= 2
  return slots
}

export class FlowTable {
  readonly identity: FlowIdentity
  /** Flows there is room for. */
  capacity: number
  /** Flows in the table. */
  count = 0
  /** Whether the source of the packet last looked up is end b of its key. */
  lastSwapped = false
  readonly #key0: number
  readonly #key1: number
  readonly #key = new Uint32Array(KEY_WORDS)
  /** Of the key last looked up. */
  #words = KEY_WORDS
  #hash = 0
  #slots: Int32Array
  #mask: number
  #hashes: Int32Array
  /** Towards the more recent; in a free flow, the next free one. */
  #newer: Int32Array
  #older: Int32Array
  #newest = NONE
  #oldest = NONE
  #free = 0

  /** @param hashSeed - any number; tables of different seeds place the same keys differently. */
  constructor(capacity: number, hashSeed: number) {
    this.capacity = capacity
    this.identity = createFlowIdentity(capacity)
    this.#key0 = hashSeed | 0
    this.#key1 = Math.floor(hashSeed / 4294967296) | 0
    const slots = slotCountFor(capacity)
    this.#slots = new Int32Array(2 * slots)
    this.#mask = slots - 1
    this.#hashes = new Int32Array(capacity)
    this.#newer = new Int32Array(capacity)
    this.#older = new Int32Array(capacity)
    this.#chainFree(0)
  }

  /** Number of the flow of packet i, or -1. Remembers the key for `insert`. */
  find(batch: PacketBatch, i: number): number {
    const key = this.#key
    this.lastSwapped = writeKey(batch, i, key)
    const words = batch.ipVersion[i] === 4 ? IPV4_KEY_WORDS : KEY_WORDS
    const hash = halfSipHash13(key, 0, words, this.#key0, this.#key1)
    this.#hash = hash
    this.#words = words
    const slots = this.#slots
    const keys = this.identity.keys
    const mask = this.#mask
    let slot = hash & mask
    for (;;) {
      const entry = slots[2 * slot + 1]
      if (entry === 0) return NONE
      if (slots[2 * slot] === hash) {
        const at = KEY_WORDS * (entry - 1)
        let w = 0
        while (w < words && keys[at + w] === key[w]) w++
        if (w === words) return entry - 1
      }
      slot = (slot + 1) & mask
    }
  }

  get full(): boolean {
    return this.#free === NONE
  }

  /** Adds the key last looked up, as the most recent flow. The table must not be full. */
  insert(): number {
    const flow = this.#free
    this.#free = this.#newer[flow]
    const words = this.#words
    for (let w = 0; w < KEY_WORDS; w++) {
      this.identity.keys[KEY_WORDS * flow + w] = w < words ? this.#key[w] : 0
    }
    this.#hashes[flow] = this.#hash
    this.#place(flow, this.#hash)
    this.#attach(flow)
    this.count++
    return flow
  }

  /** Makes `flow` the most recently active one. */
  touch(flow: number): void {
    if (flow === this.#newest) return
    this.#detach(flow)
    this.#attach(flow)
  }

  /** The least recently active flow, or -1. */
  get oldest(): number {
    return this.#oldest
  }

  /** Takes a flow out; its number may be given to another. */
  remove(flow: number): void {
    const slots = this.#slots
    const mask = this.#mask
    let hole = this.#hashes[flow] & mask
    while (slots[2 * hole + 1] !== flow + 1) hole = (hole + 1) & mask
    for (let slot = (hole + 1) & mask; slots[2 * slot + 1] !== 0; slot = (slot + 1) & mask) {
      // An entry may fill the hole unless its home lies behind the hole on the way to where it is.
      const home = slots[2 * slot] & mask
      if (((slot - home) & mask) >= ((slot - hole) & mask)) {
        slots[2 * hole] = slots[2 * slot]
        slots[2 * hole + 1] = slots[2 * slot + 1]
        hole = slot
      }
    }
    slots[2 * hole + 1] = 0
    this.#detach(flow)
    this.#newer[flow] = this.#free
    this.#free = flow
    this.count--
  }

  /** Makes room for more flows; numbers stay. */
  grow(capacity: number): void {
    const before = this.capacity
    growFlowIdentity(this.identity, capacity)
    this.#hashes = grown(this.#hashes, new Int32Array(capacity))
    this.#newer = grown(this.#newer, new Int32Array(capacity))
    this.#older = grown(this.#older, new Int32Array(capacity))
    this.capacity = capacity
    this.#chainFree(before)
    const slots = slotCountFor(capacity)
    if (slots - 1 === this.#mask) return
    this.#slots = new Int32Array(2 * slots)
    this.#mask = slots - 1
    for (let flow = this.#oldest; flow !== NONE; flow = this.#newer[flow]) {
      this.#place(flow, this.#hashes[flow])
    }
  }

  #place(flow: number, hash: number): void {
    const slots = this.#slots
    const mask = this.#mask
    let slot = hash & mask
    while (slots[2 * slot + 1] !== 0) slot = (slot + 1) & mask
    slots[2 * slot] = hash
    slots[2 * slot + 1] = flow + 1
  }

  #chainFree(from: number): void {
    for (let flow = from; flow < this.capacity; flow++) this.#newer[flow] = flow + 1
    this.#newer[this.capacity - 1] = from === 0 ? NONE : this.#free
    this.#free = from
  }

  #attach(flow: number): void {
    this.#older[flow] = this.#newest
    this.#newer[flow] = NONE
    if (this.#newest === NONE) this.#oldest = flow
    else this.#newer[this.#newest] = flow
    this.#newest = flow
  }

  #detach(flow: number): void {
    const newer = this.#newer[flow]
    const older = this.#older[flow]
    if (newer === NONE) this.#newest = older
    else this.#older[newer] = older
    if (older === NONE) this.#oldest = newer
    else this.#newer[older] = newer
  }
}
