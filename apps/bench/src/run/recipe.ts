/**
 * The paper's settings, through the detectors' own options (section "Implementation Details and Hyperparameter
 * Choices"): bandwidth at the 0.25-quantile of pair distances without tuning, KJL not centred, no support guard;
 * everything else is the detectors' default, which follows the paper. With minimal tuning, the bandwidth over ten
 * quantiles and the number of components, where a detector has one to choose, over ten more.
 *
 * An option is set where it applies and nowhere else, so a detector that is new to the registry takes part as it is.
 */
import { DETECTORS, type DetectorName, type DetectorOptions } from '@oddflow/detectors'
import { applicableGrid, type Candidate, gridCandidates, PAPER_GRID, type Tuning } from '@oddflow/evaluation'
import { type MethodName, methodOptions } from './methods.js'

export const UNTUNED_QUANTILE = 0.25

function applies(detector: DetectorName, option: string): boolean {
  return (DETECTORS[detector].options as readonly string[]).includes(option)
}

/** Every candidate, in the order in which ties go to the first; one without tuning. */
export function candidatesOf(method: MethodName, tuning: Tuning): Candidate[] {
  const own = methodOptions(method)
  const fixed: DetectorOptions = {
    ...(applies(own.detector, 'centre') ? { centre: false } : {}),
    ...(applies(own.detector, 'supportGuard') ? { supportGuard: false } : {}),
    ...own,
  }
  const grid = tuning === 'minimal' ? PAPER_GRID : { bandwidthQuantile: [UNTUNED_QUANTILE] }
  return gridCandidates(fixed, applicableGrid(fixed, grid))
}

/** Whether there is anything to choose. */
export function isTunable(method: MethodName): boolean {
  return candidatesOf(method, 'minimal').length > 1
}
