/**
 * LearningOptions: how a model is updated, as a caller writes it, and complete as `checkLearningOptions` returns it.
 *
 * The paper's source has two methods (EM to convergence after a number of arrivals, or after each) and two sketches
 * (growing and fixed), and keeps every row. All of this is available. The defaults suit a run of months: a bounded
 * reservoir, a limit on components and landmarks, and a guard.
 */
import { ArgumentError, type Matrix } from '@oddflow/core'
import { describeValue } from '../fields.js'
import { typedMixtureCovariances } from '../mixture/covariance-types.js'
import { mixtureCovariances } from '../mixture/gaussian-mixture.js'
import type { LearningModel } from './learned-state.js'
import type { LearningMixture } from './mixture-statistics.js'

/**
 * The range of numbers that can be learned: their squares, and sums of squares over 2⁵³ rows, stay finite. One larger
 * row would leave a covariance without a Cholesky factor for good. So a row beyond LARGEST_LEARNABLE, in itself or in
 * its embedded point, is judged and then discarded. Numbers in a file may be a little larger, as generated rows are.
 */

export const LARGEST_LEARNABLE = 1e140
/** Limit for rows, means and points of a model. */
export const LARGEST_KEPT = 10 * LARGEST_LEARNABLE
/** Limit for a count of rows, and for a sum of masses. */
export const LARGEST_MASS = Number.MAX_SAFE_INTEGER

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
  const known = DEFAULT_LEARNING as unknown as Record<string, unknown>
  const options = { ...known }
  for (const [key, value] of Object.entries(recordAt(given, 'learning'))) {
    if (!Object.hasOwn(known, key)) refuse(`learning.${key}`, 'no such option', value)
    if (value !== undefined) options[key] = value
  }
  const { guard } = options
  return {
    method: oneOf(options.method, 'method', [1, 2]),
    roundRows: wholeIn(options.roundRows, 'roundRows', 1, 100_000),
    reservoirRows:
      options.reservoirRows === 'all'
        ? 'all'
        : wholeIn(options.reservoirRows, 'reservoirRows', 10, 1_000_000),
    forgetting: checkForgetting(options.forgetting),
    maximumComponents: wholeIn(options.maximumComponents, 'maximumComponents', 1, 1000),
    novel: oneOf(options.novel, 'novel', ['disregard', 'hold', 'learn']),
    heldRows: wholeIn(options.heldRows, 'heldRows', 1, 100_000),
    confirmRows: wholeIn(options.confirmRows, 'confirmRows', 1, 10_000),
    confirmPeriods:
      options.confirmPeriods === null ? null : wholeIn(options.confirmPeriods, 'confirmPeriods', 1, 10_000),
    sketch: checkSketch(options.sketch),
    calibrationShare: numberIn(options.calibrationShare, 'calibrationShare', 0, 0.5),
    calibrationRows: wholeIn(options.calibrationRows, 'calibrationRows', 10, 100_000),
    guard: guard === null ? null : checkGuard(guard),
  }
}

function checkForgetting(value: unknown): Forgetting {
  const fields = recordAt(value, 'learning.forgetting')
  const kind = oneOf(fields.kind, 'forgetting.kind', ['none', 'exponential'])
  switch (kind) {
    case 'none':
      exactly(fields, 'forgetting', ['kind'])
      return { kind }
    case 'exponential':
      exactly(fields, 'forgetting', ['kind', 'halfLifeRows'])
      return { kind, halfLifeRows: numberIn(fields.halfLifeRows, 'forgetting.halfLifeRows', 10, 1e9) }
  }
}

function checkSketch(value: unknown): SketchPolicy {
  const fields = recordAt(value, 'learning.sketch')
  const kind = oneOf(fields.kind, 'sketch.kind', ['keep', 'grow', 'replace'])
  if (kind === 'keep') {
    exactly(fields, 'sketch', ['kind'])
    return { kind }
  }
  const rows = wholeIn(fields.rows, 'sketch.rows', 1, 2000)
  const everyRounds =
    fields.everyRounds === null ? null : wholeIn(fields.everyRounds, 'sketch.everyRounds', 1, 1_000_000)
  if (kind === 'replace') {
    exactly(fields, 'sketch', ['kind', 'rows', 'everyRounds'])
    return { kind, rows, everyRounds }
  }
  exactly(fields, 'sketch', ['kind', 'rows', 'everyRounds', 'maximumLandmarks'])
  const { maximumLandmarks } = fields
  return {
    kind,
    rows,
    everyRounds,
    maximumLandmarks:
      maximumLandmarks === null ? null : wholeIn(maximumLandmarks, 'sketch.maximumLandmarks', 1, 2000),
  }
}

function checkGuard(value: unknown): GuardBounds {
  const fields = recordAt(value, 'learning.guard')
  exactly(fields, 'guard', ['maximumNoveltyLoss', 'maximumFalsePositiveRise', 'shadowAgrees'])
  const { shadowAgrees } = fields
  if (typeof shadowAgrees !== 'boolean') refuse('learning.guard.shadowAgrees', 'true or false', shadowAgrees)
  return {
    maximumNoveltyLoss: numberIn(fields.maximumNoveltyLoss, 'guard.maximumNoveltyLoss', 0, 1),
    maximumFalsePositiveRise: numberIn(
      fields.maximumFalsePositiveRise,
      'guard.maximumFalsePositiveRise',
      0,
      1,
    ),
    shadowAgrees: shadowAgrees as boolean,
  }
}

function exactly(fields: Readonly<Record<string, unknown>>, of: string, keys: readonly string[]): void {
  for (const key of Object.keys(fields)) {
    if (!keys.includes(key)) refuse(`learning.${of}.${key}`, 'no such option', fields[key])
  }
}

function recordAt(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return refuse(field, 'an object', value)
  }
  return value as Readonly<Record<string, unknown>>
}

function oneOf<const T extends string | number>(value: unknown, field: string, known: readonly T[]): T {
  return known.find((item) => item === value) ?? refuse(`learning.${field}`, known.join(', '), value)
}

function wholeIn(value: unknown, field: string, low: number, high: number): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= low && value <= high
    ? value
    : refuse(`learning.${field}`, `a whole number from ${low} to ${high}`, value)
}

function numberIn(value: unknown, field: string, low: number, high: number): number {
  return typeof value === 'number' && value >= low && value <= high
    ? value
    : refuse(`learning.${field}`, `a number from ${low} to ${high}`, value)
}

function refuse(field: string, expected: string, found: unknown): never {
  throw new ArgumentError(`${field}: expected ${expected}, found ${describeValue(found)}`, field)
}
