/**
 * fitOneClassSvm: rows in, model out. Checks what it is given, starts, solves, and keeps what scoring needs.
 *
 * Rows are taken as they are (scaling is the caller's). Nothing is random: the same rows in the same order
 * give the same bits; another order gives another solution within the tolerance.
 */
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  DataError,
  type Matrix,
  type MatrixLike,
  takeRows,
} from '@oddflow/core'
import { createActiveSet } from './active-set.js'
import { initialCoefficients, initialGradient } from './initial-gradient.js'
import { kernelDiagonal, prepareKernel } from './kernel.js'
import { KernelCache } from './kernel-cache.js'
import type { OneClassSvmModel, OneClassSvmOptions } from './model.js'
import { offsetOf } from './offset.js'
import { solve } from './solver.js'

export const DEFAULT_SVM_TOLERANCE = 1e-3
export const DEFAULT_SVM_CACHE_BYTES = 200_000_000

/**
 * Fits to `rows` (n × D, n ≥ 1, D ≥ 1). Throws ArgumentError naming the option, or the first value that is
 * not finite, and DataError when there are no rows or they are too large for a linear kernel.
 */
export function fitOneClassSvm(input: Matrix | MatrixLike, options: OneClassSvmOptions): OneClassSvmModel {
  const rows = asMatrix(input)
  const { nu, kernel: asked } = options
  const limits = checkOptions(options, rows.rows)
  const { precision } = limits
  const kernel = prepareKernel(asked, precision)
  if (rows.rows === 0 || rows.cols === 0) {
    throw new DataError(`rows: expected at least 1 × 1, found ${rows.rows} × ${rows.cols}`, 'rows')
  }
  checkFinite(rows, 'rows')
  const diagonal = kernelDiagonal(kernel, rows)
  const cache = new KernelCache(rows.rows, limits.cacheBytes, precision)
  const alpha = initialCoefficients(rows.rows, nu)
  const gradient = initialGradient(kernel, rows, alpha, cache, limits.simd)
  const { stop, ...figures } = solve(
    createActiveSet(rows, alpha, gradient, diagonal),
    kernel,
    rows,
    cache,
    limits,
  )
  const chosen: number[] = []
  let bound = 0
  let twiceObjective = 0
  alpha.forEach((a, i) => {
    if (a <= 0) return
    chosen.push(i)
    if (a >= 1) bound++
    twiceObjective += a * gradient[i]!
  })
  return {
    kernel: asked.kind === 'rbf' ? { kind: 'rbf', bandwidth: asked.bandwidth } : { kind: 'linear' },
    nu,
    supportVectors: takeRows(rows, chosen),
    dualCoefficients: Float64Array.from(chosen, (i) => alpha[i]!),
    offset: offsetOf(alpha, gradient),
    report: {
      precision,
      n: rows.rows,
      supportVectors: chosen.length,
      boundSupportVectors: bound,
      objective: twiceObjective / 2,
      converged: stop !== 'steps',
      stop,
      ...figures,
    },
  }
}

function checkOptions(options: OneClassSvmOptions, n: number) {
  const {
    nu,
    tolerance = DEFAULT_SVM_TOLERANCE,
    maximumSteps = Math.max(1e7, 100 * n),
    cacheBytes = DEFAULT_SVM_CACHE_BYTES,
    precision = options.kernel?.kind === 'linear' ? 'float64' : 'float32',
    shrinking = true,
    simd = true,
  } = options
  const check = (field: string, found: unknown, right: boolean, expected: string) => {
    if (!right) throw new ArgumentError(`${field}: expected ${expected}, found ${found}`, field)
  }
  check('nu', nu, typeof nu === 'number' && nu > 0 && nu <= 1, 'a number above 0, at most 1')
  check('tolerance', tolerance, tolerance > 0 && Number.isFinite(tolerance), 'a positive number')
  check(
    'maximumSteps',
    maximumSteps,
    Number.isSafeInteger(maximumSteps) && maximumSteps >= 0,
    'a whole number of 0 or more',
  )
  check('cacheBytes', cacheBytes, cacheBytes >= 0 && Number.isFinite(cacheBytes), 'a number of 0 or more')
  check('shrinking', shrinking, typeof shrinking === 'boolean', 'true or false')
  check('precision', precision, precision === 'float32' || precision === 'float64', 'float32 or float64')
  check('simd', simd, typeof simd === 'boolean', 'true or false')
  return { tolerance, maximumSteps, cacheBytes, precision, shrinking, simd }
}
