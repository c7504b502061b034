/**
 * log Σ exp(v), without overflow and without losing what underflows beside nothing.
 *
 * The largest term is taken out first, so the largest exponential is 1. Sums run from low index to high. Terms
 * lower than the largest by more than 60 are left out: e^−60 is 2^−87, and a thousand million of them are lost beside 1.
 */
import { exp, log } from '@oddflow/core'

const LOWEST_EXPONENT = -60

/** log Σ exp(values[i]) over start … start + length; −Infinity when all are, or when there are none. */
export function logSumExp(values: Float64Array, start: number, length: number): number {
  let largest = Number.NEGATIVE_INFINITY
  const end = start + length
  for (let i = start; i < end; i++) if (values[i]! > largest) largest = values[i]!
  if (!Number.isFinite(largest)) return largest
  let sum = 0
  for (let i = start; i < end; i++) {
    const exponent = values[i]! - largest
    if (!(exponent < LOWEST_EXPONENT)) sum += exp(exponent)
  }
  return largest + log(sum)
}
