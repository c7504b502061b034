/**
 * TailFit: how likely scores are that lie below all those that were seen, as far as that can be told.
 *
 * Peaks over threshold (Davison and Smith, JRSS B 52, 1990): the k lowest scores, k a tenth of all and from 50 to
 * 250, as excesses below the next one; a generalised Pareto distribution for them (generalised-pareto.ts). Below
 * the bound lies a share p ≈ (k + 1)/(n + 1) of all scores, and below the bound by y more p · P(Y > y).
 *
 * Two doubts are met by simulation from the fit itself, each replicate fitted as the sample was:
 *
 * - *Is the tail of that family at all?* The Anderson-Darling statistic of the sample, which weighs the far end,
 *   against that of the replicates (the parametric bootstrap, as the parameters are estimated: Stute, Gonzáles
 *   Manteiga and Presedo Quindimil, Metrika 40, 1993). A p-value below 5 % refuses the fit. Scores that repeat
 *   (equal flows) are no draws of a continuous distribution; where they are many they are refused here.
 * - *How wrong is a fit of so few excesses?* A quantile put where the fit says α is passed by more than α on
 *   average, since errors towards "too rare" cost more than those towards "too often" save. So the quantile is
 *   taken at a smaller level, the largest at which the replicates' quantiles are passed by α on average
 *   under the fit (calibration by the bootstrap: Beran, Biometrika 77, 1990). p is drawn with them, from its gamma
 *   approximation.
 *
 * 199 replicates; the draws come from the caller's Rng.
 */
import { exp, log, type Rng } from '@oddflow/core'
import { excessAt, fitGeneralisedPareto, type GeneralisedPareto, logSurvival } from './generalised-pareto.js'
import type { TailScores } from './tail-scores.js'

export const LEAST_EXCESSES = 50
const MOST_EXCESSES = 250
const TAIL_SHARE = 0.1
const REPLICATES = 199
const LEAST_P_VALUE = 0.05

/** Fewer scores have no tail to fit. */
export const LEAST_TAIL_ROWS = LEAST_EXCESSES / TAIL_SHARE

export interface TailFit {
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

/** null where there are too few scores, or too few different ones. */
export function fitTail({ count, lowest }: TailScores, rng: Rng): TailFit | null {
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

export interface TailQuantile {
  /** A share `rate` of scores lies at or below it, on average over the samples that could have been. */
  readonly value: number
  /** What the fit alone would say of the share. */
  readonly level: number
  /** The share's 2.5 % and 97.5 % quantiles over the replicates. */
  readonly low: number
  readonly high: number
}

/** Levels tried go down to rate / 2^LEVEL_HALVINGS. */
const LEVEL_HALVINGS = 10

/** null where no level keeps the rate: tails with an end whose place the sample does not tell. `rate` < share. */
export function tailQuantile(fit: TailFit, rate: number): TailQuantile | null {
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
