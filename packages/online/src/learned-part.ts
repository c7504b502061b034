/**
 * The learned state in a model file: the metadata `learned`, and tensors whose names start with it.
 *
 * A detector keeps both as they are in the file. Reading checks everything: shapes against the model, numbers in the range for
 * learning (learned-state.ts), statistics that rows could have made, whole counters, and the frozen model by its
 * detector's check.
 */
import { type Matrix, matrixOf, type Tensor } from '@oddflow/core'
import { checkModel, checkThreshold, DETECTORS, type LearnedPart, type SavedModel } from '@oddflow/detectors'
import {
  checkProvenance,
  checkSameFields,
  encodeFields,
  type Fields,
  failField,
  fieldsAt,
  finiteAt,
  ModelFileReader,
  matrixAt,
  namingPaths,
  numbersAt,
  pathIn,
  scaledWidth,
  wholeAt,
} from '@oddflow/detectors/parts'
import { choleskyInto } from '@oddflow/linalg'
import { MAXIMUM_REFERENCE_ROWS } from './guard-update.js'
import type { RowEntries } from './learn-arrivals.js'
import {
  areUpTo,
  checkLearnableModel,
  checkLearningOptions,
  freshCapacity,
  LARGEST_KEPT,
  type LearnedState,
  type LearningCounters,
  type LearningModel,
  learningModel,
  mixtureOfModel,
  NO_COUNTERS,
  regularisationOf,
  reservoirCapacity,
} from './learned-state.js'
import {
  LARGEST_MASS,
  LEAST_SCALED_MASS,
  type MixtureStatistics,
  scatterSize,
  totalMass,
} from './mixture-statistics.js'

/**
 * Checks that rows could have made the statistics of a mixture from a file.
 *
 * Masses are counts of rows, with a sum of up to LARGEST_MASS. A scatter divided by its mass is a covariance: positive
 * semi-definite up to rounding, and at most as large as learnable rows make it (learned-state.ts). Mass 0 has
 * scatter 0.
 */

/** Rounding left in a direction without spread, as a share of the largest variance. */
const ROUNDING = 1e-6

function checkStatistics(
  value: unknown,
  field: string,
  model: LearningModel,
  filled: boolean,
): MixtureStatistics {
  const s = fieldsAt(value, field)
  const { covarianceType, means: centres } = mixtureOfModel(model)
  const { rows: k, cols: d } = centres
  const size = scatterSize(covarianceType, d)
  const masses = numbersAt(s.masses, `${field}.masses`)
  const means = numbersUpTo(LARGEST_KEPT, s.means, `${field}.means`)
  const scatters = numbersAt(s.scatters, `${field}.scatters`)
  if (masses.length !== k) failField(`${field}.masses`, `${k} numbers, one per component`, masses.length)
  if (means.length !== k * d) failField(`${field}.means`, `${k * d} numbers`, means.length)
  if (scatters.length !== k * size) failField(`${field}.scatters`, `${k * size} numbers`, scatters.length)
  let total = 0
  for (const mass of masses) total += rowsAt(mass, `${field}.masses`)
  rowsAt(total, `${field}.masses`)
  if (filled && !(total > 0)) failField(`${field}.masses`, 'a positive sum', total)
  const statistics: MixtureStatistics = { covarianceType, d, masses, means, scatters }
  for (let j = 0; j < k; j++) checkScatter(statistics, j, regularisationOf(model), `${field}.scatters`)
  return statistics
}

function checkScatter(
  { d, covarianceType, masses, scatters }: MixtureStatistics,
  j: number,
  regularisation: number,
  field: string,
): void {
  const size = scatterSize(covarianceType, d)
  const mass = masses[j]!
  const covariance = scatters.slice(j * size, (j + 1) * size)
  let largest = 0
  covariance.forEach((scatter, at) => {
    const row = Math.floor(at / d)
    const col = at % d
    if (size !== d && col > row && scatter !== 0) failField(field, 'zeros above the diagonal', scatter)
    if (size === d || row === col) notNegative(scatter, field)
    if (mass === 0 && scatter !== 0) failField(field, 'zeros where there is no mass', scatter)
    if (mass === 0) return
    covariance[at] = scatter / mass
    if (!(Math.abs(covariance[at]!) <= 4 * LARGEST_KEPT * LARGEST_KEPT)) {
      failField(field, 'at most the scatter that learnable rows can have', scatter)
    }
    if (size === d || row === col) largest = Math.max(largest, covariance[at]!)
  })
  // of less mass the last digits are not there
  if (size === d || mass < LEAST_SCALED_MASS) return
  for (let a = 0; a < d; a++) covariance[a * d + a]! += ROUNDING * largest + regularisation + Number.MIN_VALUE
  if (!choleskyInto(covariance, 0, d, covariance, 0)) {
    failField(field, 'positive semi-definite matrices', `another for component ${j}`)
  }
}

