/**
 * ActivityLists: flows by last activity, in two doubly linked lists: half-open ones and established ones.
 *
 * What is ended first when memory is full is read off the heads of the lists. A new flow is half-open; what
 * makes it established is the tracker's business. A flow never goes back.
 *
 * A flow's links stand beside the other few numbers that every packet needs, 32 bytes in all, so that one
 * packet touches one cache line for its flow and one for each of its two neighbours. Each list is a ring through
 * a place behind the last flow, its end: no link is ever missing, so a packet takes the same few stores whatever
 * its flow's neighbours are, and nothing is compiled anew when a list has its first end or middle.
 */

export const HALF_OPEN = 0
export const ESTABLISHED = 1
const NONE = -1

/** Bytes of the lists for so many flows. */
export function activityBytes(capacity: number): number {
  return ENTRY_BYTES * (capacity + KINDS)
}
const ENTRY_BYTES = 32
const KINDS = 2

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
  #capacity = 0
  readonly #counts = new Int32Array(KINDS)

  constructor(capacity: number) {
    this.#allocate(capacity)
    for (let kind = 0; kind < KINDS; kind++) {
      this.#link(capacity + kind, capacity + kind)
    }
  }

  /** The least recently active flow of a kind, or -1. */
  oldest(kind: number): number {
    return this.newer(this.#capacity + kind)
  }

  /** Flows of a kind. */
  count(kind: number): number {
    return this.#counts[kind]
  }

  /** The next more recently active flow of the same kind, or -1. */
  newer(flow: number): number {
    const newer = this.words[WORD_STRIDE * flow + NEWER]
    return newer >= this.#capacity ? NONE : newer
  }

  /** Adds a flow as the most recent half-open one. */
  add(flow: number): void {
    this.#attach(flow, HALF_OPEN)
  }

  /** Makes a flow the most recently active one of `kind`. */
  touch(flow: number, kind: number): void {
    if (this.words[WORD_STRIDE * flow + NEWER] === this.#capacity + kind) return
    this.remove(flow)
    this.#attach(flow, kind)
  }

  remove(flow: number): void {
    const { words } = this
    const at = WORD_STRIDE * flow
    this.#counts[words[at + KIND]]--
    this.#link(words[at + OLDER], words[at + NEWER])
  }

  /** Calls `visitor` for each flow; it must not change the lists. */
  visit(visitor: (flow: number) => void): void {
    for (let kind = HALF_OPEN; kind <= ESTABLISHED; kind++) {
      for (let flow = this.oldest(kind); flow !== NONE; flow = this.newer(flow)) visitor(flow)
    }
  }

  grow(capacity: number): void {
    const before = this.words
    const previous = this.#capacity
    this.#allocate(capacity)
    const { words } = this
    words.set(before.subarray(0, WORD_STRIDE * previous))
    for (let kind = 0; kind < KINDS; kind++) {
      const end = capacity + kind
      const oldest = before[WORD_STRIDE * (previous + kind) + NEWER]
      const newest = before[WORD_STRIDE * (previous + kind) + OLDER]
      const isEmpty = oldest >= previous
      this.#link(end, isEmpty ? end : oldest)
      this.#link(isEmpty ? end : newest, end)
    }
  }

  #allocate(capacity: number): void {
    const buffer = new ArrayBuffer(activityBytes(capacity))
    this.times = new Float64Array(buffer)
    this.words = new Int32Array(buffer)
    this.#capacity = capacity
  }

  #attach(flow: number, kind: number): void {
    const { words } = this
    const end = this.#capacity + kind
    this.#counts[kind]++
    words[WORD_STRIDE * flow + KIND] = kind
    this.#link(words[WORD_STRIDE * end + OLDER], flow)
    this.#link(flow, end)
  }

  #link(older: number, newer: number): void {
    this.words[WORD_STRIDE * older + NEWER] = newer
    this.words[WORD_STRIDE * newer + OLDER] = older
  }
}
