/**
 * LearnedState: what an updated model stores in addition to the model, as plain data.
 *
 * Learning continues from it, also from a file, with the same bytes as without the interruption. Rows in it are scaled.
 * R is the number of rows in the reservoir, k of components, p of numbers in a point (d, or D for gmm).
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import {
  type DetectorModel,
  type EmbeddedMixtureModel,
  type GmmModel,
  mixtureCovariances,
  type Threshold,
} from '@oddflow/detectors'
import {
  createSupportGuard,
  type Fields,
  failField,
  fieldsAt,
  type SupportGuard,
  scaledWidth,
  typedMixtureCovariances,
  wholeAt,
} from '@oddflow/detectors/parts'
import { createPointSpace, createRowScorer, type PointSpace, type RowScorer } from './carry-mixture.js'
import type { RowEntries } from './learn-arrivals.js'
import { createMixtureEvaluator, type LearningMixture, type MixtureStatistics } from './mixture-statistics.js'

/** Models that can be updated: an embedding with a mixture, and gmm with full or diagonal covariances. */
export type LearningModel = EmbeddedMixtureModel | GmmModel

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

/** The counters of a model that was never updated: counts since learning began; of rows, unless the name says otherwise. */
export const NO_COUNTERS = {
  /** Calls of `arrive`. */
  batches: 0,
  arrived: 0,
  /** Found novel as they came. */
  novel: 0,
  /** Rows that updated the mixture, without those of refused rounds. */
  learnt: 0,
  /** Kept from learning, for the threshold. */
  heldBack: 0,
  /** Put on hold, whatever became of them. */
  held: 0,
  /** Taken off hold, to be learned. */
  confirmed: 0,
  /** Novel, and dropped. */
  disregarded: 0,
  /** In rounds that the guard refused. */
  refused: 0,
  rounds: 0,
  refusedRounds: 0,
  sketchUpdates: 0,
  componentsAdded: 0,
  componentsRemoved: 0,
  componentsMerged: 0,
  /** The highest period stated for a batch. */
  lastPeriod: 0,
}

/** What an updater counts, since learning began. */
export type LearningCounters = Readonly<typeof NO_COUNTERS>

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

/** The guard as a scorer needs it. */
export function tailsOfModel(model: LearningModel): SupportGuard | null {
  const guard = 'supportGuard' in model ? model.supportGuard : null
  return guard === null ? null : createSupportGuard(guard)
}

/** The regularization on the diagonals of the covariances. */
export function regularisationOf(model: LearningModel): number {
  return 'embedding' in model ? model.fitReport.regularisation : model.parameters.regularisation
}

/** Scores scaled rows by a fixed model. Not reentrant. */
export function rowScorerOf(model: LearningModel): RowScorer {
  const evaluator = createMixtureEvaluator(mixtureOfModel(model))
  return createRowScorer(spaceOfModel(model), evaluator, tailsOfModel(model))
}

/** Scores of scaled rows. */
export function scoreScaledRows(model: LearningModel, { data, rows }: Matrix): Float64Array {
  return rowScorerOf(model)(data, rows).scores
}

/**
 * LearningOptions: how a model is updated, as a caller writes it, and complete as `checkLearningOptions` returns it.
 *
 * The paper's source has two methods (EM to convergence after a number of arrivals, or after each) and two sketches
 * (growing and fixed), and keeps every row. All of this is available. The defaults suit a run of months: a bounded
 * reservoir, a limit on components and landmarks, and a guard.
 */

/**
 * The range of numbers that can be learned: their squares, and sums of squares over 2⁵³ rows, stay finite. One larger
 * row would leave a covariance without a Cholesky factor for good. So a row beyond LARGEST_LEARNABLE, in itself or in
 * its embedded point, is judged and then discarded. Numbers in a file may be a little larger, as generated rows are.
 */

export const LARGEST_LEARNABLE = 1e140
/** Limit for rows, means and points of a model. */
export const LARGEST_KEPT = 10 * LARGEST_LEARNABLE

