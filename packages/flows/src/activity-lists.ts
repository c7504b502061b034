/**
 * ActivityLists: flows by last activity, in two doubly linked lists: half-open ones and established ones.
 *
 * What is ended first when memory is full is read off the heads of the lists. A new flow is half-open; what
 * makes it established is the tracker's business. A flow never goes back.
 */
import { grown } from './flow-identity.js'

export const HALF_OPEN = 0
export const ESTABLISHED = 1
const NONE = -1

/** Bytes a flow. */
export const ACTIVITY_BYTES = 4 + 4 + 1

export class ActivityLists {
  /** HALF_OPEN or ESTABLISHED, of each flow that is in a list. */
  kind: Uint8Array
  #newer: Int32Array
  #older: Int32Array
  readonly #newest = new Int32Array(2).fill(NONE)
  readonly #oldest = new Int32Array(2).fill(NONE)

  constructor(capacity: number) {
    this.kind = new Uint8Array(capacity)
    this.#newer = new Int32Array(capacity)
    this.#older = new Int32Array(capacity)
  }

  /** The least recently active flow of a kind, or -1. */
  oldest(kind: number): number {
    return this.#oldest[kind]
  }

  /** The next more recently active flow of the same kind, or -1. */
  newer(flow: number): number {
    return this.#newer[flow]
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
    const kind = this.kind[flow]
    const newer = this.#newer[flow]
    const older = this.#older[flow]
    if (newer === NONE) this.#newest[kind] = older
    else this.#older[newer] = older
    if (older === NONE) this.#oldest[kind] = newer
    else this.#newer[older] = newer
  }

  /** Calls `visitor` for each flow; it must not change the lists. */
  visit(visitor: (flow: number) => void): void {
    for (let kind = HALF_OPEN; kind <= ESTABLISHED; kind++) {
      for (let flow = this.#oldest[kind]; flow !== NONE; flow = this.#newer[flow]) visitor(flow)
    }
  }

  grow(capacity: number): void {
    this.kind = grown(this.kind, new Uint8Array(capacity))
    this.#newer = grown(this.#newer, new Int32Array(capacity))
    this.#older = grown(this.#older, new Int32Array(capacity))
  }

  #attach(flow: number, kind: number): void {
    this.kind[flow] = kind
    this.#older[flow] = this.#newest[kind]
    this.#newer[flow] = NONE
    if (this.#newest[kind] === NONE) this.#oldest[kind] = flow
    else this.#newer[this.#newest[kind]] = flow
    this.#newest[kind] = flow
  }
}
