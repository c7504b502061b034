/**
 * oc-nystrom: Nyström embedding of the Gaussian kernel, then a Gaussian mixture with k given (paper, "Meta Procedures").
 */
import { embeddedMixture } from '../families/embedded-mixture.js'

export const ocNystrom = embeddedMixture(
  'oc-nystrom',
  'Nyström embedding, Gaussian mixture of k components started by k-means++',
  'nystrom',
  'k-means++',
)
