/**
 * PacketPool: the first packets of every open record, in chunks of four, linked.
 *
 * Most flows are short and a model may want long rows, so a fixed number of places a flow would be mostly
 * air. A chunk holds the interarrival times and sizes of four packets; a record's chunks hang together and go
 * back to the free list when it ends.
 */
import { grown } from './flow-identity.js'

export const PACKETS_PER_CHUNK = 4
const CHUNK = PACKETS_PER_CHUNK
const NONE = -1

export function packetPoolBytes(chunks: number): number {
  return chunks * (CHUNK * 12 + 4)
}

export class PacketPool {
  capacity: number
  #iatMicros: Float64Array
  #sizeBytes: Uint32Array
  #next: Int32Array
  #free = 0

  constructor(capacity: number) {
    this.capacity = capacity
    this.#iatMicros = new Float64Array(CHUNK * capacity)
    this.#sizeBytes = new Uint32Array(CHUNK * capacity)
    this.#next = new Int32Array(capacity)
    this.#chain(0, NONE)
  }

  get full(): boolean {
    return this.#free === NONE
  }

  /** Takes a chunk, linked behind chunk `after` if that is not -1. The pool must not be full. */
  take(after: number): number {
    const chunk = this.#free
    this.#free = this.#next[chunk]
    this.#next[chunk] = NONE
    if (after !== NONE) this.#next[after] = chunk
    return chunk
  }

  /** Gives back the chunks from `head` to `tail`. */
  release(head: number, tail: number): void {
    this.#next[tail] = this.#free
    this.#free = head
  }

  /** Writes packet `index` of its record into the chunk that holds it. */
  write(chunk: number, index: number, iatMicros: number, sizeBytes: number): void {
    const at = CHUNK * chunk + (index & (CHUNK - 1))
    this.#iatMicros[at] = iatMicros
    this.#sizeBytes[at] = sizeBytes
  }

  /** Whether packet `index` is the first of a chunk. */
  startsChunk(index: number): boolean {
    return (index & (CHUNK - 1)) === 0
  }

  /**
   * Writes iat1, size1, …, iat(n−1), size(n−1), size(n) of the n = `count` ≥ 1 packets into `row`: cut where
   * the row ends, or zeros after.
   * @param unitMicros - microseconds in the unit of interarrival times: 1, or 1,000,000 for seconds.
   */
  writeRow(head: number, count: number, unitMicros: number, row: Float64Array): void {
    let chunk = head
    for (let index = 0; index < count; index++) {
      if (index > 0 && this.startsChunk(index)) chunk = this.#next[chunk]
      const at = CHUNK * chunk + (index & (CHUNK - 1))
      // The time before packet j+1 stands in front of packet j's size.
      if (index > 0) row[2 * index - 2] = this.#iatMicros[at] / unitMicros
      const column = index === count - 1 ? 2 * index : 2 * index + 1
      if (column < row.length) row[column] = this.#sizeBytes[at]
    }
    row.fill(0, 2 * count - 1)
  }

  grow(capacity: number): void {
    const before = this.capacity
    this.#iatMicros = grown(this.#iatMicros, new Float64Array(CHUNK * capacity))
    this.#sizeBytes = grown(this.#sizeBytes, new Uint32Array(CHUNK * capacity))
    this.#next = grown(this.#next, new Int32Array(capacity))
    this.capacity = capacity
    this.#chain(before, this.#free)
  }

  #chain(from: number, rest: number): void {
    for (let chunk = from; chunk < this.capacity; chunk++) this.#next[chunk] = chunk + 1
    this.#next[this.capacity - 1] = rest
    this.#free = from
  }
}
