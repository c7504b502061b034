/**
 * A bounded cache of kernel rows: slots in one typed array, the least recently used one given up.
 *
 * A row is `width` values, one for each active row, and is known by its position among them. It is held in float32 or float64. When rows are
 * left out of the work (`shrinking.ts`), the cached rows are gathered in place to the columns that stay, so
 * nothing that is still wanted is computed again and the same memory holds more of the now shorter rows.
 *
 * When every row fits, row p has slot p from the start and none is ever given up; the first gradient then
 * leaves the leading columns of rows that are not there yet in their slots (`prefilled`).
 *
 * Which slot is oldest is found by looking at all of them: a glance beside the kernel row that follows. If
 * the engine refuses the memory asked for, half of it is tried, down to two rows.
 */
import type { SvmPrecision } from './model.js'

export type KernelValues = Float32Array | Float64Array

export class KernelCache {
  /** Slots of `width` values. An offset given out is good until its row is given up. */
  readonly data: KernelValues
  /** Whether every row fits. */
  readonly complete: boolean
  /** Leading columns that stand in the slots of rows that are not there yet; only when `complete`. */
  prefilled = 0
  #width: number
  #used = 0
  #clock = 0
  readonly #slotOf: Int32Array
  readonly #positionOf: Int32Array
  readonly #lastUse: Float64Array

  /** For `width` rows of `width` values, of which as many are held as `bytes` allow, but at least two. */
  constructor(width: number, bytes: number, precision: SvmPrecision) {
    this.#width = width
    const Values = precision === 'float32' ? Float32Array : Float64Array
    const rows = Math.min(width, Math.max(2, Math.floor(bytes / (Values.BYTES_PER_ELEMENT * width))))
    this.data = allocate(Values, rows, width)
    this.complete = this.data.length === width * width
    this.#slotOf = new Int32Array(width).fill(-1)
    this.#positionOf = new Int32Array(width)
    this.#lastUse = new Float64Array(width)
  }

  /** Rows that fit at the present width. */
  get capacity(): number {
    return Math.min(this.#width, Math.floor(this.data.length / this.#width))
  }

  /** Whether the row of `position` is there; not counted as a use. */
  has(position: number): boolean {
    return this.#slotOf[position]! >= 0
  }

  /** Offset in `data` of the row of `position`, or −1. Counts as a use. */
  find(position: number): number {
    const slot = this.#slotOf[position]!
    if (slot < 0) return -1
    this.#lastUse[slot] = ++this.#clock
    return slot * this.#width
  }

  /** Offset of a slot for the row of `position`, which is not in the cache; the caller fills it. */
  claim(position: number): number {
    const slot = this.complete ? position : this.#used < this.capacity ? this.#used++ : this.#giveUpOldest()
    this.#slotOf[position] = slot
    this.#positionOf[slot] = position
    this.#lastUse[slot] = ++this.#clock
    return slot * this.#width
  }

  #giveUpOldest(): number {
    let slot = 0
    for (let s = 1; s < this.#used; s++) if (this.#lastUse[s]! < this.#lastUse[slot]!) slot = s
    this.#slotOf[this.#positionOf[slot]!] = -1
    return slot
  }

  /** Keeps the `count` positions in `kept` (ascending), which become 0 … count − 1, as rows and as columns. */
  keepOnly(kept: Int32Array, count: number): void {
    const { data, complete } = this
    const oldWidth = this.#width
    const oldSlotOf = this.#slotOf.slice()
    const newPosition = new Int32Array(oldWidth).fill(-1)
    for (let p = 0; p < count; p++) newPosition[kept[p]!] = p
    this.#slotOf.fill(-1)
    let next = 0
    const slots = complete ? oldWidth : this.#used
    for (let s = 0; s < slots; s++) {
      const oldPosition = this.#positionOf[s]!
      const position = newPosition[oldPosition]!
      if (position < 0 || oldSlotOf[oldPosition] !== s) continue
      const slot = complete ? position : next++
      // never writes ahead of what it reads: slot ≤ s, count ≤ oldWidth and p ≤ kept[p]
      const from = s * oldWidth
      const to = slot * count
      for (let p = 0; p < count; p++) data[to + p] = data[from + kept[p]!]!
      this.#slotOf[position] = slot
      this.#positionOf[slot] = position
      this.#lastUse[slot] = this.#lastUse[s]!
    }
    this.#used = next
    this.#width = count
    this.prefilled = 0
  }

  /** Forgets all rows; from now on they are `width` long, at most the width of the start. */
  clear(width: number): void {
    this.#slotOf.fill(-1)
    this.#used = 0
    this.#width = width
    this.prefilled = 0
  }
}

function allocate(
  Values: Float32ArrayConstructor | Float64ArrayConstructor,
  rows: number,
  width: number,
): KernelValues {
  for (let r = rows; ; r = Math.max(2, r >> 1)) {
    try {
      return new Values(r * width)
    } catch (error) {
      if (r <= 2 || !(error instanceof RangeError)) throw error
    }
  }
}
