/**
 * The generalized Pareto distribution, which approximates the excesses of almost any distribution over a high bound
 * (Pickands, Annals of Statistics 3, 1975): P(Y > y) = (1 + ξ y / σ)^(−1/ξ), for ξ = 0 exp(−y / σ).
 *
 * The estimator is that of Zhang and Stephens (Technometrics 51, 2009): the mean of θ = −ξ/σ over its profile
 * likelihood, on a grid of 20 + √n values. It exists for every sample and needs no iteration.
 */
import { ArgumentError, createRng, exp, log, type Rng } from '@oddflow/core'
import { checkTailScores, type TailScores } from './tail-scores.js'
import { conformalRank, nextDown, rowsNeeded } from './threshold.js'

/**
 * Exact intervals for rates with few counted cases: Garwood (Biometrika 28, 1936) for a Poisson mean, Clopper and
 * Pearson (Biometrika 26, 1934) for a share. Above MAXIMUM_EXACT by Wilson and Hilferty's cube root, right to five
 * digits there.
 *
 * The share of a continuous distribution below the r-th smallest of n draws is Beta(r, n + 1 − r), and P(Beta(r, n + 1
 * − r) ≤ x) = P(Binomial(n, x) ≥ r).
 */

export interface Interval {
  readonly low: number
  readonly high: number
}

/** The 97.5 % quantile of the standard normal distribution. */
const Z = 1.959963984540054
const SIDE = 0.025
const MAXIMUM_EXACT = 4096

/** 95 % interval for the mean of a Poisson variable with observed value `count`. */
export function poissonInterval(count: number): Interval {
  if (count > MAXIMUM_EXACT) return { low: cubeRoot(count, -Z), high: cubeRoot(count + 1, Z) }
  const widest = count + 10 + 5 * Math.sqrt(count + 1)
  return {
    // P(X ≥ count) grows with the mean, P(X ≤ count) falls
    low: count === 0 ? 0 : solve(widest, (mean) => 1 - poissonBelow(count, mean) - SIDE),
    high: solve(widest, (mean) => SIDE - poissonBelow(count + 1, mean)),
  }
}

/** 95 % interval for a share with `count` cases in `trials` (1 or more). */
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

/**
 * The alert budget: B false alerts a day at f flows a day are a false-positive rate α = B / f. Its threshold comes from
 * the scores of n normal flows that the fit has not seen, by the first possible method:
 *
 * - `conformal`, if n ≥ 1/α − 1: the r-th smallest score, r = ⌊α (n + 1)⌋ (threshold.ts), for any distribution;
 * - `tail`, if n ≥ 500 and n ≥ 1/(10 α) − 1: a generalized Pareto fit to the lowest scores, which must pass a test.
 *
 * Otherwise the budget is refused, with the number of flows it needs.
 */

/** A tenth of all flows: beyond that, flagged flows are not unusual. */
export const MAXIMUM_RATE = 0.1

/** A tail fit is used for rates down to 1 / (MAXIMUM_REACH · (n + 1)). */
export const MAXIMUM_REACH = 10

/** A threshold for a false-positive rate, and how it was found. */
export interface BudgetThreshold {
  readonly method: 'conformal' | 'tail'
  /** Novel iff score ≤ value. */
  readonly value: number
  /** α that was asked for. */
  readonly rate: number
  /** The chance of a false alarm: the bound r / (n + 1) (conformal), or the mean under the fit (tail). */
  readonly expectedRate: number
  /** Contains the rate of 95 % of such calibrations (for continuous scores; ties lower the rate). */
  readonly interval: Interval
}

/** A rate for which the calibration rows support no threshold. */
export interface BudgetRefusal {
  readonly method: 'refused'
  readonly rate: number
  /** Why, as the end of a sentence. */
  readonly reason: string
  /** The fewest flows for the conformal method. */
  readonly rowsNeeded: number
  /** The fewest flows for a tail fit; null if one was made and failed its test. */
  readonly tailRowsNeeded: number | null
}

/** The threshold for a rate, or why there is none. */
export type BudgetDecision = BudgetThreshold | BudgetRefusal

