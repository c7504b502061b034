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
export { checkModel } from './check-model.js'
export {
  checkParameters,
  checkStoredParameters,
} from './check-parameters.js'
export { keepLargestClusters } from './clustering/k-means.js'
export {
  type Clustering,
  defaultNeighbours,
  type QuickShiftResult,
  quickShiftPlusPlus,
} from './clustering/quickshift-pp.js'
export type { DetectorDefinition } from './detector.js'
export {
  DETECTOR_NAMES,
  type DetectorName,
  EMBEDDED_MIXTURE_NAMES,
  EMBEDDED_SVM_NAMES,
  type EmbeddedMixtureName,
  type EmbeddedSvmName,
  isDetectorName,
  MEMBER_NAMES,
  type MemberName,
} from './detector.js'
export { embedRows } from './embedding/embedding.js'
export {
  type EnsembleUpdate,
  type GivenRows,
  updateEnsemble,
} from './ensemble/update-ensemble.js'
export {
  type ColumnSurprises,
  createExplainer,
  type Explainer,
  type FeatureShare,
  type NearestMode,
  type ScoreExplanation,
} from './explain/explain-score.js'
export { rememberedRows } from './explain/normal-examples.js'
export { type CHeader, type CHeaderOptions, encodeCHeader } from './export-c.js'
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
  createDriftMonitor,
  DRIFT_BOUNDS,
  type DriftChange,
  type DriftMonitor,
  type DriftReport,
} from './online/drift.js'
export {
  checksumOf,
  createJournallingUpdater,
  type JournalHead,
  type JournallingUpdater,
  type JournalStep,
  replayJournal,
} from './online/journal.js'
export type { ArrivalReport } from './online/learn-arrivals.js'
export { learnedStateOf } from './online/learned-part.js'
export type * from './online/learned-state.js'
export {
  type CheckedLearningOptions,
  checkLearningOptions,
  DEFAULT_GUARD,
  DEFAULT_LEARNING,
  type Forgetting,
  type GuardBounds,
  type LearningMethod,
  type LearningOptions,
  type NovelPolicy,
  type SketchPolicy,
} from './online/learning-options.js'
export type { RoundReport } from './online/learning-round.js'
export {
  type ArriveOptions,
  createLearningBudget,
  createOnlineUpdater,
  type LearningBudget,
  type OnlineUpdater,
  type OnlineUpdaterOptions,
  type StepReport,
} from './online/online-updater.js'
export {
  DEFAULT_DETECTOR,
  type DetectorOptions,
  type GridOption,
  OPTION_NAMES,
  OPTIONS,
  type OptionDefinition,
  type OptionName,
  optionNamed,
} from './options.js'
export { detectorOptionsOf } from './parameter-checks.js'
export type {
  BandwidthParameters,
  CheckedParameters,
  CovarianceType,
  EmbeddedMixtureParameters,
  EmbeddedSvmParameters,
  EmbeddingParameters,
  EmParameters,
  EnsembleParameters,
  GmmParameters,
  HbosParameters,
  IforestParameters,
  KdeParameters,
  KjlParameters,
  KMeansStart,
  LandmarkChoice,
  MixtureStart,
  NearestParameters,
  NystromParameters,
  OcsvmParameters,
  ParametersOf,
  PcaParameters,
  QuantileCompat,
  QuickShiftStart,
  SizeOption,
  StartParameters,
} from './parameters.js'
export { exceedingSizes, storedParameters } from './parameters.js'
export { DETECTORS } from './registry.js'
export type {
  LogScaler,
  LogStandardScaler,
  NoScaler,
  QuantileScaler,
  ScaledColumns,
  ScalerModel,
  StandardScaler,
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
