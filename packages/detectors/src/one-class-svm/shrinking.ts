/**
 * Shrinking (Joachims, "Making large-scale SVM learning practical", 1999; the conditions are libsvm's):
 * rows at a bound whose gradient says that they stay there are left out until the rest is solved.
 *
 * With i the row of least gradient that may grow and M the greatest gradient of those that may shrink, a
 * row at α = 1 goes when G < G_i, and one at α = 0 when G > M. It is a guess: when the rest is solved, the
 * gradients of what was left out are made up for and all rows are looked at again.
 *
 * Making up needs no book-keeping in between: G is linear in α, so G = G_then + Σ_j (α_j − α_j,then) K_j over
 * the rows j that moved since the first row was left out. (libsvm keeps Σ over the rows at α = 1 up to date
 * at every change of a bound instead, which costs whole kernel rows all the time.)
 */
import type { Matrix } from '@oddflow/core'
import type { ActiveSet } from './active-set.js'
import { addScaled } from './initial-gradient.js'
import { KERNEL_BLOCK_COLUMNS, KERNEL_TILE_ROWS, type PreparedKernel, svmKernelRows } from './kernel.js'
import type { KernelCache } from './kernel-cache.js'

/** Below this share of the active rows, leaving rows out does not pay for gathering the cache. */
const LEAST_SHARE = 0.1

/**
 * Leaves out what will keep its bound. Returns whether it did: not when too few rows would go or fewer than
 * two would stay.
 */
export function shrink(active: ActiveSet, cache: KernelCache): boolean {
  const { count, dimension, ids, vectors, alpha, gradient, diagonal } = active
  let least = Number.POSITIVE_INFINITY
  let greatest = Number.NEGATIVE_INFINITY
  for (let p = 0; p < count; p++) {
    const g = gradient[p]!
    if (alpha[p]! < 1 && g < least) least = g
    if (alpha[p]! > 0 && g > greatest) greatest = g
  }
  const kept = new Int32Array(count)
  let stay = 0
  for (let p = 0; p < count; p++) {
    const a = alpha[p]!
    const goes = a >= 1 ? gradient[p]! < least : a <= 0 && gradient[p]! > greatest
    if (!goes) kept[stay++] = p
  }
  if (stay < 2 || count - stay < LEAST_SHARE * count) return false
  active.inactive ??= {
    alphaThen: alpha.slice(),
    gradientThen: gradient.slice(),
    diagonal: diagonal.slice(),
    alphaNow: alpha.slice(),
  }
  const { alphaNow } = active.inactive
  for (let p = 0; p < count; p++) alphaNow[ids[p]!] = alpha[p]!
  for (let p = 0; p < stay; p++) {
    const from = kept[p]!
    ids[p] = ids[from]!
    alpha[p] = alpha[from]!
    gradient[p] = gradient[from]!
    diagonal[p] = diagonal[from]!
    vectors.copyWithin(p * dimension, from * dimension, (from + 1) * dimension)
  }
  cache.keepOnly(kept, stay)
  active.count = stay
  active.version++
  return true
}

/** Makes all rows active again, their gradients as they belong to the present α. The cache is emptied. */
export function unshrink(active: ActiveSet, cache: KernelCache, kernel: PreparedKernel, rows: Matrix): void {
  const { inactive, ids, vectors, alpha, gradient, diagonal, count } = active
  if (inactive === undefined) return
  const { rows: n, cols } = rows
  const { alphaThen, gradientThen, alphaNow } = inactive
  const isActive = new Uint8Array(n)
  for (let p = 0; p < count; p++) {
    const i = ids[p]!
    isActive[i] = 1
    alphaNow[i] = alpha[p]!
    gradientThen[i] = gradient[p]! // up to date already
  }
  const all = Int32Array.from({ length: n }, (_, i) => i)
  makeUp(
    kernel,
    rows,
    all.filter((i) => alphaNow[i] !== alphaThen[i]),
    all.filter((i) => isActive[i] === 0),
    Float64Array.from(alphaNow, (a, i) => a - alphaThen[i]!),
    gradientThen,
  )
  active.count = n
  active.version++
  active.inactive = undefined
  ids.set(all)
  vectors.set(rows.data.subarray(0, n * cols))
  alpha.set(alphaNow)
  gradient.set(gradientThen)
  diagonal.set(inactive.diagonal)
  cache.clear(n)
}

/** gradient[t] += Σ_j change[j] · K(x_j, x_t) for j of `moved` and t of `targets`, all by row number. */
function makeUp(
  kernel: PreparedKernel,
  rows: Matrix,
  moved: Int32Array,
  targets: Int32Array,
  change: Float64Array,
  gradient: Float64Array,
): void {
  const { cols } = rows
  const sources = gather(rows, moved, 0, moved.length)
  const block = new Float64Array(KERNEL_TILE_ROWS * KERNEL_BLOCK_COLUMNS)
  const sums = new Float64Array(KERNEL_BLOCK_COLUMNS)
  for (let first = 0; first < targets.length; first += KERNEL_BLOCK_COLUMNS) {
    const width = Math.min(KERNEL_BLOCK_COLUMNS, targets.length - first)
    const vectors = gather(rows, targets, first, width)
    sums.fill(0)
    for (let j = 0; j < moved.length; j += KERNEL_TILE_ROWS) {
      const tile = Math.min(KERNEL_TILE_ROWS, moved.length - j)
      svmKernelRows(kernel, sources, j * cols, tile, vectors, 0, width, cols, block)
      for (let r = 0; r < tile; r++) addScaled(change[moved[j + r]!]!, block, r * width, width, sums, 0)
    }
    for (let t = 0; t < width; t++) gradient[targets[first + t]!]! += sums[t]!
  }
}

function gather({ cols, data }: Matrix, indices: Int32Array, first: number, count: number): Float64Array {
  const out = new Float64Array(count * cols)
  for (let p = 0; p < count; p++) {
    const from = indices[first + p]! * cols
    out.set(data.subarray(from, from + cols), p * cols)
  }
  return out
}