/** A Float64Array of numbers of up to that size. */
function numbersUpTo(most: number, value: unknown, field: string): Float64Array {
  const numbers = numbersAt(value, field)
  if (!areUpTo(most, numbers)) {
    failField(
      field,
      `numbers of up to ${most}`,
      numbers.find((number) => Math.abs(number) > most),
    )
  }
  return numbers
}

/** A number that rows are counted with. */
function rowsAt(value: unknown, field: string): number {
  const number = notNegative(value, field)
  return number <= LARGEST_MASS ? number : failField(field, `at most ${LARGEST_MASS} rows`, number)
}

function notNegative(value: unknown, field: string): number {
  const number = finiteAt(value, field)
  return number >= 0 ? number : failField(field, 'numbers of 0 or more', number)
}

const FROZEN = 'learned.frozen.'

/** Limit of counters. No traffic reaches it; a counter that does stays there. */
const MOST_COUNTED = 2 ** 51
/** Of a shift of log-densities. */
const LARGEST_SHIFT = 1e150
/** Limit for a number drawn from N(0, 1); no float64 draw is beyond 40. */
const LARGEST_NORMAL = 100

/** The tensors of a learned state, besides its statistics, its random matrix and the frozen model. */
const TENSORS = {
  calibration: 'matrix',
  doubtful: 'matrix',
  fresh: 'matrix',
  held: 'matrix',
  heldPeriods: 'vector',
  knownNormal: 'matrix',
  knownNovel: 'matrix',
  origins: 'int32',
  reservoir: 'matrix',
  reservoirWeights: 'vector',
} as const

export function encodeLearned(state: LearnedState): LearnedPart {
  const { detector, threshold } = state.frozen
  const inside = DETECTORS[detector.kind].encode(detector)
  const { held, reservoir } = state
  const flat = {
    ...state,
    ...{ held: held.rows, heldPeriods: held.numbers },
    ...{ reservoir: reservoir.rows, reservoirWeights: reservoir.numbers },
  }
  const tensors: Record<string, Tensor> = {
    ...encodeFields(flat, TENSORS, 'learned.'),
    ...(state.random === null ? {} : encodeFields(state, { random: 'matrix' }, 'learned.')),
    ...encodeStatistics('learned.statistics', state.statistics),
    ...encodeStatistics('learned.base', state.base),
  }
  for (const [name, tensor] of Object.entries(inside.tensors)) tensors[`${FROZEN}${name}`] = tensor
  const { version, options, seed, unseenRows, densityShift } = state
  const reservoirSeen = Math.min(state.reservoirSeen, MOST_COUNTED)
  const counters = Object.fromEntries(
    Object.entries(state.counters).map(([key, count]) => [
      key,
      key === 'lastPeriod' ? count : Math.min(count, MOST_COUNTED),
    ]),
  )
  const { parameters, fitReport } = detector
  const frozen = { parameters, fitReport, threshold, ...inside.metadata }
  return {
    metadata: { version, options, seed, counters, unseenRows, densityShift, reservoirSeen, frozen },
    tensors,
  }
}

function encodeStatistics(
  name: string,
  { d, masses, means, scatters }: MixtureStatistics,
): Record<string, Tensor> {
  const k = masses.length
  const shape = scatters.length === k * d ? [k, d] : [k, d, d]
  return {
    ...encodeFields({ masses, means: matrixOf(k, d, means) }, STATISTICS_FIELDS, `${name}.`),
    [`${name}.scatters`]: { dtype: 'F64', shape, data: scatters },
  }
}

const STATISTICS_FIELDS = { masses: 'vector', means: 'matrix' } as const

/**
 * The learned state of an updated model; undefined for a model without updates. Throws ArgumentError or FormatError for
 * a state that updates could not have made; their `field` starts with `learned` or `provenance`.
 */
export function learnedStateOf({ detector, learned, provenance }: SavedModel): LearnedState | undefined {
  if (learned === undefined) return undefined
  const file = ModelFileReader.of({ metadata: new Map(), tensors: new Map(Object.entries(learned.tensors)) })
  const state = decodeLearned(learned.metadata, file, learningModel(detector))
  file.refuseOthers()
  checkSameFields(learned.metadata, encodeLearned(state).metadata, 'learned')
  // the searched values are those of the trained model
  checkProvenance(provenance, state.frozen.detector.parameters, false)
  return state
}

