/**
 * oc-kjl-svm: KJL sketch, then a linear one-class SVM (paper, figure "OC-KJL vs. OC-KJL-SVM").
 */
import { embeddedSvm } from '../families/embedded-svm.js'

export const ocKjlSvm = embeddedSvm('oc-kjl-svm', 'KJL sketch, linear one-class SVM', 'kjl')
