/**
 * oc-kjl: KJL sketch of the Gaussian kernel, then a Gaussian mixture with k given (paper, "Meta Procedures").
 */
import { embeddedMixture } from '../families/embedded-mixture.js'

export const ocKjl = embeddedMixture(
  'oc-kjl',
  'KJL sketch, Gaussian mixture of k components started by k-means++',
  'kjl',
  'k-means++',
)
