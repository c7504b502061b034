/**
 * FlowLines: what every packet needs of its flow, in one cache line a flow.
 *
 * A packet's flow is anywhere in memory, and to wait for a line from there takes as long as a hundred
 * instructions. So the key that is compared, the time of the last packet and the flow's place in the log of
 * activity stand together, 64 bytes in all: ten words of key (flow-identity.ts), then the fields below.
 */
import { KEY_WORDS } from './flow-identity.js'
import type { Space } from './space.js'

export const LINE_BYTES = 64
export const LINE_WORDS = LINE_BYTES / 4
export const LINE_DOUBLES = LINE_BYTES / 8

/** Word of a line: hash of the key; of a free flow, the next free one. */
export const HASH = KEY_WORDS
/** Word: where the flow's living entry in its log stands (activity-log.ts). */
export const PLACE = 11
/** Double: time of the flow's last packet, microseconds. */
export const LAST_MICROS = 6
/** Word: kind of activity (activity-log.ts). */
export const KIND = 14
/** Word: the bits below; all but the first are kept only where TCP flows end when they close. */
export const ENDS = 15
/** End b of the key is the initiator. */
export const SWAPPED = 1
/** The initiator has sent a packet, has sent a FIN; shifted by one, the responder. */
export const SENT = 2
export const SENT_FIN = 8

export class FlowLines {
  /** The same bytes as signed words, as unsigned words and as doubles. */
  words!: Int32Array
  keys!: Uint32Array
  times!: Float64Array
  readonly #space: Space

  constructor(capacity: number, space: Space) {
    this.#space = space
    this.#allocate(capacity)
  }

  grow(capacity: number): void {
    const before = this.words
    this.#allocate(capacity)
    this.words.set(before)
  }

  #allocate(capacity: number): void {
    const { buffer, byteOffset } = this.#space.int32(LINE_WORDS * capacity)
    this.words = new Int32Array(buffer, byteOffset, LINE_WORDS * capacity)
    this.keys = new Uint32Array(buffer, byteOffset, LINE_WORDS * capacity)
    this.times = new Float64Array(buffer, byteOffset, LINE_DOUBLES * capacity)
  }
}
