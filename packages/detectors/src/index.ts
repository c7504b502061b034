export {
  type BudgetCalibration,
  type BudgetDecision,
  type BudgetRefusal,
  type BudgetThreshold,
  binomialInterval,
  budgetRate,
  createBudgetCalibration,
  type Interval,
  MAXIMUM_RATE,
  MAXIMUM_REACH,
  poissonInterval,
} from './calibration/alert-budget.js'
export {
  calibrateGroups,
  createGroups,
  type Group,
  type GroupCalibration,
  type GroupedScores,
  type GroupLevel,
  type GroupVerdict,
  tailShare,
} from './calibration/groups.js'
export type { HeldOutScores } from './calibration/held-out.js'
export {
  createTailScoreCollector,
  TAIL_CAPACITY,
  type TailScoreCollector,
  type TailScores,
} from './calibration/tail-scores.js'
export {
  anomalyScore,
  calibrateThreshold,
  checkThreshold,
  conformalRank,
  decisionFunction,
  type HeldOutCalibration,
  isNovel,
  joinHeldOut,
  nextDown,
  predict,
  rowsNeeded,
  type SplitConformalCalibration,
  type Threshold,
  type ThresholdCalibration,
  thresholdOfHeldOut,
} from './calibration/threshold.js'
export { checkModel, checkParameters, checkStoredParameters, detectorOptionsOf } from './checks.js'
export { keepLargestClusters } from './clustering/k-means.js'
export {
  type Clustering,
  defaultNeighbours,
  type QuickShiftResult,
  quickShiftPlusPlus,
} from './clustering/quickshift-pp.js'
export type { DetectorDefinition, DetectorName, MemberName } from './detector.js'
export type { EnsembleParameters } from './detectors/ensemble.js'
export type { GmmParameters } from './detectors/gmm.js'
export type { HbosParameters } from './detectors/hbos.js'
export type { IforestParameters } from './detectors/iforest.js'
export type { KdeParameters } from './detectors/kde.js'
export type { NearestParameters } from './detectors/nearest.js'
export type { OcsvmParameters } from './detectors/ocsvm.js'
export type { PcaParameters } from './detectors/pca.js'
export { embedRows } from './embedding/embedding.js'
export {
  type ColumnSurprises,
  createExplainer,
  type Explainer,
  type FeatureShare,
  type NearestMode,
  rememberedRows,
  type ScoreExplanation,
} from './explain/explain-score.js'
export { type CHeader, type CHeaderOptions, encodeCHeader } from './export-c.js'
export {
  EMBEDDED_MIXTURE_NAMES,
  type EmbeddedMixtureName,
  type EmbeddedMixtureParameters,
} from './families/embedded-mixture.js'
export {
  EMBEDDED_SVM_NAMES,
  type EmbeddedSvmName,
  type EmbeddedSvmParameters,
} from './families/embedded-svm.js'
export {
  createFitter,
  type FitOptions,
  type FitProgress,
  type FitStage,
  type Fitter,
  fitDetector,
  fitHoldingOut,
  type HeldOutFit,
  type RowOrigin,
} from './fit.js'
export type { CovarianceType } from './mixture/covariance-types.js'
export { createMixture, mixtureCovariances, mixtureLogDensities } from './mixture/gaussian-mixture.js'
export type * from './model.js'
export { decodeModelFile } from './model-file/decode.js'
export type {
  EnsembleUpdates,
  GridValue,
  LearnedPart,
  ParameterSelection,
  Provenance,
  SavedModel,
} from './model-file/saved-model.js'
export { encodeModelFile } from './model-file/saved-model.js'
export {
  DEFAULT_DETECTOR,
  type DetectorOptions,
  type GridOption,
  type OptionDefinition,
  type OptionName,
} from './options.js'
export type {
  BandwidthParameters,
  CheckedParameters,
  EmbeddingParameters,
  EmParameters,
  KjlParameters,
  KMeansStart,
  LandmarkChoice,
  MixtureStart,
  NystromParameters,
  ParametersOf,
  QuantileCompat,
  QuickShiftStart,
  SizeOption,
  StartParameters,
} from './parameters.js'
export { exceedingSizes, storedParameters } from './parameters.js'
export {
  DETECTOR_NAMES,
  DETECTORS,
  isDetectorName,
  MEMBER_NAMES,
  OPTION_NAMES,
  OPTIONS,
  optionNamed,
} from './registry.js'
export {
  type LogScaler,
  type LogStandardScaler,
  type NoScaler,
  type QuantileScaler,
  SCALER_NAMES,
  type ScaledColumns,
  type ScalerModel,
  type ScalerName,
  type StandardScaler,
} from './scaler.js'
export {
  createScoreParts,
  createScoreWorkspace,
  detectorFacts,
  detectorFigures,
  embedSamples,
  hasScoreParts,
  type ModelFact,
  modelEmbedding,
  modelSpaceNumbers,
  novelRows,
  type ScoreParts,
  type ScoreWorkspace,
  type ScoreWorkspaceOptions,
  scoreParts,
  scoreSamples,
} from './score.js'
