/**
 * Partial AUC: the area under the ROC curve where false alarms are few, which is the part that a deployed
 * detector lives in (McClish, "Analyzing a portion of the ROC curve", Medical Decision Making 9, 1989).
 *
 * The plain value is at most `limit`, and limit²/2 for a detector that guesses. McClish's standardised value
 * maps these two to 1 and ½, so that values at different limits can be compared. Ties are crossed by straight
 * lines, as in the full area; `tprAtFpr` steps instead, because it speaks of thresholds one can set.
 */
import { ArgumentError } from '@oddflow/core'
import { missingClass } from './labels.js'
import type { RocCurve } from './roc.js'

export type PartialAuc =
  | {
      /** Area from false-positive rate 0 to the limit, in [0, limit]. */
      readonly value: number
      /** (1 + (value − limit²/2) / (limit − limit²/2)) / 2: ½ for guessing, 1 for a perfect detector. */
      readonly standardised: number
    }
  | { readonly value: null; readonly standardised: null; readonly reason: string }

/** Throws ArgumentError unless 0 < limit ≤ 1. At 1 both values are the AUC. */
export function partialAuc(curve: RocCurve, limit: number): PartialAuc {
  if (!(limit > 0 && limit <= 1)) {
    throw new ArgumentError(
      `limit: expected a false-positive rate above 0, at most 1, found ${limit}`,
      'limit',
    )
  }
  const reason = missingClass(curve.novel, curve.normal)
  if (reason !== null) return { value: null, standardised: null, reason }
  const { falsePositiveRates: x, truePositiveRates: y } = curve
  let value = 0
  for (let i = 1; i < x.length && x[i - 1]! < limit; i++) {
    const right = Math.min(x[i]!, limit)
    const width = right - x[i - 1]!
    if (width === 0) continue
    const top = right === x[i] ? y[i]! : y[i - 1]! + ((y[i]! - y[i - 1]!) * width) / (x[i]! - x[i - 1]!)
    value += (width * (y[i - 1]! + top)) / 2
  }
  const guessing = (limit * limit) / 2
  return { value, standardised: (1 + (value - guessing) / (limit - guessing)) / 2 }
}
