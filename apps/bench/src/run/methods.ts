/**
 * Methods: what a plan of trials runs, by the name that trials and tables have for it. A detector is one as it is;
 * beside them stand detectors with an option set otherwise than the paper's text has it.
 *
 * `…-centred`: KJL with each row of its sketch less its own mean, as the code of the paper's authors and the
 * independent implementation have it, so that those are compared with the same thing.
 */
import { DETECTOR_NAMES, type DetectorName, type DetectorOptions } from '@oddflow/detectors'

const CENTRED = ['oc-kjl-centred', 'oc-kjl-qs-centred', 'oc-kjl-svm-centred'] as const
type CentredName = (typeof CENTRED)[number]

export type MethodName = DetectorName | CentredName
export const METHOD_NAMES = [...DETECTOR_NAMES, ...CENTRED] as const

export type MethodOptions = DetectorOptions & { readonly detector: DetectorName }

const VARIANTS: Readonly<Record<CentredName, MethodOptions>> = {
  'oc-kjl-centred': { detector: 'oc-kjl', centre: true },
  'oc-kjl-qs-centred': { detector: 'oc-kjl-qs', centre: true },
  'oc-kjl-svm-centred': { detector: 'oc-kjl-svm', centre: true },
}

export function isMethodName(name: string): name is MethodName {
  return (METHOD_NAMES as readonly string[]).includes(name)
}

/** The detector, and what the method sets of its options. */
export function methodOptions(method: MethodName): MethodOptions {
  return method in VARIANTS ? VARIANTS[method as CentredName] : { detector: method as DetectorName }
}
