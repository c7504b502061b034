/**
 * What @oddflow/online needs of the detectors besides their public API: parts of fits, scores and model files. Not for
 * other programs: these may change in any version.
 */
export { joinGroups } from './calibration/groups.js'
export {
  dealFolds,
  fillWithMedian,
  findOddRows,
  fitSurpriseCurve,
  foldRows,
  quantileOf,
  rowNumbers,
  type SurpriseCurve,
  sampleSurpriseCurve,
  surpriseOf,
} from './calibration/held-out.js'
export {
  COMMON_SHARE,
  clampReach,
  createSupportGuard,
  type SupportGuard,
} from './calibration/support-guard.js'
export { LOWEST_LOG_TAIL, logTail, MAXIMUM_KNOTS, sampleTailTable } from './calibration/tail-probability.js'
export { drawSketch, kjlProjection, nystromProjection } from './embedding/embedding.js'
export { createEmbeddingKernel, EMBEDDING_TILE_ROWS } from './embedding/embedding-kernel.js'
export {
  countCategories,
  type EnsembleMember,
  type MemberModel,
  type MemberTraining,
  standardise,
  viewRows,
} from './ensemble/ensemble-part.js'
export { createViews, joinMember, viewWeights } from './ensemble/members.js'
export {
  type Fields,
  failField,
  fieldsAt,
  finiteAt,
  matrixAt,
  namingPaths,
  numbersAt,
  pathIn,
  wholeAt,
} from './fields.js'
export { type DiagonalMixture, typedMixtureCovariances } from './mixture/covariance-types.js'
export { componentLogDensities, type LogDensitiesInto } from './mixture/gaussian-mixture.js'
export { encodeFields, ModelFileReader, statedChecksum } from './model-file/layout.js'
export { checkProvenance } from './model-file/saved-model.js'
export { scaledWidth, scaleInto, scaleRows } from './scaler.js'
export { checkSameFields } from './table-checks.js'
