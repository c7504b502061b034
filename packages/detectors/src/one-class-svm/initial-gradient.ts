/**
 * The starting point and its gradient G = Kα.
 *
 * As in libsvm the first ⌊ν·n⌋ coefficients are 1 and the next takes the fraction that is left. The kernel
 * rows of these seeds are most of the work of a whole fit, so their square is computed once and used for
 * both of its triangles: s·(n − s/2) kernel values for s = ν·n seeds instead of s·n. When the cache has room
 * for the seeds' rows they are left in it; when it has room for all rows, so are the leading columns of the
 * others.
 *
 * Each gradient is summed in the order of the seeds, as libsvm sums it, whichever triangle a value comes from. Rows that
 * are equal then have equal gradients to the last bit, and working-set selection, which breaks ties by place, takes the
 * one that libsvm takes: with another order the last bits decide between copies, and another path ends at another
 * point within the tolerance (docs/results/golden-svm.md).
 *
 * Blocks are small enough to be still in the processor's cache when they are added up, and tall enough that a
 * mirrored block fills a good part of each memory page that it touches.
 */
import type { Matrix } from '@oddflow/core'
import type { PreparedKernel } from './kernel.js'
import type { KernelCache, KernelValues } from './kernel-cache.js'
import { createKernelColumns } from './kernel-columns.js'

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
export function copyRange(
  a: Float64Array,
  aStart: number,
  length: number,
  b: KernelValues,
  bStart: number,
): void {
  for (let j = 0; j < length; j++) b[bStart + j] = a[aStart + j]!
}
