export {
  createDriftMonitor,
  type DriftChange,
  type DriftMonitor,
  type DriftReport,
} from './drift.js'
export {
  createJournallingUpdater,
  type JournalHead,
  type JournallingUpdater,
  type JournalStep,
  replayJournal,
} from './journal.js'
export type { ArrivalReport } from './learn-arrivals.js'
export { learnedStateOf } from './learned-part.js'
export type * from './learned-state.js'
export { DEFAULT_GUARD, DEFAULT_LEARNING } from './learned-state.js'
export type { RoundReport } from './learning-round.js'
export {
  type ArriveOptions,
  createLearningBudget,
  createOnlineUpdater,
  type LearningBudget,
  type OnlineUpdater,
  type OnlineUpdaterOptions,
  type StepReport,
} from './online-updater.js'
export {
  type EnsembleUpdate,
  type GivenRows,
  updateEnsemble,
} from './update-ensemble.js'
