/**
 * oc-kjl: KJL sketch of the Gaussian kernel, then a Gaussian mixture with k given (paper, "Meta Procedures").
 */
import { embeddedMixture } from '../families/embedded-mixture.js'
import { embeddedSvm } from '../families/embedded-svm.js'

/**
 * oc-kjl-qs: KJL sketch, then a Gaussian mixture whose number of components QuickShift++ finds (paper, "Choice of k").
 */

export const ocKjlQs = embeddedMixture(
  'oc-kjl-qs',
  'KJL sketch, Gaussian mixture started from QuickShift++ clusters',
  'kjl',
  'quickshift++',
)

/**
 * oc-kjl-svm: KJL sketch, then a linear one-class SVM (paper, figure "OC-KJL vs. OC-KJL-SVM").
 */

export const ocKjlSvm = embeddedSvm('oc-kjl-svm', 'KJL sketch, linear one-class SVM', 'kjl')

export const ocKjl = embeddedMixture(
  'oc-kjl',
  'KJL sketch, Gaussian mixture of k components started by k-means++',
  'kjl',
  'k-means++',
)
