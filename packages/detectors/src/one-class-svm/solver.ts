/**
 * Sequential minimal optimisation of the one-class dual (Platt 1999; the arithmetic of a step is libsvm's,
 * Chang and Lin, "LIBSVM: a library for support vector machines", section 4.1, all labels +1 and C = 1).
 *
 * A step moves two coefficients against each other, so that their sum stays, to the minimum along that line
 * or to the edge of [0, 1]. It is done when no pair violates the conditions of optimality by `tolerance`:
 * min {G_i : α_i < 1} ≥ max {G_j : α_j > 0} − tolerance.
 *
 * Left out of libsvm: its early second look at the rows left out when ten tolerances away. The state belongs
 * to the caller, and nothing is random.
 */
import type { Matrix } from '@oddflow/core'
import type { ActiveSet } from './active-set.js'
import type { PreparedKernel } from './kernel.js'
import type { KernelCache, KernelValues } from './kernel-cache.js'
import type { SvmStop } from './model.js'
import { RowSource } from './row-source.js'
import { shrink, unshrink } from './shrinking.js'
import { type FallingChoice, LEAST_CURVATURE, selectFalling, selectRising } from './working-set.js'

export interface SolverLimits {
  readonly tolerance: number
  readonly maximumSteps: number
  readonly shrinking: boolean
  /** Whether SIMD kernels may be used where there are any. */
  readonly simd: boolean
}

export interface SolverOutcome {
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