/** Held-out scores from which thresholds for false-positive rates are read. */
export interface BudgetCalibration {
  readonly rows: number
  /** The threshold for a rate in (0, 1). Throws ArgumentError for other rates. */
  at(rate: number): BudgetDecision
}

/** Draws of the bootstrap: the same scores give the same threshold on every machine. */
const SEED = 1_951

/** The tail is fitted when a rate first needs it. Throws ArgumentError for invalid scores. */
export function createBudgetCalibration(scores: TailScores): BudgetCalibration {
  checkTailScores(scores)
  const rows = scores.count
  let fit: TailFit | null | undefined
  return {
    rows,
    at(asked) {
      if (!(asked > 0 && asked < 1)) {
        throw new ArgumentError(`rate: expected a number above 0 and below 1, found ${asked}`, 'rate')
      }
      const rate = Math.max(1e-9, Math.min(asked, MAXIMUM_RATE))
      const needed = rowsNeeded(rate)
      if (rows >= needed) return conformal(scores, rate)
      const tailRowsNeeded = Math.max(LEAST_TAIL_ROWS, Math.ceil(1 / (MAXIMUM_REACH * rate)) - 1)
      const refuse = (reason: string, tailRows: number | null): BudgetRefusal => ({
        method: 'refused',
        rate,
        reason,
        rowsNeeded: needed,
        tailRowsNeeded: tailRows,
      })
      if (rows < tailRowsNeeded) return refuse('there are too few flows', tailRowsNeeded)
      if (fit === undefined) fit = fitTail(scores, createRng(SEED))
      if (fit === null) return refuse('too many of the lowest scores are equal to fit a tail to them', null)
      if (!fit.isGood) {
        return refuse(
          `the tail of the scores is not one that can be continued (Anderson-Darling p = ${fit.pValue})`,
          null,
        )
      }
      const quantile = tailQuantile(fit, rate)
      if (quantile === null) return refuse('the end of the score tail is unknown', null)
      const { value, low, high } = quantile
      return { method: 'tail', value, rate, expectedRate: rate, interval: { low, high } }
    },
  }
}

/** The false-positive rate of a budget, below 1. Throws ArgumentError for an invalid budget. */
export function budgetRate(falseAlertsPerDay: number, flowsPerDay: number): number {
  for (const [name, value] of Object.entries({ falseAlertsPerDay, flowsPerDay })) {
    if (!(value > 0 && value < Number.POSITIVE_INFINITY)) {
      throw new ArgumentError(`${name}: expected a number above 0, found ${value}`, name)
    }
  }
  return Math.max(1e-9, Math.min(falseAlertsPerDay / flowsPerDay, MAXIMUM_RATE))
}

function conformal({ count, lowest }: TailScores, rate: number): BudgetThreshold {
  // a rank beyond the stored scores: uses the last of them, which flags less
  const rank = Math.min(lowest.length, conformalRank(count, rate))
  return {
    method: 'conformal',
    value: nextDown(lowest[rank - 1]!),
    rate,
    expectedRate: rank / (count + 1),
    interval: orderStatisticInterval(count, rank),
  }
}

interface GeneralisedPareto {
  /** ξ. */
  readonly shape: number
  /** σ > 0. */
  readonly scale: number
}

/** Smaller shapes count as 0, where both formulas agree up to rounding. */
const NO_SHAPE = 1e-9

/** `excesses`: positive, ascending, 2 or more. */
export function fitGeneralisedPareto(excesses: Float64Array): GeneralisedPareto {
  const n = excesses.length
  const largest = excesses[n - 1]!
  const quartile = excesses[Math.max(0, Math.floor(n / 4 + 0.5) - 1)]!
  const points = 20 + Math.floor(Math.sqrt(n))
  const thetas = new Float64Array(points)
  const logLikelihoods = new Float64Array(points)
  let highest = Number.NEGATIVE_INFINITY
  for (let j = 0; j < points; j++) {
    const theta = 1 / largest + (1 - Math.sqrt(points / (j + 0.5))) / (3 * quartile)
    thetas[j] = theta
    logLikelihoods[j] = profileLogLikelihood(excesses, theta)
    highest = Math.max(highest, logLikelihoods[j]!)
  }
  let sum = 0
  let weighted = 0
  for (let j = 0; j < points; j++) {
    const weight = exp(logLikelihoods[j]! - highest)
    sum += weight
    weighted += weight * thetas[j]!
  }
  const theta = weighted / sum
  const shape = shapeAt(excesses, theta)
  // θ = 0 is the exponential distribution, whose scale is the mean
  const scale = Math.abs(theta * largest) < NO_SHAPE ? meanOf(excesses) : -shape / theta
  return { shape, scale }
}