/** The checked state of `model`. Reads each of its tensors. */
function decodeLearned(head: Fields, file: ModelFileReader, model: LearningModel): LearnedState {
  const frozenHead = fieldsAt(head.frozen, 'learned.frozen')
  const { covarianceType } = mixtureOfModel(model)
  const statistics = (name: string): Fields => {
    const { masses, means } = file.fields(STATISTICS_FIELDS, `${name}.`)
    const { rows: k, cols: d, data } = means as Matrix
    return {
      covarianceType,
      d,
      masses,
      means: data,
      scatters: file.shaped(`${name}.scatters`, covarianceType === 'full' ? [k, d, d] : [k, d]),
    }
  }
  const parameters = fieldsAt(frozenHead.parameters, 'learned.frozen.parameters')
  const inside = file.within(FROZEN, frozenHead)
  const { held, heldPeriods, reservoir, reservoirWeights, ...rows } = file.fields(TENSORS, 'learned.')
  const value = {
    ...head,
    ...rows,
    held: { rows: held, numbers: heldPeriods },
    reservoir: { rows: reservoir, numbers: reservoirWeights },
    statistics: statistics('learned.statistics'),
    base: statistics('learned.base'),
    random: file.has('learned.random') ? file.matrix('learned.random') : null,
    frozen: {
      detector: {
        kind: model.kind,
        parameters,
        // the scaler never changes
        scaler: model.scaler,
        ...namingPaths(pathIn(FROZEN), () => DETECTORS[model.kind].decode(inside, parameters)),
        fitReport: frozenHead.fitReport,
      },
      threshold: frozenHead.threshold,
    },
  }
  return checkLearned(value, model)
}

/** Throws ArgumentError or FormatError whose field starts with `learned`. */
function checkLearned(s: Fields, model: LearningModel): LearnedState {
  checkLearnableModel(model)
  if (s.version !== 1) failField('learned.version', '1', s.version)
  const options = checkOptions(s.options)
  checkSameFields(s.options, options, 'learned.options')
  const frozen = checkFrozen(s.frozen, model)
  const D = scaledWidth(model.scaler, model.fitReport.dimension)
  const reservoirSeen = countAt(s.reservoirSeen, 'learned.reservoirSeen')
  const capacity = reservoirCapacity(options.reservoirRows)
  const reservoir = checkEntries(s.reservoir, 'learned.reservoir', 'learned.reservoirWeights', D, capacity)
  for (const weight of reservoir.numbers) {
    if (!(weight > 0)) failField('learned.reservoirWeights', 'positive numbers', weight)
    rowsAt(weight, 'learned.reservoirWeights')
  }
  const base = checkStatistics(s.base, 'learned.base', model, false)
  const kept = reservoir.numbers.reduce((sum, weight) => sum + weight, 0)
  rowsAt(kept + totalMass(base), 'learned.reservoirWeights')
  const held = checkEntries(s.held, 'learned.held', 'learned.heldPeriods', D, options.heldRows)
  for (const period of held.numbers) wholeAt(period, 'learned.heldPeriods')
  const rows = (name: 'calibration' | 'doubtful' | 'fresh' | 'knownNormal' | 'knownNovel', most: number) =>
    checkRows(s[name], `learned.${name}`, D, most)
  const seed = wholeAt(s.seed, 'learned.seed')
  const densityShift = finiteAt(s.densityShift, 'learned.densityShift')
  if (Math.abs(densityShift) > LARGEST_SHIFT) {
    failField('learned.densityShift', `a size of up to ${LARGEST_SHIFT}`, densityShift)
  }
  const knownNormal = rows('knownNormal', MAXIMUM_REFERENCE_ROWS)
  const knownNovel = rows('knownNovel', MAXIMUM_REFERENCE_ROWS)
  if (options.guard !== null && knownNormal.rows + knownNovel.rows === 0) {
    failField('learned.knownNormal', 'known rows, normal or novel, where there is a guard', 'none')
  }
  return {
    version: 1,
    options,
    seed,
    counters: checkCounters(s.counters),
    statistics: checkStatistics(s.statistics, 'learned.statistics', model, true),
    base,
    unseenRows: rowsAt(s.unseenRows, 'learned.unseenRows'),
    densityShift,
    random: checkRandom(s.random, model),
    origins: checkOrigins(s.origins, model, frozen.detector),
    reservoir,
    reservoirSeen,
    calibration: rows('calibration', options.calibrationRows),
    doubtful: rows('doubtful', options.calibrationRows),
    fresh: rows('fresh', freshCapacity(options)),
    held,
    knownNormal,
    knownNovel,
    frozen,
  }
}

