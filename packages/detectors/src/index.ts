export * from './alert-budget/alert-budget.js'
export { binomialInterval, type Interval, poissonInterval } from './alert-budget/count-intervals.js'
export {
  createTailScoreCollector,
  TAIL_CAPACITY,
  type TailScoreCollector,
  type TailScores,
} from './alert-budget/tail-scores.js'
export * from './check-model.js'
export * from './check-parameters.js'
export * from './cluster-selection.js'
export type { DetectorDefinition } from './detector-definition.js'
export * from './detector-name.js'
export { embedRows } from './embedding.js'
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
export * from './fit.js'
export { createMixture, mixtureCovariances, mixtureLogDensities } from './gaussian-mixture.js'
export {
  calibrateGroups,
  createGroups,
  type Group,
  type GroupCalibration,
  type GroupedScores,
  type GroupLevel,
  type GroupVerdict,
  tailShare,
} from './groups.js'
export type { HeldOutScores } from './held-out.js'
export * from './model.js'
export { decodeModelFile } from './model-file/decode.js'
export { encodeModelFile } from './model-file/encode.js'
export type { GridValue, ParameterSelection } from './model-file/parameter-selection.js'
export type { EnsembleUpdates, Provenance, SavedModel } from './model-file/saved-model.js'
export { type Adwin, createAdwin } from './online/adwin.js'
export * from './online/drift-signals.js'
export * from './online/journal.js'
export type { ArrivalReport } from './online/learn-arrivals.js'
export type * from './online/learned-state.js'
export * from './online/learner.js'
export { createLearningBudget, type LearningBudget } from './online/learning-budget.js'
export * from './online/learning-options.js'
export type { RoundReport } from './online/learning-round.js'
export { createPageHinkley, type PageHinkley, type PageHinkleyOptions } from './online/page-hinkley.js'
export * from './parameters.js'
export * from './quickshift-pp.js'
export * from './registry.js'
export * from './score.js'
export { exceedingSizes, keptParameters } from './stated-sizes.js'
export * from './threshold.js'