/** log P(Y > y); −Infinity at and beyond the end of a bounded tail. */
export function logSurvival({ shape, scale }: GeneralisedPareto, excess: number): number {
  if (Math.abs(shape) < NO_SHAPE) return -excess / scale
  const inner = 1 + (shape * excess) / scale
  return inner > 0 ? -log(inner) / shape : Number.NEGATIVE_INFINITY
}

/** The excess y with P(Y > y) = share, 0 < share ≤ 1. */
export function excessAt({ shape, scale }: GeneralisedPareto, share: number): number {
  const logShare = log(share)
  if (Math.abs(shape) < NO_SHAPE) return -scale * logShare
  return (scale / shape) * (exp(-shape * logShare) - 1)
}

/** The maximum-likelihood ξ for a given θ: the mean of log(1 − θ y). */
function shapeAt(excesses: Float64Array, theta: number): number {
  let sum = 0
  for (let i = 0; i < excesses.length; i++) sum += log(1 - theta * excesses[i]!)
  return sum / excesses.length
}

/** n (log(−θ/ξ) − ξ − 1); the ratio is 1/mean where both are 0. */
function profileLogLikelihood(excesses: Float64Array, theta: number): number {
  const shape = shapeAt(excesses, theta)
  const ratio = -theta / shape
  const inverseScale = ratio > 0 && Number.isFinite(ratio) ? ratio : 1 / meanOf(excesses)
  return excesses.length * (log(inverseScale) - shape - 1)
}

function meanOf(values: Float64Array): number {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]!
  return sum / values.length
}

/**
 * TailFit: the probability of scores below all observed ones.
 *
 * Peaks over threshold (Davison and Smith, JRSS B 52, 1990): a generalized Pareto distribution of the k lowest scores
 * as excesses below the next one, p ≈ (k + 1)/(n + 1) the share below that bound. 199 replicates, simulated from the
 * fit and fitted alike, answer two questions:
 *
 * - *Does the tail belong to this family?* The Anderson-Darling statistic against those of the replicates (parametric
 *   bootstrap: Stute et al., Metrika 40, 1993); p below 5 % refuses the fit.
 * - *What is the error of a fit to few excesses?* A threshold at the fitted quantile for α flags more on average, so
 *   the largest smaller level is used at which the replicates' thresholds flag α on average (Beran, Biometrika 77,
 *   1990).
 */

const LEAST_EXCESSES = 50
const MOST_EXCESSES = 250
const TAIL_SHARE = 0.1
const REPLICATES = 199
const LEAST_P_VALUE = 0.05

/** Fewer scores have no tail to fit. */
const LEAST_TAIL_ROWS = LEAST_EXCESSES / TAIL_SHARE

interface TailFit {
  readonly rows: number
  readonly excesses: number
  /** Scores below it are the tail. */
  readonly bound: number
  /** p, the share of scores below the bound. */
  readonly share: number
  readonly distribution: GeneralisedPareto
  /** Of the Anderson-Darling test. */
  readonly pValue: number
  readonly isGood: boolean
  readonly replicates: readonly Replicate[]
}

interface Replicate {
  readonly share: number
  readonly distribution: GeneralisedPareto
}