function checkOptions(value: unknown): LearnedState['options'] {
  const pathOf = (field: string): string => field.replace(/^learning/, 'learned.options')
  return namingPaths(pathOf, () => checkLearningOptions(value as object))
}

function checkFrozen(value: unknown, model: LearningModel): LearnedState['frozen'] {
  const f = fieldsAt(value, 'learned.frozen')
  const detector = namingPaths(pathIn(FROZEN), () => {
    const checked = learningModel(checkModel(f.detector))
    checkLearnableModel(checked)
    return checked
  })
  if (detector.kind !== model.kind) failField('learned.frozen.kind', model.kind, detector.kind)
  if (detector.fitReport.dimension !== model.fitReport.dimension) {
    failField(
      'learned.frozen.fitReport',
      `${model.fitReport.dimension} columns`,
      detector.fitReport.dimension,
    )
  }
  if (mixtureOfModel(detector).covarianceType !== mixtureOfModel(model).covarianceType) {
    failField(
      'learned.frozen.mixture',
      mixtureOfModel(model).covarianceType,
      mixtureOfModel(detector).covarianceType,
    )
  }
  if ('embedding' in detector && 'embedding' in model) {
    if ((detector.supportGuard === null) !== (model.supportGuard === null)) {
      failField('learned.frozen.supportGuard', 'a guard where the model has one', 'otherwise')
    }
  }
  return { detector, threshold: namingPaths(pathIn(FROZEN), () => checkThreshold(f.threshold)) }
}

function checkRandom(value: unknown, model: LearningModel): Matrix | null {
  if (!('embedding' in model) || model.embedding.kind !== 'kjl') {
    if (value !== null) failField('learned.random', 'none without KJL', value)
    return null
  }
  const random = matrixAt(value, 'learned.random')
  const { projection } = model.embedding
  if (random.rows !== projection.rows || random.cols !== projection.cols) {
    failField('learned.random', `${projection.rows} × ${projection.cols}`, `${random.rows} × ${random.cols}`)
  }
  numbersUpTo(LARGEST_NORMAL, random.data, 'learned.random')
  for (let r = 0; r < random.rows; r++) {
    const row = random.data.subarray(r * random.cols, (r + 1) * random.cols)
    if (row.every((number) => number === 0))
      failField('learned.random', 'rows that are not all 0', `row ${r}`)
  }
  return random
}

function checkOrigins(value: unknown, model: LearningModel, frozen: LearningModel): Int32Array {
  if (!(value instanceof Int32Array)) return failField('learned.origins', 'an Int32Array', value)
  const landmarks = (of: LearningModel) => ('embedding' in of ? of.embedding.landmarks.rows : 0)
  if (value.length !== landmarks(model)) {
    failField('learned.origins', `${landmarks(model)} numbers, one per landmark`, value.length)
  }
  const most = landmarks(frozen)
  const used = new Set<number>()
  for (const origin of value) {
    if (origin === -1) continue
    if (origin < 0 || origin >= most || used.has(origin)) {
      failField('learned.origins', `−1, or different numbers below ${most}`, origin)
    }
    used.add(origin)
  }
  return value
}

function checkEntries(
  value: unknown,
  field: string,
  numbersField: string,
  width: number,
  most: number,
): RowEntries {
  const e = fieldsAt(value, field)
  const rows = checkRows(e.rows, field, width, most)
  const numbers = numbersAt(e.numbers, numbersField)
  if (numbers.length !== rows.rows)
    failField(numbersField, `${rows.rows} numbers, one per row`, numbers.length)
  return { rows, numbers }
}

function checkRows(value: unknown, field: string, width: number, most: number): Matrix {
  const rows = matrixAt(value, field)
  if (rows.cols !== width) failField(field, `${width} columns`, rows.cols)
  if (rows.rows > most) failField(field, `at most ${most} rows`, rows.rows)
  numbersUpTo(LARGEST_KEPT, rows.data, field)
  return rows
}

function checkCounters(value: unknown): LearningCounters {
  const given = fieldsAt(value, 'learned.counters')
  const counters = Object.fromEntries(
    Object.keys(NO_COUNTERS).map((key) => {
      // a period is any number that the caller chose
      const countOf = key === 'lastPeriod' ? wholeAt : countAt
      return [key, countOf(given[key], `learned.counters.${key}`)]
    }),
  )
  return counters as unknown as LearningCounters
}

function countAt(value: unknown, field: string): number {
  const count = wholeAt(value, field)
  return count <= MOST_COUNTED ? count : failField(field, `at most ${MOST_COUNTED}`, count)
}
