/**
 * The alert budget: from "at most one false alert a day" to a threshold.
 *
 * A budget of B false alerts a day, at f flows a day, is a false-positive rate α = B / f. A threshold for it comes
 * from the scores of n normal flows that the fit has not seen, by the first of two ways that holds:
 *
 * - `conformal`, if n ≥ 1/α − 1: the r-th smallest score, r = ⌊α (n + 1)⌋ ≥ 1 (threshold.ts). The chance of a
 *   false alarm is then at most r / (n + 1) ≤ α whatever the distribution of scores, as long as the next normal
 *   flow is exchangeable with those n.
 * - `tail`, if n ≥ 500 and n ≥ 1/(10 α) − 1: a generalised Pareto fit to the lowest scores (tail-fit.ts), which goes at
 *   most ten times as far out as the scores do, has to pass its test, and is good on average only as far as the
 *   tail is of that family.
 *
 * Where neither holds the budget is refused, with the number of flows that it needs: a threshold that nothing
 * supports would be a promise that nobody keeps.
 *
 * Budgets so wide that more than MAXIMUM_RATE of all flows may alert are taken as that rate.
 */
import { ArgumentError, createRng } from '@oddflow/core'
import { conformalRank, nextDown, rowsNeeded } from '../threshold.js'
import { type Interval, orderStatisticInterval } from './count-intervals.js'
import { fitTail, LEAST_TAIL_ROWS, type TailFit, tailQuantile } from './tail-fit.js'
import { checkTailScores, type TailScores } from './tail-scores.js'

/** A tenth of all flows: with more, what is flagged is not out of the ordinary. */
export const MAXIMUM_RATE = 0.1

/** A tail fit is used for rates down to 1 / (MAXIMUM_REACH · (n + 1)). */
export const MAXIMUM_REACH = 10

export interface BudgetThreshold {
  readonly method: 'conformal' | 'tail'
  /** Novel iff score ≤ value. */
  readonly value: number
  /** α that was asked for. */
  readonly rate: number
  /** The chance of a false alarm: conformal, its bound r / (n + 1); tail, its mean under the fit. */
  readonly expectedRate: number
  /** 95 % of calibrations like this one have a rate in it (for continuous scores; ties lower it). */
  readonly interval: Interval
}

export interface BudgetRefusal {
  readonly method: 'refused'
  readonly rate: number
  /** Why, as the end of a sentence. */
  readonly reason: string
  /** The fewest flows with which the conformal way holds. */
  readonly rowsNeeded: number
  /** The fewest with which a tail fit may be tried; null where one was, and did not hold. */
  readonly tailRowsNeeded: number | null
}

export type BudgetDecision = BudgetThreshold | BudgetRefusal

export interface BudgetCalibration {
  readonly rows: number
  /** The threshold for a rate in (0, 1). Throws ArgumentError for another. */
  at(rate: number): BudgetDecision
}

/** Draws of the bootstrap: the same scores give the same threshold everywhere. */
const SEED = 1_951

/** The tail is fitted when a rate first needs it. Throws ArgumentError for scores that are none. */
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
      if (quantile === null) return refuse('the tail of the scores ends where nobody can tell', null)
      const { value, low, high } = quantile
      return { method: 'tail', value, rate, expectedRate: rate, interval: { low, high } }
    },
  }
}

/** The false-positive rate of a budget: below 1, however wide it is. Throws ArgumentError for what is no budget. */
export function budgetRate(falseAlertsPerDay: number, flowsPerDay: number): number {
  for (const [name, value] of Object.entries({ falseAlertsPerDay, flowsPerDay })) {
    if (!(value > 0 && value < Number.POSITIVE_INFINITY)) {
      throw new ArgumentError(`${name}: expected a number above 0, found ${value}`, name)
    }
  }
  return Math.max(1e-9, Math.min(falseAlertsPerDay / flowsPerDay, MAXIMUM_RATE))
}

function conformal({ count, lowest }: TailScores, rate: number): BudgetThreshold {
  // a rank beyond the scores that are kept: the last of them, which flags less
  const rank = Math.min(lowest.length, conformalRank(count, rate))
  return {
    method: 'conformal',
    value: nextDown(lowest[rank - 1]!),
    rate,
    expectedRate: rank / (count + 1),
    interval: orderStatisticInterval(count, rank),
  }
}