/** Whether the `count` numbers from `start` on are all numbers and at most `most` in size. */
export function areUpTo(most: number, numbers: Float64Array, start = 0, count = numbers.length): boolean {
  for (let i = start; i < start + count; i++) if (!(Math.abs(numbers[i]!) <= most)) return false
  return true
}

/** Throws ArgumentError that names the first row with a number too large to learn. */
export function checkLearnable({ rows, cols, data }: Matrix, name: string): void {
  for (let i = 0; i < rows; i++) {
    if (!areUpTo(LARGEST_LEARNABLE, data, i * cols, cols)) {
      throw new ArgumentError(
        `${name}: row ${i}: expected numbers of up to ${LARGEST_LEARNABLE} once scaled`,
        name,
      )
    }
  }
}

/** Throws ArgumentError if the model's own numbers are too large to update it. */
export function checkLearnableModel(model: LearningModel): void {
  const mixture = model.mixture as LearningMixture
  checkUpTo(LARGEST_KEPT, mixture.means.data, 'mixture.means')
  const covariances =
    mixture.covarianceType === 'full' ? mixtureCovariances(mixture) : typedMixtureCovariances(mixture)
  checkUpTo(LARGEST_KEPT * LARGEST_KEPT, covariances, 'mixture.precisionCholesky')
  if (!('embedding' in model)) return
  const { landmarks, projection } = model.embedding
  checkUpTo(LARGEST_KEPT, landmarks.data, 'embedding.landmarks')
  // kernel values are at most 1, so a coordinate is at most the sum
  for (let r = 0; r < projection.rows; r++) {
    let sum = 0
    for (let j = 0; j < projection.cols; j++) sum += Math.abs(projection.data[r * projection.cols + j]!)
    checkUpTo(LARGEST_KEPT, Float64Array.of(sum), 'embedding.projection')
  }
}

function checkUpTo(most: number, numbers: Float64Array, field: string): void {
  if (!areUpTo(most, numbers)) {
    throw new ArgumentError(`${field}: too large to learn on from: expected sizes of up to ${most}`, field)
  }
}

/** 1: one EM step at arrival, EM to convergence each round. 2: EM to convergence after each arrival. */
export type LearningMethod = 1 | 2

/** How a model is updated; each option has a default. */
export interface LearningOptions {
  /** Default 1. */
  readonly method?: LearningMethod
  /**
   * Arrivals in a round. Its end brings convergence, sketch, components, tables, threshold and guard; 1 … 100,000,
   * default 100.
   */
  readonly roundRows?: number
  /** Rows kept for convergence, 10 … 1,000,000; default 1,000. `all` keeps every row, as in the paper's source. */
  readonly reservoirRows?: number | 'all'
  /** Default `none`: old rows keep their full weight. */
  readonly forgetting?: Forgetting
  /** Maximum number of components, up to 1,000; default 20, or the model's own number if higher. */
  readonly maximumComponents?: number
  /** How to treat novel rows; default `hold` (quarantine). */
  readonly novel?: NovelPolicy
  /** Maximum number of quarantined rows, 1 … 100,000; default 200; the oldest are dropped. */
  readonly heldRows?: number
  /**
   * Number of similar rows needed, 1 … 10,000; default 10: near a row before it becomes a landmark, and in quarantine
   * before a novel row is confirmed.
   */
  readonly confirmRows?: number
  /**
   * Number of periods in which these rows must come, 1 … 10,000, at least every second one since the first; null
   * (default) never confirms.
   */
  readonly confirmPeriods?: number | null
  /**
   * Default `grow`: 10 landmarks at a time, when 10 novel rows are to be learned or the learned rows have moved, up to
   * twice the model's number.
   */
  readonly sketch?: SketchPolicy
  /** Share of arrivals kept from learning to set the threshold; 0 (the threshold stays) to 0.5, default 0.2. */
  readonly calibrationShare?: number
  /** Maximum number of rows kept for the threshold, 10 … 100,000; default 500. */
  readonly calibrationRows?: number
  /** Bounds of the guard against poisoning; null for none. */
  readonly guard?: GuardBounds | null
}

