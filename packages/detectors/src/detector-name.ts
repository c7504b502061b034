/**
 * DetectorName: the names under which detectors are trained, stored and chosen on a command line.
 *
 * A detector is one file in `detectors/`, its name here and its line in `registry.ts`; the compiler refuses a
 * name without a definition.
 */

export const EMBEDDED_MIXTURE_NAMES = ['oc-kjl', 'oc-nystrom', 'oc-kjl-qs', 'oc-nystrom-qs'] as const
export const EMBEDDED_SVM_NAMES = ['oc-kjl-svm', 'oc-nystrom-svm'] as const

export type EmbeddedMixtureName = (typeof EMBEDDED_MIXTURE_NAMES)[number]
export type EmbeddedSvmName = (typeof EMBEDDED_SVM_NAMES)[number]

export const DETECTOR_NAMES = [
  'ocsvm',
  ...EMBEDDED_MIXTURE_NAMES,
  ...EMBEDDED_SVM_NAMES,
  'gmm',
  'nearest',
  'kde',
  'iforest',
  'pca',
  'hbos',
  'ensemble',
] as const

/** Those that an ensemble may have as members. */
export type MemberName = Exclude<DetectorName, 'ensemble'>
export const MEMBER_NAMES: readonly MemberName[] = DETECTOR_NAMES.filter((name) => name !== 'ensemble')

export type DetectorName = (typeof DETECTOR_NAMES)[number]

export function isDetectorName(value: unknown): value is DetectorName {
  return (DETECTOR_NAMES as readonly unknown[]).includes(value)
}
