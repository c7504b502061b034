/**
 * DetectorName: the names under which detectors are trained, stored and chosen on a command line.
 *
 * A detector is one file in `detectors/`, its name here and its line in `registry.ts`; the compiler refuses a
 * name without a definition.
 */

export const DETECTOR_NAMES = ['oc-kjl', 'oc-nystrom', 'oc-kjl-qs', 'oc-nystrom-qs'] as const

export type DetectorName = (typeof DETECTOR_NAMES)[number]

export function isDetectorName(value: unknown): value is DetectorName {
  return (DETECTOR_NAMES as readonly unknown[]).includes(value)
}
