/**
 * oc-kjl-qs: KJL sketch, then a Gaussian mixture whose number of components QuickShift++ finds (paper, "Choice of k").
 */
import { embeddedMixture } from '../families/embedded-mixture.js'

export const ocKjlQs = embeddedMixture(
  'oc-kjl-qs',
  'KJL sketch, Gaussian mixture started from QuickShift++ clusters',
  'kjl',
  'quickshift++',
)