/** null with too few scores, or too few different ones. */
function fitTail({ count, lowest }: TailScores, rng: Rng): TailFit | null {
  const wanted = Math.min(MOST_EXCESSES, Math.floor(TAIL_SHARE * count), lowest.length - 1)
  if (wanted < LEAST_EXCESSES) return null
  const bound = lowest[wanted]!
  let k = wanted
  while (k > 0 && lowest[k - 1] === bound) k--
  if (k < LEAST_EXCESSES) return null
  const excesses = Float64Array.from({ length: k }, (_, i) => bound - lowest[k - 1 - i]!)
  const distribution = fitGeneralisedPareto(excesses)
  if (!isSound(distribution)) return null
  const share = (k + 1) / (count + 1)
  const statistic = andersonDarling(excesses, distribution)
  const replicates: Replicate[] = []
  let atLeast = 1
  for (let r = 0; r < REPLICATES; r++) {
    const drawn = drawExcesses(distribution, k, rng)
    const fitted = fitGeneralisedPareto(drawn)
    if (!isSound(fitted)) return null
    if (andersonDarling(drawn, fitted) >= statistic) atLeast++
    replicates.push({ share: (share * drawGamma(k + 1, rng)) / (k + 1), distribution: fitted })
  }
  const pValue = atLeast / (REPLICATES + 1)
  return {
    rows: count,
    excesses: k,
    bound,
    share,
    distribution,
    pValue,
    isGood: pValue >= LEAST_P_VALUE,
    replicates,
  }
}

interface TailQuantile {
  /** The score that a share `rate` of scores does not exceed, on average over possible samples. */
  readonly value: number
  /** What the fit alone would say of the share. */
  readonly level: number
  /** The share's 2.5 % and 97.5 % quantiles over the replicates. */
  readonly low: number
  readonly high: number
}

/** Levels tried go down to rate / 2^LEVEL_HALVINGS. */
const LEVEL_HALVINGS = 10

/** null if no level keeps the rate: a bounded tail whose end the sample does not show. `rate` < share. */
function tailQuantile(fit: TailFit, rate: number): TailQuantile | null {
  const rates = new Float64Array(fit.replicates.length)
  const meanAt = (level: number): number => {
    let sum = 0
    for (const [r, { share, distribution }] of fit.replicates.entries()) {
      const excess = excessAt(distribution, Math.min(1, level / fit.share))
      rates[r] = share * exp(logSurvival(fit.distribution, excess))
      sum += rates[r]!
    }
    return sum / rates.length
  }
  let low = -LEVEL_HALVINGS * log(2)
  if (meanAt(rate * exp(low)) > rate) return null
  let high = 0
  if (meanAt(rate) <= rate) low = high
  for (let step = 0; step < 30 && low < high; step++) {
    const middle = (low + high) / 2
    if (meanAt(rate * exp(middle)) <= rate) low = middle
    else high = middle
  }
  const level = rate * exp(low)
  meanAt(level)
  const sorted = rates.slice().sort()
  const value = fit.bound - excessAt(fit.distribution, level / fit.share)
  if (!Number.isFinite(value)) return null
  const at = (share: number): number => sorted[Math.floor(share * sorted.length)]!
  return { value, level, low: at(0.025), high: at(0.975) }
}

/** A² = −k − Σ (2i − 1)/k · (log F(y_i) + log(1 − F(y_(k+1−i)))) over the ascending excesses y. */
function andersonDarling(excesses: Float64Array, distribution: GeneralisedPareto): number {
  const k = excesses.length
  const logSurvivals = excesses.map((excess) => logSurvival(distribution, excess))
  let sum = 0
  for (let i = 0; i < k; i++) {
    sum += (2 * i + 1) * (log(1 - exp(logSurvivals[i]!)) + logSurvivals[k - 1 - i]!)
  }
  return -k - sum / k
}

function drawExcesses(distribution: GeneralisedPareto, k: number, rng: Rng): Float64Array {
  const drawn = new Float64Array(k)
  for (let i = 0; i < k; i++) drawn[i] = excessAt(distribution, 1 - rng.nextFloat())
  drawn.sort()
  // a draw of exactly 0 is no excess
  for (let i = 0; i < k && drawn[i]! <= 0; i++) drawn[i] = Number.MIN_VALUE
  return drawn
}

/** Gamma of a whole shape: a sum of exponential draws. */
function drawGamma(shape: number, rng: Rng): number {
  let sum = 0
  for (let i = 0; i < shape; i++) sum -= log(1 - rng.nextFloat())
  return sum
}

function isSound({ shape, scale }: GeneralisedPareto): boolean {
  return Number.isFinite(shape) && Number.isFinite(scale) && scale > 0
}
