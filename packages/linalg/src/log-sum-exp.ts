/**
 * log Σ exp(v), without overflow and without losing what underflows beside nothing.
 *
 * The largest term is taken out first, so the largest exponential is 1. Sums run from low index to high. Exponents
 * below −708 count as that: beside 1 either is nothing, and exp need not go below the normal numbers.
 */
import { exp, log } from '@oddflow/core'

const LOWEST_EXPONENT = -708

/** log Σ exp(values[i]) over start … start + length; −Infinity when all are, or when there are none. */
export function logSumExp(values: Float64Array, start: number, length: number): number {
  let largest = Number.NEGATIVE_INFINITY
  const end = start + length
  for (let i = start; i < end; i++) if (values[i]! > largest) largest = values[i]!
  if (!Number.isFinite(largest)) return largest
  let sum = 0
  for (let i = start; i < end; i++) sum += exp(Math.max(values[i]! - largest, LOWEST_EXPONENT))
  return largest + log(sum)
}
