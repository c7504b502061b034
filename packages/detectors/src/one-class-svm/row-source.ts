/**
 * Kernel rows of the active rows, out of the cache or computed into it.
 *
 * The kernel does four rows at once in little more than half the time of four single ones, so a row that is
 * missing is computed together with three more that are missing too and that working-set selection is
 * likely to ask for next: those that are next in the order in which it looked for this one. What is in the
 * cache changes no result, since a kernel value has the same bits however it was computed.
 *
 * Columns that the first gradient left in place (`prefilled`) are not computed again. Left out: reading columns of rows that are cached already (K is symmetric). Measured slower than computing
 * them: each value comes from another page of memory.
 */
import type { ActiveSet } from './active-set.js'
import { copyRange } from './initial-gradient.js'
import { KERNEL_BLOCK_COLUMNS, KERNEL_TILE_ROWS, type PreparedKernel } from './kernel.js'
import type { KernelCache } from './kernel-cache.js'
import { createKernelColumns, type KernelColumns } from './kernel-columns.js'

/** Which end of the gradients rows are taken from: least first among α < 1, or greatest first among α > 0. */
export type Side = 'rising' | 'falling'

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
  #columns: KernelColumns | undefined
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
  #columnsNow(): KernelColumns {
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
