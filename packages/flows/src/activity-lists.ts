/**
 * ActivityLists: flows by last activity, in two doubly linked lists: half-open ones and established ones.
 *
 * What is ended first when memory is full is read off the heads of the lists. A new flow is half-open; what
 * makes it established is the tracker's business. A flow never goes back.
 *
 * A flow's links stand beside the other few numbers that every packet needs, 32 bytes in all, so that one
 * packet touches one cache line for its flow and one for each of its two neighbours.
 */

export const HALF_OPEN = 0
export const ESTABLISHED = 1
const NONE = -1

/** Bytes a flow. */
export const ACTIVITY_BYTES = 32

/** Double `TIME_STRIDE · flow` of `times` is the time of the flow's last packet. */
export const TIME_STRIDE = 4
/** Words of `words` for a flow, and the places of its fields there; the first two are the time. */
export const WORD_STRIDE = 8
const NEWER = 2
const OLDER = 3
/** HALF_OPEN or ESTABLISHED. */
export const KIND = 4
/** 1 where end b of the key sent the flow's first packet. */
export const SWAPPED = 5
/** The table's: hash of the key; of a free flow, the next free one. */
export const HASH = 6

export class ActivityLists {
  times!: Float64Array
  words!: Int32Array
  readonly #newest = new Int32Array(2).fill(NONE)
  readonly #oldest = new Int32Array(2).fill(NONE)
  readonly #counts = new Int32Array(2)

  constructor(capacity: number) {
    this.#allocate(capacity)
  }

  /** The least recently active flow of a kind, or -1. */
  oldest(kind: number): number {
    return this.#oldest[kind]
  }

  /** Flows of a kind. */
  count(kind: number): number {
    return this.#counts[kind]
  }

  /** The next more recently active flow of the same kind, or -1. */
  newer(flow: number): number {
    return this.words[WORD_STRIDE * flow + NEWER]
  }

  /** Adds a flow as the most recent half-open one. */
  add(flow: number): void {
    this.#attach(flow, HALF_OPEN)
  }

  /** Makes a flow the most recently active one of `kind`. */
  touch(flow: number, kind: number): void {
    if (flow === this.#newest[kind]) return
    this.remove(flow)
    this.#attach(flow, kind)
  }

  remove(flow: number): void {
    const { words } = this
    const at = WORD_STRIDE * flow
    const kind = words[at + KIND]
    this.#counts[kind]--
    const newer = words[at + NEWER]
    const older = words[at + OLDER]
    if (newer === NONE) this.#newest[kind] = older
    else words[WORD_STRIDE * newer + OLDER] = older
    if (older === NONE) this.#oldest[kind] = newer
    else words[WORD_STRIDE * older + NEWER] = newer
  }

  /** Calls `visitor` for each flow; it must not change the lists. */
  visit(visitor: (flow: number) => void): void {
    for (let kind = HALF_OPEN; kind <= ESTABLISHED; kind++) {
      for (let flow = this.#oldest[kind]; flow !== NONE; flow = this.newer(flow)) visitor(flow)
    }
  }

  grow(capacity: number): void {
    const before = this.words
    this.#allocate(capacity)
    this.words.set(before)
  }

  #allocate(capacity: number): void {
    const buffer = new ArrayBuffer(ACTIVITY_BYTES * capacity)
    this.times = new Float64Array(buffer)
    this.words = new Int32Array(buffer)
  }

  #attach(flow: number, kind: number): void {
    const { words } = this
    const at = WORD_STRIDE * flow
    const newest = this.#newest[kind]
    this.#counts[kind]++
    words[at + KIND] = kind
    words[at + OLDER] = newest
    words[at + NEWER] = NONE
    if (newest === NONE) this.#oldest[kind] = flow
    else words[WORD_STRIDE * newest + NEWER] = flow
    this.#newest[kind] = flow
  }
}
