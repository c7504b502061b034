/**
 * Sequential minimal optimisation of the one-class dual (Platt 1999; the arithmetic of a step is libsvm's, Chang and
 * Lin, section 4.1, all labels +1 and C = 1): a step moves two coefficients against each other, to the minimum along
 * that line or to the edge of [0, 1], until min {G_i : α_i < 1} ≥ max {G_j : α_j > 0} − tolerance.
 */
import type { Matrix } from '@oddflow/core'
import { type ActiveSet, addScaled, type KernelCache, type KernelValues, RowSource } from './active-set.js'
import type { SvmStop } from './fit.js'
import { KERNEL_BLOCK_COLUMNS, KERNEL_TILE_ROWS, type PreparedKernel, svmKernelRows } from './kernel.js'

/**
 * ρ from a solution: the mean gradient of the rows with 0 < α < 1, where f is 0, or the middle of the gap between the
 * bounds when there are none, as in libsvm. With ν = 1 the least optimal ρ is taken, which leaves a training row on the
 * boundary.
 */
export function offsetOf(alpha: Float64Array, gradient: Float64Array): number {
  let lower = Number.NEGATIVE_INFINITY
  let upper = Number.POSITIVE_INFINITY
  let sum = 0
  let free = 0
  for (let i = 0; i < alpha.length; i++) {
    const a = alpha[i]!
    const g = gradient[i]!
    if (a >= 1) lower = Math.max(lower, g)
    else if (a <= 0) upper = Math.min(upper, g)
    else {
      sum += g
      free++
    }
  }
  if (free > 0) return sum / free
  return upper === Number.POSITIVE_INFINITY ? lower : (lower + upper) / 2
}

/**
 * Working-set selection by second-order information (Fan, Chen, Lin, JMLR 6, 2005; WSS 2 of libsvm): i is the row of
 * least G that may grow (α < 1); j, among those that may shrink (α > 0), has the largest (G_j − G_i)² / (K_ii + K_jj −
 * 2K_ij). Ties go to the later row, as in libsvm.
 */

/** Stands for a curvature that is not positive: two rows that are the same to the kernel. */
const LEAST_CURVATURE = 1e-12

/** Position of least gradient with alpha < 1 among the first `count`, or −1. */
function selectRising(alpha: Float64Array, gradient: Float64Array, count: number): number {
  let best = -1
  let least = Number.POSITIVE_INFINITY
  for (let p = 0; p < count; p++) {
    const g = gradient[p]!
    if (g <= least && alpha[p]! < 1) {
      least = g
      best = p
    }
  }
  return best
}

/** What `selectFalling` finds; made once, filled at every step. */
interface FallingChoice {
  /** j, or −1 when no row violates optimality beside i. */
  position: number
  /** The largest gradient with alpha > 0; −Infinity when there is none. */
  greatest: number
}

/** `row` from rowStart on holds K(x_i, ·); `rising` is i, and when that is −1 nothing is found. */
function selectFalling(
  rising: number,
  row: KernelValues,
  rowStart: number,
  alpha: Float64Array,
  gradient: Float64Array,
  diagonal: Float64Array,
  count: number,
  choice: FallingChoice,
): void {
  choice.position = -1
  choice.greatest = Number.NEGATIVE_INFINITY
  if (rising < 0) return
  const least = gradient[rising]!
  const ownDiagonal = diagonal[rising]!
  let greatest = Number.NEGATIVE_INFINITY
  let position = -1
  let bestGain = 0
  for (let p = 0; p < count; p++) {
    if (!(alpha[p]! > 0)) continue
    const g = gradient[p]!
    if (g > greatest) greatest = g
    const difference = g - least
    if (difference > 0) {
      const curvature = ownDiagonal + diagonal[p]! - 2 * row[rowStart + p]!
      const gain = (difference * difference) / (curvature > 0 ? curvature : LEAST_CURVATURE)
      if (gain >= bestGain) {
        bestGain = gain
        position = p
      }
    }
  }
  choice.position = position
  choice.greatest = greatest
}

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

/** Below this share of the active rows, leaving rows out does not pay for gathering the cache. */
const LEAST_SHARE = 0.1

/**
 * Leaves out what will keep its bound. Returns whether it did: not when too few rows would go or fewer than
 * two would stay.
 */
