/**
 * oc-nystrom-qs: Nyström embedding, then a Gaussian mixture whose number of components QuickShift++ finds (paper, "Choice of k").
 */
import { embeddedMixture } from '../families/embedded-mixture.js'

export const ocNystromQs = embeddedMixture(
  'oc-nystrom-qs',
  'Nyström embedding, Gaussian mixture started from QuickShift++ clusters',
  'nystrom',
  'quickshift++',
)
