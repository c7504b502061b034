/**
 * oc-nystrom: Nyström embedding of the Gaussian kernel, then a Gaussian mixture with k given (paper, "Meta
 * Procedures").
 */
import { embeddedMixture } from '../families/embedded-mixture.js'
import { embeddedSvm } from '../families/embedded-svm.js'

/**
 * oc-nystrom-qs: Nyström embedding, then a Gaussian mixture whose number of components QuickShift++ finds (paper,
 * "Choice of k").
 */

export const ocNystromQs = embeddedMixture(
  'oc-nystrom-qs',
  'Nyström embedding, Gaussian mixture started from QuickShift++ clusters',
  'nystrom',
  'quickshift++',
)

/**
 * oc-nystrom-svm: Nyström embedding, then a linear one-class SVM.
 */

export const ocNystromSvm = embeddedSvm(
  'oc-nystrom-svm',
  'Nyström embedding, linear one-class SVM',
  'nystrom',
)

export const ocNystrom = embeddedMixture(
  'oc-nystrom',
  'Nyström embedding, Gaussian mixture of k components started by k-means++',
  'nystrom',
  'k-means++',
)
