/**
 * oc-nystrom-svm: Nyström embedding, then a linear one-class SVM.
 */
import { embeddedSvm } from '../families/embedded-svm.js'

export const ocNystromSvm = embeddedSvm(
  'oc-nystrom-svm',
  'Nyström embedding, linear one-class SVM',
  'nystrom',
)
