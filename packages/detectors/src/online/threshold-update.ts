/**
 * A threshold that follows a model which learns from what it lets pass.
 *
 * Split-conformal calibration (threshold.ts) wants normal rows that nothing was learnt from, whatever their scores.
 * A model without labels has only the rows that it found normal: their lowest scores are cut off at the old
 * threshold, a new quantile of them lies above it, and so each calibration flags more than the last, a ratchet. So
 * a share of the arrivals is held back blindly, before the verdict. Those that pass calibrate. Of those that do not,
 * the most normal are taken with them, as many as false alarms are expected: fpr/(1 − fpr) for each row that passed.
 * Where nothing is novel these are all of them, and calibration is what it should be; where much is, no more than the
 * tolerated share can come in, from the side of the normal rows.
 */
import { calibrateThreshold, type Threshold } from '../threshold.js'

/** Presumed false alarms beside `passed` rows that were found normal. */
export function presumedFalseAlarms(passed: number, falsePositiveRate: number): number {
  return Math.round((passed * falsePositiveRate) / (1 - falsePositiveRate))
}

/**
 * `passed` and `doubtful` are the present scores of held-back rows that were found normal and novel. null while there
 * are too few to promise the rate: the old threshold stays.
 */
export function recalibrated(
  threshold: Threshold,
  passed: Float64Array,
  doubtful: Float64Array,
  leastRows: number,
): Threshold | null {
  const { falsePositiveRate } = threshold
  const alarms = Math.min(doubtful.length, presumedFalseAlarms(passed.length, falsePositiveRate))
  if (passed.length + alarms < leastRows) return null
  const scores = new Float64Array(passed.length + alarms)
  scores.set(passed)
  scores.set(
    doubtful
      .slice()
      .sort()
      .subarray(doubtful.length - alarms),
    passed.length,
  )
  return calibrateThreshold(scores, falsePositiveRate)
}
