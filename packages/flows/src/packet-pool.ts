/**
 * PacketPool: what the feature set keeps of the packets of every open record, in chunks of four, linked.
 *
 * Most flows are short and a model may want long rows, so a fixed number of places a flow would be mostly
 * air. A chunk holds four entries of some floats and some words each, as many as the feature set says; a
 * record's chunks hang together and go back to the free list when it ends. Entries are what the set makes of
 * packets: one for each of the first p, or one for each window of a time series.
 *
 * Columns have their full length from the start in scoring; pages that were never written take no memory.
 */
import { grown } from './flow-identity.js'
import { HEAP, type Space } from './space.js'

export const ENTRIES_PER_CHUNK = 4
const CHUNK = ENTRIES_PER_CHUNK
const NONE = -1
/** In a pool's `state`: the first free chunk, or -1; chunks that were ever taken, those after them were never written. */
const FREE = 0
const TOUCHED = 1

/** How much an entry holds. */
export interface EntryLayout {
  readonly entryFloats: number
  readonly entryWords: number
}

/** Bytes of a pool of so many chunks. */
export function packetPoolBytes(layout: EntryLayout, chunks: number): number {
  return chunks * (CHUNK * (8 * layout.entryFloats + 4 * layout.entryWords) + 4)
}

export class PacketPool {
  capacity: number
  /** Entry `at` has floats[entryFloats · at …] and words[entryWords · at …]. */
  floats: Float64Array
  words: Uint32Array
  /** Of each chunk that is taken, the one behind it in its record; of each free one, the next free one; -1 is none. */
  next: Int32Array
  /** FREE and TOUCHED. */
  readonly state: Int32Array
  readonly #layout: EntryLayout
  readonly #space: Space

  constructor(layout: EntryLayout, capacity: number, space: Space = HEAP) {
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

  /** Takes a chunk, linked behind chunk `after` if that is not -1. The pool must not be full. */
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
