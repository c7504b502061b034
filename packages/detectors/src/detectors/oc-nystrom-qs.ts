/**
 * oc-nystrom-qs: Nyström embedding, then a Gaussian mixture whose number of components QuickShift++ finds (paper, "Choice of k").
 */
import {
  type DetectorDefinition,
  EMBEDDED_MIXTURE_OPTIONS,
  QUICKSHIFT_OPTIONS,
} from '../detector-definition.js'

export const ocNystromQs: DetectorDefinition = {
  name: 'oc-nystrom-qs',
  summary: 'Nyström embedding, Gaussian mixture started from QuickShift++ clusters',
  embedding: 'nystrom',
  start: 'quickshift++',
  options: [...EMBEDDED_MIXTURE_OPTIONS, ...QUICKSHIFT_OPTIONS],
}
