/**
 * Intervals for rates of which few cases were counted, where an interval of the normal distribution would reach
 * below 0.
 *
 * `poissonInterval`: Garwood (Biometrika 28, 1936), exact: the means λ under which the count, or one further out,
 * has at least 2.5 % probability on either side. Above MAXIMUM_EXACT the gamma quantiles that these are come from
 * Wilson and Hilferty's cube root, there good to five digits.
 *
 * `binomialInterval`: Clopper and Pearson (Biometrika 26, 1934), exact: the same for the share of so many trials.
 *
 * `orderStatisticInterval`: the share of a continuous distribution below the r-th smallest of n draws is
 * Beta(r, n + 1 − r); its quantiles are found through P(Beta(r, n + 1 − r) ≤ x) = P(Binomial(n, x) ≥ r).
 */
import { exp, log } from '@oddflow/core'

export interface Interval {
  readonly low: number
  readonly high: number
}

/** The 97.5 % quantile of the standard normal distribution. */
const Z = 1.959963984540054
const SIDE = 0.025
const MAXIMUM_EXACT = 4096

/** 95 % interval for the mean of a Poisson variable of which `count` was observed. */
export function poissonInterval(count: number): Interval {
  if (count > MAXIMUM_EXACT) return { low: cubeRoot(count, -Z), high: cubeRoot(count + 1, Z) }
  const widest = count + 10 + 5 * Math.sqrt(count + 1)
  return {
    // P(X ≥ count) grows with the mean, P(X ≤ count) falls
    low: count === 0 ? 0 : solve(widest, (mean) => 1 - poissonBelow(count, mean) - SIDE),
    high: solve(widest, (mean) => SIDE - poissonBelow(count + 1, mean)),
  }
}

/** 95 % interval for the share of which `count` in `trials` was observed; 1 trial or more. */
export function binomialInterval(count: number, trials: number): Interval {
  return {
    low: count === 0 ? 0 : orderStatisticInterval(trials, count).low,
    high: count === trials ? 1 : orderStatisticInterval(trials, count + 1).high,
  }
}

/** 95 % interval for the share of a continuous distribution below the `rank`-th smallest of `rows` draws. */
export function orderStatisticInterval(rows: number, rank: number): Interval {
  if (rank > MAXIMUM_EXACT) {
    return { low: cubeRoot(rank, -Z) / (rows + 1), high: Math.min(1, cubeRoot(rank, Z) / (rows + 1)) }
  }
  return {
    low: solve(1, (share) => 1 - binomialBelow(rows, rank, share) - SIDE),
    high: solve(1, (share) => 1 - binomialBelow(rows, rank, share) - (1 - SIDE)),
  }
}

function cubeRoot(count: number, z: number): number {
  const root = 1 - 1 / (9 * count) + z / (3 * Math.sqrt(count))
  return count * root * root * root
}

/** P(Poisson(mean) < count). */
function poissonBelow(count: number, mean: number): number {
  if (mean <= 0) return 1
  const logMean = log(mean)
  let logTerm = -mean
  let sum = 0
  for (let i = 0; i < count; i++) {
    if (i > 0) logTerm += logMean - log(i)
    sum += exp(logTerm)
  }
  return Math.min(1, sum)
}

/** P(Binomial(trials, share) < count). */
function binomialBelow(trials: number, count: number, share: number): number {
  if (share <= 0) return 1
  if (share >= 1) return count > trials ? 1 : 0
  const logOdds = log(share) - log(1 - share)
  let logTerm = trials * log(1 - share)
  let sum = 0
  for (let i = 0; i < count && i <= trials; i++) {
    if (i > 0) logTerm += logOdds + log(trials - i + 1) - log(i)
    sum += exp(logTerm)
  }
  return Math.min(1, sum)
}

/** The zero of an ascending function between 0 and `high`. */
function solve(high: number, of: (x: number) => number): number {
  let low = 0
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2
    if (of(middle) < 0) low = middle
    else high = middle
  }
  return (low + high) / 2
}
