/**
 * oc-kjl: KJL sketch of the Gaussian kernel, then a Gaussian mixture with k given (paper, "Meta Procedures").
 */
import { type DetectorDefinition, EMBEDDED_MIXTURE_OPTIONS } from '../detector-definition.js'

export const ocKjl: DetectorDefinition = {
  name: 'oc-kjl',
  summary: 'KJL sketch, Gaussian mixture of k components started by k-means++',
  embedding: 'kjl',
  start: 'k-means++',
  options: [...EMBEDDED_MIXTURE_OPTIONS, 'k', 'centre'],
}
