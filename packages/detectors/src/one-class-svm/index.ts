/** What the rest of the package takes from the one-class SVM. */

export type {
  OneClassSvmModel,
  OneClassSvmOptions,
  OneClassSvmReport,
  SvmKernel,
  SvmPrecision,
  SvmStop,
} from './fit.js'
export { DEFAULT_SVM_CACHE_BYTES, DEFAULT_SVM_TOLERANCE, fitOneClassSvm } from './fit.js'
export { createOneClassSvmWorkspace, type OneClassSvmWorkspace, scoreOneClassSvm } from './score.js'
