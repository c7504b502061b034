/**
 * oc-nystrom: Nyström embedding of the Gaussian kernel, then a Gaussian mixture with k given (paper, "Meta Procedures").
 */
import { type DetectorDefinition, EMBEDDED_MIXTURE_OPTIONS } from '../detector-definition.js'

export const ocNystrom: DetectorDefinition = {
  name: 'oc-nystrom',
  summary: 'Nyström embedding, Gaussian mixture of k components started by k-means++',
  embedding: 'nystrom',
  start: 'k-means++',
  options: [...EMBEDDED_MIXTURE_OPTIONS, 'k'],
}
