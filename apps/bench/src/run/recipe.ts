/**
 * The paper's settings, through the detectors' own options (section "Implementation Details and Hyperparameter
 * Choices"): bandwidth at the 0.25-quantile of pair distances without tuning, KJL not centred, no support guard;
 * everything else is the detectors' default, which follows the paper. With minimal tuning, the bandwidth over ten
 * quantiles and the number of components, where a detector has one to choose, over ten more.
 *
 * An option is set where it applies and nowhere else, so a detector that is new to the registry takes part as it is.
 */
import { DETECTORS, type DetectorName, type DetectorOptions } from '@oddflow/detectors'
import type { Tuning } from '@oddflow/evaluation'

export const UNTUNED_QUANTILE = 0.25
export const QUANTILE_GRID: readonly number[] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
export const COMPONENTS_GRID: readonly number[] = [1, 4, 6, 8, 10, 12, 14, 16, 18, 20]

function applies(detector: DetectorName, option: string): boolean {
  return (DETECTORS[detector].options as readonly string[]).includes(option)
}

/** Options of every candidate, in the order in which ties go to the first; one without tuning. */
export function candidatesOf(detector: DetectorName, tuning: Tuning): DetectorOptions[] {
  const fixed: DetectorOptions = {
    detector,
    ...(applies(detector, 'centre') ? { centre: false } : {}),
    ...(applies(detector, 'supportGuard') ? { supportGuard: false } : {}),
  }
  const tuned = tuning === 'minimal'
  const quantiles = tuned ? QUANTILE_GRID : [UNTUNED_QUANTILE]
  const withQuantile = applies(detector, 'bandwidthQuantile')
    ? quantiles.map((bandwidthQuantile) => ({ ...fixed, bandwidthQuantile }))
    : [fixed]
  if (!tuned || !applies(detector, 'k')) return withQuantile
  return withQuantile.flatMap((options) => COMPONENTS_GRID.map((k) => ({ ...options, k })))
}

/** Whether there is anything to choose. */
export function isTunable(detector: DetectorName): boolean {
  return candidatesOf(detector, 'minimal').length > 1
}
