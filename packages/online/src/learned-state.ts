/**
 * LearnedState: what an updated model stores in addition to the model, as plain data.
 *
 * Learning continues from it, also from a file, with the same bytes as without the interruption. Rows in it are scaled.
 * R is the number of rows in the reservoir, k of components, p of numbers in a point (d, or D for gmm).
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import type { DetectorModel, EmbeddedMixtureModel, GmmModel, Threshold } from '@oddflow/detectors'
import { createSupportGuard, type SupportGuard, scaledWidth } from '@oddflow/detectors/parts'
import { createPointScorer, createPointSpace, type PointSpace } from './carry-mixture.js'
import type { RowEntries } from './learn-arrivals.js'
import type { CheckedLearningOptions } from './learning-options.js'
import { createMixtureEvaluator, type LearningMixture, type MixtureStatistics } from './mixture-statistics.js'

/** Models that can be updated: an embedding with a mixture, and gmm with full or diagonal covariances. */
export type LearningModel = EmbeddedMixtureModel | GmmModel

/** Counts since learning began; of rows, unless the name says otherwise. */
export interface LearningCounters {
  /** Calls of `arrive`. */
  readonly batches: number
  readonly arrived: number
  /** Found novel as they came. */
  readonly novel: number
  /** Rows that updated the mixture, without those of refused rounds. */
  readonly learnt: number
  /** Kept from learning, for the threshold. */
  readonly heldBack: number
  /** Put on hold, whatever became of them. */
  readonly held: number
  /** Taken off hold, to be learned. */
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
  /** The highest period stated for a batch. */
  readonly lastPeriod: number
}

/** The model and threshold with which the updates began. */
export interface FrozenModel {
  readonly detector: LearningModel
  readonly threshold: Threshold
}

/** The state of an updated model besides the detector, to continue from a file. */
export interface LearnedState {
  readonly version: 1
  readonly options: CheckedLearningOptions
  readonly seed: number
  readonly counters: LearningCounters
  /** Of the mixture. */
  readonly statistics: MixtureStatistics
  /** The part of the statistics whose rows are not in the reservoir. */
  readonly base: MixtureStatistics
  /** Number of training rows known only through the first mixture and guard. */
  readonly unseenRows: number
  /** The shift of the first guard's log-densities. */
  readonly densityShift: number
  /** Z, d × m; null without KJL. */
  readonly random: Matrix | null
  /** For each landmark its number in the frozen model, or −1; empty without an embedding. */
  readonly origins: Int32Array
  /** R × D, with weights. */
  readonly reservoir: RowEntries
  /** Rows that the reservoir is a sample of. */
  readonly reservoirSeen: number
  /** Held back, and found normal. */
  readonly calibration: Matrix
  /** Held back, and found novel. */
  readonly doubtful: Matrix
  /** A sample of the rows learned since the last change of landmarks. */
  readonly fresh: Matrix
  /** On hold, with their periods. */
  readonly held: RowEntries
  readonly knownNormal: Matrix
  readonly knownNovel: Matrix
  /** As training left it. */
  readonly frozen: FrozenModel
}

/** The counters of a model that was never updated. */
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

/** Throws ArgumentError for a detector that cannot be updated. */
export function learningModel(detector: DetectorModel): LearningModel {
  if ('embedding' in detector && 'mixture' in detector) return detector
  if (detector.kind === 'gmm') {
    const type = detector.mixture.covarianceType
    if (type === 'full' || type === 'diagonal') return detector
    throw new ArgumentError(
      `detector: a gmm with ${type} covariances cannot learn on; train with covariance full or diagonal`,
      'detector',
    )
  }
  throw new ArgumentError(
    `detector: ${detector.kind} has no mixture, which updates row by row and drift need; train with oc-kjl, oc-nystrom, oc-kjl-qs, oc-nystrom-qs or gmm. An ensemble is updated with rows stated to be normal (oddflow update --assume-normal)`,
    'detector',
  )
}

/** The mixture of a model that can be updated. */
export function mixtureOfModel(model: LearningModel): LearningMixture {
  return model.mixture as LearningMixture
}

/** The space of a model's points: over scaled rows. */
export function spaceOfModel(model: LearningModel): PointSpace {
  const width = scaledWidth(model.scaler, model.fitReport.dimension)
  return 'embedding' in model
    ? createPointSpace(width, model.embedding, model.supportGuard, model.parameters.precision)
    : createPointSpace(width, null, null)
}

function guardOfModel(model: LearningModel) {
  return 'supportGuard' in model ? model.supportGuard : null
}

/** The guard as a scorer needs it. */
export function tailsOfModel(model: LearningModel): SupportGuard | null {
  const guard = guardOfModel(model)
  return guard === null ? null : createSupportGuard(guard)
}

/** The regularization on the diagonals of the covariances. */
export function regularisationOf(model: LearningModel): number {
  return 'embedding' in model ? model.fitReport.regularisation : model.parameters.regularisation
}

/** Scores of `count` scaled rows under a fixed model. Not reentrant. */
export type ScaledRowScorer = (rows: Float64Array, count: number) => Float64Array

/** Scores scaled rows by a model, out[i] = score of row i. */
export function createScaledRowScorer(model: LearningModel): ScaledRowScorer {
  const space = spaceOfModel(model)
  const score = createPointScorer(createMixtureEvaluator(mixtureOfModel(model)), space.d, tailsOfModel(model))
  return (rows, count) => {
    const points = new Float64Array(count * space.d)
    const supports = new Float64Array(count)
    const scores = new Float64Array(count)
    space.locate(rows, 0, count, points, 0, supports)
    score(points, supports, count, scores)
    return scores
  }
}

/** Scores of scaled rows. */
export function scoreScaledRows(model: LearningModel, { data, rows }: Matrix): Float64Array {
  return createScaledRowScorer(model)(data, rows)
}