/** Whether and how older rows lose weight. */
export type Forgetting =
  | { readonly kind: 'none' }
  /** Number of later rows after which a row counts half. */
  | { readonly kind: 'exponential'; readonly halfLifeRows: number }

/** `disregard`: discard. `hold`: quarantine until confirmed. `learn`: make a component at once. */
export type NovelPolicy = 'disregard' | 'hold' | 'learn'

/** Whether and when an update adds landmarks to the sketch. */
export type SketchPolicy =
  | { readonly kind: 'keep' }
  /**
   * Adds `rows` landmarks when that many novel rows are to be learned, when learned rows have moved away from the
   * landmarks, and each `everyRounds` unless null. At the maximum, they replace random landmarks.
   */
  | {
      readonly kind: 'grow'
      readonly rows: number
      readonly everyRounds: number | null
      readonly maximumLandmarks: number | null
    }
  /** The same, but always replacing random landmarks. */
  | { readonly kind: 'replace'; readonly rows: number; readonly everyRounds: number | null }

/** How much an update may change verdicts before it is undone. */
export interface GuardBounds {
  /** Maximum share of known-novel rows that an update may make normal, in [0, 1]. */
  readonly maximumNoveltyLoss: number
  /** Maximum share of known-normal rows that an update may make novel, in [0, 1]. */
  readonly maximumFalsePositiveRise: number
  /** Whether rows that only the frozen model finds novel are quarantined instead of learned. */
  readonly shadowAgrees: boolean
}

/** Complete and in range; plain data. */
export type CheckedLearningOptions = Required<LearningOptions>

/** The bounds within which an update may change verdicts unless the caller says otherwise. */
export const DEFAULT_GUARD: GuardBounds = {
  maximumNoveltyLoss: 0.02,
  maximumFalsePositiveRise: 0.1,
  shadowAgrees: false,
}

/** The options of an update unless the caller says otherwise. */
export const DEFAULT_LEARNING: CheckedLearningOptions = {
  method: 1,
  roundRows: 100,
  reservoirRows: 1000,
  forgetting: { kind: 'none' },
  maximumComponents: 20,
  novel: 'hold',
  heldRows: 200,
  confirmRows: 10,
  confirmPeriods: null,
  sketch: { kind: 'grow', rows: 10, everyRounds: null, maximumLandmarks: null },
  calibrationShare: 0.2,
  calibrationRows: 500,
  guard: DEFAULT_GUARD,
}

/** Throws ArgumentError with `field` set to the path of the invalid option. Undefined options get their defaults. */
export function checkLearningOptions(given: LearningOptions = {}): CheckedLearningOptions {
  const known = DEFAULT_LEARNING as unknown as Fields
  const set = Object.entries(fieldsAt(given, 'learning')).filter(([, value]) => value !== undefined)
  const options = { ...known, ...Object.fromEntries(set) } as Record<keyof LearningOptions, unknown>
  refuseOtherOptions(options, 'learning', Object.keys(known))
  const whole = (key: keyof LearningOptions, low: number, high: number): number =>
    wholeAt(options[key], `learning.${key}`, low, high)
  return {
    method: oneOf(options.method, 'learning.method', [1, 2]),
    roundRows: whole('roundRows', 1, 100_000),
    reservoirRows: options.reservoirRows === 'all' ? 'all' : whole('reservoirRows', 10, 1_000_000),
    forgetting: checkForgetting(options.forgetting),
    maximumComponents: whole('maximumComponents', 1, 1000),
    novel: oneOf(options.novel, 'learning.novel', ['disregard', 'hold', 'learn']),
    heldRows: whole('heldRows', 1, 100_000),
    confirmRows: whole('confirmRows', 1, 10_000),
    confirmPeriods: options.confirmPeriods === null ? null : whole('confirmPeriods', 1, 10_000),
    sketch: checkSketch(options.sketch),
    calibrationShare: numberIn(options.calibrationShare, 'learning.calibrationShare', 0, 0.5),
    calibrationRows: whole('calibrationRows', 10, 100_000),
    guard: options.guard === null ? null : checkGuard(options.guard),
  }
}

