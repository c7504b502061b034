/**
 * LearnedState: what a model that learns on keeps beside the model itself, as plain data.
 *
 * With it learning goes on where it stopped, from a file too, and gives the same bytes as if it had never stopped. The
 * rows in it are scaled. R rows are in the reservoir, k components, p numbers make a point (d, or D for gmm).
 */
import type { Matrix } from '@oddflow/core'
import type { EmbeddedMixtureModel, GmmModel } from '../model.js'
import type { Threshold } from '../threshold.js'
import type { CheckedLearningOptions } from './learning-options.js'
import type { MixtureStatistics } from './mixture-statistics.js'
import type { RowEntries } from './row-buffer.js'

/** Models that can learn on: those of an embedding and a mixture, and gmm with full or diagonal covariances. */
export type LearningModel = EmbeddedMixtureModel | GmmModel

/** What happened since learning began; rows, unless the name says otherwise. */
export interface LearningCounters {
  /** Calls of `arrive`. */
  readonly batches: number
  readonly arrived: number
  /** Found novel as they came. */
  readonly novel: number
  /** That the mixture was updated with, those of refused rounds not counted. */
  readonly learnt: number
  /** Kept from learning, for the threshold. */
  readonly heldBack: number
  /** Put on hold, whatever became of them. */
  readonly held: number
  /** Taken off hold, to be learnt. */
  readonly confirmed: number
  /** Novel, and dropped. */
  readonly disregarded: number
  /** In rounds that the guard refused. */
  readonly refused: number
  readonly rounds: number
  readonly refusedRounds: number
  readonly sketchUpdates: number
  readonly componentsAdded: number
  readonly componentsRemoved: number
  readonly componentsMerged: number
  /** The highest that a batch was said to come in. */
  readonly lastPeriod: number
}

export interface FrozenModel {
  readonly detector: LearningModel
  readonly threshold: Threshold
}

export interface LearnedState {
  readonly version: 1
  readonly options: CheckedLearningOptions
  readonly seed: number
  readonly counters: LearningCounters
  /** Of the mixture. */
  readonly statistics: MixtureStatistics
  /** The part of them whose rows are not in the reservoir. */
  readonly base: MixtureStatistics
  /** Training rows that nothing but the first mixture and guard is known of. */
  readonly unseenRows: number
  /** What the first guard's log-densities are moved by. */
  readonly densityShift: number
  /** Z, d × m; null without KJL. */
  readonly random: Matrix | null
  /** For each landmark the one of the frozen model that it is, or −1; empty without an embedding. */
  readonly origins: Int32Array
  /** R × D, with weights. */
  readonly reservoir: RowEntries
  /** Rows that the reservoir is a sample of. */
  readonly reservoirSeen: number
  /** Held back, and found normal. */
  readonly calibration: Matrix
  /** Held back, and found novel. */
  readonly doubtful: Matrix
  /** Learnt since the last change of landmarks, a sample. */
  readonly fresh: Matrix
  /** On hold, with their periods. */
  readonly held: RowEntries
  readonly knownNormal: Matrix
  readonly knownNovel: Matrix
  /** As training left it. */
  readonly frozen: FrozenModel
}

export const NO_COUNTERS: LearningCounters = {
  batches: 0,
  arrived: 0,
  novel: 0,
  learnt: 0,
  heldBack: 0,
  held: 0,
  confirmed: 0,
  disregarded: 0,
  refused: 0,
  rounds: 0,
  refusedRounds: 0,
  sketchUpdates: 0,
  componentsAdded: 0,
  componentsRemoved: 0,
  componentsMerged: 0,
  lastPeriod: 0,
}
