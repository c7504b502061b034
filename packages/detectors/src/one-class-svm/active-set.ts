/**
 * The rows that the solver works on: all at first, fewer after shrinking, all again at the end. Everything a step reads
 * is packed in the first `count` places, row numbers ascending; what has been left out waits in `inactive`.
 */
import type { Matrix } from '@oddflow/core'
import type { DistanceColumns } from '@oddflow/linalg'
import type { SvmPrecision } from './fit.js'
import { createKernelColumns, KERNEL_BLOCK_COLUMNS, KERNEL_TILE_ROWS, type PreparedKernel } from './kernel.js'

/**
 * The starting point and its gradient G = Kα. As in libsvm, the first ⌊ν·n⌋ coefficients are 1 and the next takes the
 * rest.
 *
 * The kernel rows of these seeds are most of the work of a fit, so their square is computed once for both of its
 * triangles, and what fits stays in the cache. Each gradient is summed in the order of the seeds, as libsvm sums it, so
 * equal rows have equal gradients and ties end as in libsvm (docs/results/golden-svm.md). Blocks are small enough for
 * the processor's cache.
 */

const BLOCK_ROWS = 32
const BLOCK_COLUMNS = 128

/** α of the start, length n. */
export function initialCoefficients(n: number, nu: number): Float64Array {
  const alpha = new Float64Array(n)
  const whole = Math.min(n, Math.floor(nu * n))
  alpha.fill(1, 0, whole)
  if (whole < n) alpha[whole] = nu * n - whole
  return alpha
}

/** G = Kα for an α whose non-zero values come first. The cache is empty and n wide. */
export function initialGradient(
  kernel: PreparedKernel,
  rows: Matrix,
  alpha: Float64Array,
  cache: KernelCache,
  simd: boolean,
): Float64Array {
  const { rows: n, cols, data: x } = rows
  const gradient = new Float64Array(n)
  const shape = { columns: n, dimension: cols, rows: BLOCK_ROWS, width: BLOCK_COLUMNS }
  const columns = createKernelColumns(kernel, x, shape, simd)
  let seeds = 0
  while (seeds < n && alpha[seeds]! > 0) seeds++
  const keep = seeds <= cache.capacity
  if (keep) for (let i = 0; i < seeds; i++) cache.claim(i) // an empty cache: row i stands at i · n
  const mirrored = cache.complete ? n : keep ? seeds : 0
  if (cache.complete) cache.prefilled = seeds
  for (let i = 0; i < seeds; i += BLOCK_ROWS) {
    const tile = Math.min(BLOCK_ROWS, seeds - i)
    for (let first = i; first < n; first += BLOCK_COLUMNS) {
      const width = Math.min(BLOCK_COLUMNS, n - first)
      columns.compute(x, i * cols, tile, first, width)
      const { values: block, offset, stride } = columns
      // columns of the tile itself are there for each of its rows; those after it have a mirror image
      const mirrorStart = Math.max(0, i + tile - first)
      const seedEnd = Math.min(width, seeds - first)
      for (let r = 0; r < tile; r++) {
        const from = offset + r * stride
        addScaled(alpha[i + r]!, block, from, width, gradient, first)
        if (keep) copyRange(block, from, width, cache.data, (i + r) * n + first)
      }
      for (let r = 0; r < tile; r++) {
        gradient[i + r] = addProducts(
          gradient[i + r]!,
          block,
          offset + r * stride + mirrorStart,
          alpha,
          first + mirrorStart,
          seedEnd - mirrorStart,
        )
      }
      const mirrorEnd = Math.min(width, mirrored - first)
      for (let j = mirrorStart; j < mirrorEnd; j++) {
        const to = (first + j) * n + i
        for (let r = 0; r < tile; r++) cache.data[to + r] = block[offset + r * stride + j]!
      }
    }
  }
  return gradient
}

/** target[targetStart + j] += scale · source[sourceStart + j] for j < length. */
export function addScaled(
  scale: number,
  source: Float64Array,
  sourceStart: number,
  length: number,
  target: Float64Array,
  targetStart: number,
): void {
  for (let j = 0; j < length; j++) target[targetStart + j]! += scale * source[sourceStart + j]!
}

/** sum + Σ a[aStart + j] · b[bStart + j] for j < length, one after the other. */
function addProducts(
  sum: number,
  a: Float64Array,
  aStart: number,
  b: Float64Array,
  bStart: number,
  length: number,
): number {
  for (let j = 0; j < length; j++) sum += a[aStart + j]! * b[bStart + j]!
  return sum
}

/** b[bStart + j] = a[aStart + j] for j < length. */
function copyRange(a: Float64Array, aStart: number, length: number, b: KernelValues, bStart: number): void {
  for (let j = 0; j < length; j++) b[bStart + j] = a[aStart + j]!
}

/**
 * Kernel rows of the active rows, out of the cache or computed into it.
 *
 * Four rows at once take little more than half the time of four single ones, so a missing row is computed with three
 * more that working-set selection is likely to ask for next. The cache changes no result.
 */

/** Which end of the gradients rows are taken from: least first among α < 1, or greatest first among α > 0. */
type Side = 'rising' | 'falling'

export class RowSource {
  /** Rows computed so far. */
  computed = 0
  readonly #kernel: PreparedKernel
  readonly #active: ActiveSet
  readonly #cache: KernelCache
  readonly #positions = new Int32Array(KERNEL_TILE_ROWS)
  readonly #keys = new Float64Array(KERNEL_TILE_ROWS)
  readonly #offsets = new Float64Array(KERNEL_TILE_ROWS)
  readonly #vectors: Float64Array
  readonly #simd: boolean
  #columns: DistanceColumns | undefined
  #version = -1

