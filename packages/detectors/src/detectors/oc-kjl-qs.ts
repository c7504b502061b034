/**
 * oc-kjl-qs: KJL sketch, then a Gaussian mixture whose number of components QuickShift++ finds (paper, "Choice of k").
 */
import {
  type DetectorDefinition,
  EMBEDDED_MIXTURE_OPTIONS,
  QUICKSHIFT_OPTIONS,
} from '../detector-definition.js'

export const ocKjlQs: DetectorDefinition = {
  name: 'oc-kjl-qs',
  summary: 'KJL sketch, Gaussian mixture started from QuickShift++ clusters',
  embedding: 'kjl',
  start: 'quickshift++',
  options: [...EMBEDDED_MIXTURE_OPTIONS, ...QUICKSHIFT_OPTIONS, 'centre'],
}
