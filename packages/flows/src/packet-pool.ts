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

export const ENTRIES_PER_CHUNK = 4
const CHUNK = ENTRIES_PER_CHUNK
const NONE = -1

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
  readonly #layout: EntryLayout
  #next: Int32Array
  #free = NONE
  /** Chunks that were ever taken; those after it have never been written. */
  #touched = 0

  constructor(layout: EntryLayout, capacity: number) {
    this.#layout = layout
    this.capacity = capacity
    this.floats = new Float64Array(CHUNK * layout.entryFloats * capacity)
    this.words = new Uint32Array(CHUNK * layout.entryWords * capacity)
    this.#next = new Int32Array(capacity)
  }

  get full(): boolean {
    return this.#free === NONE && this.#touched === this.capacity
  }

  /** Takes a chunk, linked behind chunk `after` if that is not -1. The pool must not be full. */
  take(after: number): number {
    let chunk = this.#free
    if (chunk === NONE) chunk = this.#touched++
    else this.#free = this.#next[chunk]
    this.#next[chunk] = NONE
    if (after !== NONE) this.#next[after] = chunk
    return chunk
  }

  /** Gives back the chunks from `head` to `tail`. */
  release(head: number, tail: number): void {
    this.#next[tail] = this.#free
    this.#free = head
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
      chunk = this.#next[chunk]
    }
  }

  grow(capacity: number): void {
    const { entryFloats, entryWords } = this.#layout
    this.floats = grown(this.floats, new Float64Array(CHUNK * entryFloats * capacity))
    this.words = grown(this.words, new Uint32Array(CHUNK * entryWords * capacity))
    this.#next = grown(this.#next, new Int32Array(capacity))
    this.capacity = capacity
  }
}