  constructor(kernel: PreparedKernel, active: ActiveSet, cache: KernelCache, simd: boolean) {
    this.#simd = simd
    this.#kernel = kernel
    this.#active = active
    this.#cache = cache
    this.#vectors = new Float64Array(KERNEL_TILE_ROWS * active.dimension)
  }

  /**
   * Offset in the cache of the row of `position`; it stays good while one more row is asked for.
   */
  row(position: number, side: Side): number {
    const cached = this.#cache.find(position)
    if (cached >= 0) return cached
    this.#compute(this.#choose(position, side))
    return this.#cache.find(position)
  }

  /** Fills `#positions` with `position` and what may be wanted next; returns how many there are. */
  #choose(position: number, side: Side): number {
    const { alpha, gradient, count } = this.#active
    const positions = this.#positions
    const keys = this.#keys
    positions[0] = position
    // none in a cache that has no room for them beside the pair at work, nor in one that is small beside the
    // active rows, where they would push out what is wanted sooner
    const { capacity } = this.#cache
    const wanted = capacity >= 2 * KERNEL_TILE_ROWS && 4 * capacity >= count ? KERNEL_TILE_ROWS : 1
    const sign = side === 'rising' ? 1 : -1
    let found = 1
    for (let p = 0; p < count && wanted > 1; p++) {
      const key = sign * gradient[p]!
      if (found === wanted && key >= keys[found - 1]!) continue
      if (p === position || this.#cache.has(p)) continue
      if (side === 'rising' ? alpha[p]! >= 1 : alpha[p]! <= 0) continue
      let at = found < wanted ? found++ : found - 1
      for (; at > 1 && keys[at - 1]! > key; at--) {
        keys[at] = keys[at - 1]!
        positions[at] = positions[at - 1]!
      }
      keys[at] = key
      positions[at] = p
    }
    return found
  }

  /** Of the rows that are active now. */
  #columnsNow(): DistanceColumns {
    const { vectors, dimension, count, version } = this.#active
    if (this.#columns === undefined || this.#version !== version) {
      const shape = { columns: count, dimension, rows: KERNEL_TILE_ROWS, width: KERNEL_BLOCK_COLUMNS }
      this.#columns = createKernelColumns(this.#kernel, vectors, shape, this.#simd)
      this.#version = version
    }
    return this.#columns
  }

  #compute(tile: number): void {
    const { vectors, dimension, count } = this.#active
    const positions = this.#positions
    const { data } = this.#cache
    const columns = this.#columnsNow()
    // companions first and the row asked for last: it is the last to be given up
    for (let r = tile - 1; r >= 0; r--) {
      const from = positions[r]! * dimension
      this.#vectors.set(vectors.subarray(from, from + dimension), r * dimension)
      this.#offsets[r] = this.#cache.claim(positions[r]!)
    }
    // columns are computed from a multiple of 4 on
    const { prefilled } = this.#cache
    for (let first = prefilled - (prefilled % 4); first < count; first += KERNEL_BLOCK_COLUMNS) {
      const width = Math.min(KERNEL_BLOCK_COLUMNS, count - first)
      columns.compute(this.#vectors, 0, tile, first, width)
      const { values, offset, stride } = columns
      for (let r = 0; r < tile; r++) {
        copyRange(values, offset + r * stride, width, data, this.#offsets[r]! + first)
      }
    }
    this.computed += tile
  }
}

/**
 * A bounded cache of kernel rows: slots in one typed array, the least recently used one given up.
 *
 * A row has one value for each active row and is known by its position among them. When rows are left out
 * (`solver.ts`), the cached rows are gathered in place. When every row fits, row p has slot p from the start, and the
 * first gradient leaves the leading columns of missing rows there (`prefilled`). If the memory is refused, half of it
 * is tried, down to two rows.
 */

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

export interface ActiveSet {
  /** Counts up whenever `vectors` change. */
  version: number
  /** Active rows; the first `count` places of each array below are theirs. */
  count: number
  /** D. */
  readonly dimension: number
  /** Row number of each place, ascending. */
  readonly ids: Int32Array
  /** n × D. */
  readonly vectors: Float64Array
  readonly alpha: Float64Array
  /** G = Kα. */
  readonly gradient: Float64Array
  readonly diagonal: Float64Array
  /** While rows are left out: the state before the first of them went. */
  inactive: Inactive | undefined
}

/** By row number, length n. */
interface Inactive {
  /** α of all rows before shrinking, and the gradient that belongs to it. */
  readonly alphaThen: Float64Array
  readonly gradientThen: Float64Array
  readonly diagonal: Float64Array
  /** α of the rows that are left out; of the others, what it was when rows were last left out. */
  readonly alphaNow: Float64Array
}

/** `alpha`, `gradient` and `diagonal` are taken over and changed. */
export function createActiveSet(
  rows: Matrix,
  alpha: Float64Array,
  gradient: Float64Array,
  diagonal: Float64Array,
): ActiveSet {
  return {
    version: 0,
    count: rows.rows,
    dimension: rows.cols,
    ids: Int32Array.from({ length: rows.rows }, (_, i) => i),
    vectors: rows.data.slice(),
    alpha,
    gradient,
    diagonal,
    inactive: undefined,
  }
}
