/**
 * RowBuffer: at most so many rows of one width, each with a number of its own (a weight, or when it came).
 *
 * Rows are appended; in a full buffer `push` writes over the oldest and `replace` over a given one. `entries` gives
 * them in order, oldest first, which is also how they go into a model file. Its arrays grow with what is in it
 * and never beyond the capacity.
 */
import { type Matrix, matrixOf } from '@oddflow/core'

/** Rows (n × width) and a number for each. */
export interface RowEntries {
  readonly rows: Matrix
  /** Length n. */
  readonly numbers: Float64Array
}

export class RowBuffer {
  #rows: Float64Array
  #numbers: Float64Array
  #count = 0
  /** The oldest, in a full buffer. */
  #first = 0

  constructor(
    readonly width: number,
    readonly capacity: number,
    { rows, numbers }: RowEntries = {
      rows: matrixOf(0, width, new Float64Array(0)),
      numbers: new Float64Array(0),
    },
  ) {
    this.#count = Math.min(rows.rows, capacity)
    const skipped = rows.rows - this.#count
    this.#rows = rows.data.slice(skipped * width)
    this.#numbers = numbers.slice(skipped)
  }

  get count(): number {
    return this.#count
  }

  /** The row that is written over next, or −1 while there is room. */
  get next(): number {
    return this.#count < this.capacity ? -1 : this.#first
  }

  /** Row-major, `count` rows and perhaps room for more; valid until the next change. */
  get data(): Float64Array {
    return this.#rows
  }

  /** One for each row, and perhaps room for more; may be written. */
  get numbers(): Float64Array {
    return this.#numbers
  }

  /** Appends the row at `start` of `source`, over the oldest where it must; returns its place. */
  push(source: Float64Array, start: number, number: number): number {
    if (this.#count === this.capacity) {
      const place = this.#first
      this.#first = (place + 1) % this.capacity
      this.replace(place, source, start, number)
      return place
    }
    if ((this.#count + 1) * this.width > this.#rows.length) this.#grow()
    this.replace(this.#count, source, start, number)
    return this.#count++
  }

  replace(place: number, source: Float64Array, start: number, number: number): void {
    const at = place * this.width
    for (let c = 0; c < this.width; c++) this.#rows[at + c] = source[start + c]!
    this.#numbers[place] = number
  }

  /** Keeps the rows that `keep` says yes to, in order. */
  filter(keep: (place: number) => boolean): void {
    this.#inOrder()
    let kept = 0
    for (let i = 0; i < this.#count; i++) {
      if (!keep(i)) continue
      this.#rows.copyWithin(kept * this.width, i * this.width, (i + 1) * this.width)
      this.#numbers[kept] = this.#numbers[i]!
      kept++
    }
    this.#count = kept
  }

  /** A copy, oldest first; the buffer is in that order afterwards. */
  entries(): RowEntries {
    this.#inOrder()
    return {
      rows: matrixOf(this.#count, this.width, this.#rows.slice(0, this.#count * this.width)),
      numbers: this.#numbers.slice(0, this.#count),
    }
  }

  #inOrder(): void {
    if (this.#first === 0) return
    const at = this.#first * this.width
    const rows = new Float64Array(this.#rows.length)
    rows.set(this.#rows.subarray(at, this.#count * this.width))
    rows.set(this.#rows.subarray(0, at), this.#count * this.width - at)
    const numbers = new Float64Array(this.#numbers.length)
    numbers.set(this.#numbers.subarray(this.#first, this.#count))
    numbers.set(this.#numbers.subarray(0, this.#first), this.#count - this.#first)
    this.#rows = rows
    this.#numbers = numbers
    this.#first = 0
  }

  #grow(): void {
    const room = Math.min(this.capacity, Math.max(16, 2 * this.#count))
    const rows = new Float64Array(room * this.width)
    rows.set(this.#rows)
    const numbers = new Float64Array(room)
    numbers.set(this.#numbers)
    this.#rows = rows
    this.#numbers = numbers
  }
}