function checkForgetting(value: unknown): Forgetting {
  const at = 'learning.forgetting'
  const fields = fieldsAt(value, at)
  const kind = oneOf(fields.kind, `${at}.kind`, ['none', 'exponential'])
  refuseOtherOptions(fields, at, kind === 'none' ? ['kind'] : ['kind', 'halfLifeRows'])
  return kind === 'none'
    ? { kind }
    : { kind, halfLifeRows: numberIn(fields.halfLifeRows, `${at}.halfLifeRows`, 10, 1e9) }
}

function checkSketch(value: unknown): SketchPolicy {
  const at = 'learning.sketch'
  const fields = fieldsAt(value, at)
  const kind = oneOf(fields.kind, `${at}.kind`, ['keep', 'grow', 'replace'])
  const own = {
    keep: [],
    replace: ['rows', 'everyRounds'],
    grow: ['rows', 'everyRounds', 'maximumLandmarks'],
  }
  refuseOtherOptions(fields, at, ['kind', ...own[kind]])
  if (kind === 'keep') return { kind }
  const orNull = (name: string, high: number): number | null =>
    fields[name] === null ? null : wholeAt(fields[name], `${at}.${name}`, 1, high)
  const rows = wholeAt(fields.rows, `${at}.rows`, 1, 2000)
  const everyRounds = orNull('everyRounds', 1_000_000)
  return kind === 'replace'
    ? { kind, rows, everyRounds }
    : { kind, rows, everyRounds, maximumLandmarks: orNull('maximumLandmarks', 2000) }
}

function checkGuard(value: unknown): GuardBounds {
  const at = 'learning.guard'
  const fields = fieldsAt(value, at)
  refuseOtherOptions(fields, at, Object.keys(DEFAULT_GUARD))
  const share = (name: 'maximumNoveltyLoss' | 'maximumFalsePositiveRise'): number =>
    numberIn(fields[name], `${at}.${name}`, 0, 1)
  return {
    maximumNoveltyLoss: share('maximumNoveltyLoss'),
    maximumFalsePositiveRise: share('maximumFalsePositiveRise'),
    shadowAgrees: oneOf(fields.shadowAgrees, `${at}.shadowAgrees`, [true, false]),
  }
}

function refuseOtherOptions(fields: Fields, at: string, known: readonly string[]): void {
  for (const key of Object.keys(fields)) {
    if (!known.includes(key)) failField(`${at}.${key}`, 'no such option', fields[key])
  }
}

function oneOf<const T>(value: unknown, field: string, known: readonly T[]): T {
  const found = known.find((item) => item === value)
  return found === undefined ? failField(field, known.join(', '), value) : found
}

function numberIn(value: unknown, field: string, low: number, high: number): number {
  return typeof value === 'number' && value >= low && value <= high
    ? value
    : failField(field, `a number from ${low} to ${high}`, value)
}

/** The most rows of the reservoir. */
export function reservoirCapacity(reservoirRows: CheckedLearningOptions['reservoirRows']): number {
  return reservoirRows === 'all' ? Number.MAX_SAFE_INTEGER : reservoirRows
}

/** Rows waiting to become landmarks, for each one that a sketch update takes. */
const FRESH_ROWS = 16

/** The most rows waiting to become landmarks. */
export function freshCapacity({ sketch }: CheckedLearningOptions): number {
  return sketch.kind === 'keep' ? 1 : FRESH_ROWS * sketch.rows
}