function shrink(active: ActiveSet, cache: KernelCache): boolean {
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
function unshrink(active: ActiveSet, cache: KernelCache, kernel: PreparedKernel, rows: Matrix): void {
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

interface SolverLimits {
  readonly tolerance: number
  readonly maximumSteps: number
  readonly shrinking: boolean
  /** Whether SIMD kernels may be used where there are any. */
  readonly simd: boolean
}

interface SolverOutcome {
  readonly stop: SvmStop
  readonly iterations: number
  readonly violation: number
  readonly kernelRows: number
  readonly shrinkings: number
}

/** Differences between gradients below this share of them are rounding. */
const RESOLUTION = 1 / 17592186044416 // 2^−44

/** Solves in place; all rows are active when it returns. */
export function solve(
  active: ActiveSet,
  kernel: PreparedKernel,
  rows: Matrix,
  cache: KernelCache,
  { tolerance, maximumSteps, shrinking, simd }: SolverLimits,
): SolverOutcome {
  const interval = shrinkInterval(rows.rows, cache)
  const choice: FallingChoice = { position: -1, greatest: 0 }
  let iterations = 0
  const source = new RowSource(kernel, active, cache, simd)
  let shrinkings = 0
  let untilShrink = interval
  for (;;) {
    const { count, alpha, gradient, diagonal } = active
    const i = selectRising(alpha, gradient, count)
    const iRow = i < 0 ? 0 : source.row(i, 'rising')
    selectFalling(i, cache.data, iRow, alpha, gradient, diagonal, count, choice)
    const { position: j, greatest } = choice
    const violation = j < 0 ? 0 : greatest - gradient[i]!
    let stop: SvmStop | undefined
    if (violation < tolerance) stop = 'tolerance'
    else if (violation <= RESOLUTION * Math.abs(greatest)) stop = 'resolution'
    else if (iterations >= maximumSteps) stop = 'steps'
    else {
      const jRow = source.row(j, 'falling')
      if (movePair(active, i, j, cache.data, iRow, jRow)) iterations++
      else stop = 'resolution'
    }
    if (stop !== undefined) {
      if (active.inactive === undefined) {
        return { stop, iterations, violation, kernelRows: source.computed, shrinkings }
      }
      unshrink(active, cache, kernel, rows)
      untilShrink = interval
    } else if (shrinking && --untilShrink === 0) {
      if (shrink(active, cache)) shrinkings++
      untilShrink = interval
    }
  }
}

/**
 * Steps between looks at what can be left out: libsvm's min(n, 1000), but not before n steps when the cache
 * holds every row, for then a step is cheap, and making up at the end costs about as much as n of them.
 */
function shrinkInterval(n: number, cache: KernelCache): number {
  return cache.complete ? Math.max(n, 1000) : Math.min(n, 1000)
}

/**
 * The best move of α_i against α_j; their kernel rows stand in `kernelRows` from iRow and jRow on. Returns
 * false when it is too small to change either.
 */
function movePair(
  { alpha, gradient, diagonal, count }: ActiveSet,
  i: number,
  j: number,
  kernelRows: KernelValues,
  iRow: number,
  jRow: number,
): boolean {
  const oldI = alpha[i]!
  const oldJ = alpha[j]!
  const curvature = diagonal[i]! + diagonal[j]! - 2 * kernelRows[iRow + j]!
  const move = (gradient[j]! - gradient[i]!) / (curvature > 0 ? curvature : LEAST_CURVATURE)
  const sum = oldI + oldJ
  let newI = oldI + move
  let newJ = oldJ - move
  if (sum > 1) {
    if (newI > 1) {
      newI = 1
      newJ = sum - 1
    }
  } else if (newJ < 0) {
    newJ = 0
    newI = sum
  }
  if (newI === oldI && newJ === oldJ) return false
  alpha[i] = newI
  alpha[j] = newJ
  addTwoScaled(newI - oldI, kernelRows, iRow, newJ - oldJ, jRow, gradient, count)
  return true
}

/** target[p] += a · rows[aStart + p] + b · rows[bStart + p] for p < count. */
function addTwoScaled(
  a: number,
  rows: KernelValues,
  aStart: number,
  b: number,
  bStart: number,
  target: Float64Array,
  count: number,
): void {
  for (let p = 0; p < count; p++) target[p]! += a * rows[aStart + p]! + b * rows[bStart + p]!
}
