/**
 * SavedModel: a detector with everything needed to use it: the feature contract of its rows, the threshold, the rule
 * for one-packet flows, and its provenance.
 *
 * Provenance holds only what the same run repeats exactly, without times, hosts and paths, so the same seed and data
 * give the same file on every machine.
 */
import {
  checkFeatureContract,
  checkOnePacketRule,
  encodeSafetensors,
  type FeatureContract,
  FormatError,
  type OnePacketRule,
  type Tensor,
} from '@oddflow/core'
import { checkGroups, encodeGroups, type GroupCalibration } from '../calibration/groups.js'
import { checkThreshold, type Threshold } from '../calibration/threshold.js'
import { checkModel } from '../check-model.js'
import type { DetectorModel } from '../model.js'
import type { LearnedState } from '../online/learned-state.js'
import { learningModel } from '../online/learned-state.js'
import type { GridOption } from '../options.js'
import { detectorOptionsOf } from '../parameter-checks.js'
import type { CheckedParameters } from '../parameters.js'
import { DETECTORS } from '../registry.js'
import { encodeScaler } from '../scaler.js'
import { CHECKSUM_DIGITS, CHECKSUM_OFFSET, FORMAT, FORMAT_VERSION, modelFileChecksum } from './layout.js'
import { checkLearned, encodeLearned } from './learned-parts.js'
import { checkAgreement, metadataValues } from './parts.js'

/**
 * ParameterSelection: how a search chose a model's parameters; part of its provenance.
 *
 * It lists the candidates and the data they were judged by, so that the search can be repeated. The chosen parameters
 * are those of the model, and must be part of the grid.
 */

export type GridValue = number | string | boolean

/** The largest AUC on labeled validation rows; on ties the first candidate of the grid wins. */
export interface ParameterSelection {
  readonly criterion: 'validation-auc'
  /** The values of each searched option in the order tried; the last option changed fastest. */
  readonly grid: Readonly<Partial<Record<GridOption, readonly GridValue[]>>>
  /** The product of the grid's lengths. */
  readonly candidates: number
  /** Number of candidates that could not be fitted, less than all. */
  readonly failed: number
  /** Of the chosen candidate. */
  readonly auc: number
  readonly normalRows: number
  readonly novelRows: number
  /** SHA-256 of the validation rows, normal ones first, as row-major little-endian float64. */
  readonly dataSha256: string
}

const MAXIMUM_VALUES = 1000

/** Checks it for a model with these parameters. Throws FormatError naming the field. */
function checkParameterSelection(value: unknown, parameters: CheckedParameters): ParameterSelection {
  const fail = (field: string, expected: string): never => {
    const name = `provenance.selection${field === '' ? '' : `.${field}`}`
    throw new FormatError(FORMAT, `${name}: expected ${expected}`, { field: name })
  }
  const recordAt = (found: unknown, field: string): Record<string, unknown> => {
    if (found !== null && typeof found === 'object' && !Array.isArray(found)) {
      return found as Record<string, unknown>
    }
    return fail(field, 'an object')
  }
  const wholeAt = (field: string, found: unknown, low: number, high: number): number => {
    if (typeof found === 'number' && Number.isSafeInteger(found) && found >= low && found <= high)
      return found
    return fail(field, `a whole number from ${low} to ${high}`)
  }
  const { criterion, grid, candidates, failed, auc, normalRows, novelRows, dataSha256, ...rest } = recordAt(
    value,
    '',
  )
  for (const field of Object.keys(rest)) fail(/^\w{1,60}$/.test(field) ? field : '', 'no such field')
  if (criterion !== 'validation-auc') return fail('criterion', 'validation-auc')
  const checkedGrid = checkGrid(recordAt(grid, 'grid'), parameters, fail)
  const product = Object.values(checkedGrid).reduce((count, values) => count * values.length, 1)
  if (candidates !== product) return fail('candidates', `${product}, as many as the grid has`)
  if (typeof auc !== 'number' || !(auc >= 0 && auc <= 1)) return fail('auc', 'a number from 0 to 1')
  if (typeof dataSha256 !== 'string' || !/^[0-9a-f]{64}$/.test(dataSha256)) {
    return fail('dataSha256', '64 lower-case hexadecimal digits')
  }
  return {
    criterion,
    grid: checkedGrid,
    candidates: product,
    failed: wholeAt('failed', failed, 0, product - 1),
    auc,
    normalRows: wholeAt('normalRows', normalRows, 1, Number.MAX_SAFE_INTEGER),
    novelRows: wholeAt('novelRows', novelRows, 1, Number.MAX_SAFE_INTEGER),
    dataSha256,
  }
}

function checkGrid(
  grid: Record<string, unknown>,
  parameters: CheckedParameters,
  fail: (field: string, expected: string) => never,
): Record<string, GridValue[]> {
  const { options } = DETECTORS[parameters.detector]
  const chosen = detectorOptionsOf(parameters) as Readonly<Record<string, unknown>>
  const checked: [string, GridValue[]][] = []
  for (const [name, values] of Object.entries(grid)) {
    if (!(options as readonly string[]).includes(name))
      fail('grid', `options of ${parameters.detector} alone`)
    const field = `grid.${name}`
    if (!Array.isArray(values) || values.length < 1 || values.length > MAXIMUM_VALUES) {
      return fail(field, `a list of 1 to ${MAXIMUM_VALUES} values`)
    }
    if (!values.every(isGridValue) || new Set(values).size < values.length) {
      return fail(field, 'different numbers, texts or truth values')
    }
    const choice = chosen[name]
    if (!values.some((v) => v === choice)) fail(field, 'a list that has the value of the parameters')
    checked.push([name, [...values]])
  }
  if (checked.length === 0) fail('grid', 'at least one option')
  return Object.fromEntries(checked)
}

function isGridValue(value: unknown): value is GridValue {
  return typeof value === 'number'
    ? Number.isFinite(value)
    : typeof value === 'boolean' || (typeof value === 'string' && value.length <= 60)
}

/** Where a model came from: version, seed, training rows and their hash. */
export interface Provenance {
  /** Version of OddFlow that trained the model. */
  readonly oddflowVersion: string
  /** Seed of the Rng that the fit was given. */
  readonly seed: number
  /** SHA-256, in 64 lower-case hexadecimal digits, of all rows as row-major little-endian float64. */
  readonly dataSha256: string
  /** The number of these rows: for the fit and for the calibration. */
  readonly rows: number
  /** How the parameters were chosen; absent if they were given. */
  readonly selection?: ParameterSelection
  /** Updates of an ensemble after its training; absent without. `rows` above includes their rows. */
  readonly updates?: EnsembleUpdates
}

/** What updates have done to an ensemble, as its model file says. */
export interface EnsembleUpdates {
  /** How many there were, at least 1. */
  readonly count: number
  /** Rows that they were given, odd ones too. */
  readonly rows: number
  readonly last: {
    readonly rows: number
    /** Of these, rows unlike all others, which were not learned. */
    readonly oddRows: number
    /** Of these, rows that were novel before the update. */
    readonly novelBefore: number
    /** As `dataSha256` above, of these. */
    readonly dataSha256: string
  }
}

/** All that a model file holds: detector, feature contract, threshold and provenance. */
export interface SavedModel {
  readonly detector: DetectorModel
  readonly contract: FeatureContract
  readonly threshold: Threshold
  /** null if rows did not come from flows, or without a rule. */
  readonly onePacketRule: OnePacketRule | null
  readonly provenance: Provenance
  /** Judges groups of flows; absent without held-out scores. */
  readonly groups?: GroupCalibration
  /** State of an updated model; absent otherwise. */
  readonly learned?: LearnedState
}

/** Checks it for a model with these parameters. Throws FormatError naming the field. */
export function checkProvenance(value: unknown, parameters: CheckedParameters): Provenance {
  const fail = (field: string, expected: string): never => {
    const name = field === '' ? 'provenance' : `provenance.${field}`
    throw new FormatError('model-file', `${name}: expected ${expected}`, { field: name })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return fail('', 'an object')
  const { oddflowVersion, seed, dataSha256, rows, selection, updates, ...rest } = value as Record<
    string,
    unknown
  >
  for (const field of Object.keys(rest)) fail(field, 'no such field')
  if (typeof oddflowVersion !== 'string' || !/^[0-9A-Za-z.+-]{1,64}$/.test(oddflowVersion)) {
    return fail('oddflowVersion', 'a version')
  }
  if (typeof seed !== 'number' || !Number.isSafeInteger(seed) || seed < 0) {
    return fail('seed', 'a whole number of 0 or more')
  }
  const hash = (found: unknown, field: string): string =>
    typeof found === 'string' && /^[0-9a-f]{64}$/.test(found)
      ? found
      : fail(field, '64 lower-case hexadecimal digits')
  const whole = (found: unknown, field: string, low: number, high = Number.MAX_SAFE_INTEGER): number =>
    typeof found === 'number' && Number.isSafeInteger(found) && found >= low && found <= high
      ? found
      : fail(field, `a whole number from ${low} to ${high}`)
  const fields = (found: unknown, field: string): Record<string, unknown> =>
    found !== null && typeof found === 'object' && !Array.isArray(found)
      ? (found as Record<string, unknown>)
      : fail(field, 'an object')
  const base = {
    oddflowVersion,
    seed,
    dataSha256: hash(dataSha256, 'dataSha256'),
    rows: whole(rows, 'rows', 1),
  }
  const checkUpdates = (): EnsembleUpdates => {
    if (parameters.detector !== 'ensemble') fail('updates', 'none, since the model is no ensemble')
    const given = fields(updates, 'updates')
    const last = fields(given.last, 'updates.last')
    const count = whole(given.count, 'updates.count', 1)
    // each gave a row at least
    const all = whole(given.rows, 'updates.rows', count, base.rows - 1)
    const lastRows = whole(last.rows, 'updates.last.rows', 1, all - (count - 1))
    return {
      count,
      rows: all,
      last: {
        rows: lastRows,
        oddRows: whole(last.oddRows, 'updates.last.oddRows', 0, lastRows),
        novelBefore: whole(last.novelBefore, 'updates.last.novelBefore', 0, lastRows),
        dataSha256: hash(last.dataSha256, 'updates.last.dataSha256'),
      },
    }
  }
  return {
    ...base,
    ...(selection === undefined ? {} : { selection: checkParameterSelection(selection, parameters) }),
    ...(updates === undefined ? {} : { updates: checkUpdates() }),
  }
}

/**
 * Writes a model file. The value is checked as on reading, so everything written can be read again. The checks rebuild
 * it field by field, so the order of a caller's object keys does not affect the bytes.
 */

/**
 * The same value gives the same bytes on every machine. Throws ArgumentError or FormatError naming the invalid field.
 */
export function encodeModelFile(saved: SavedModel): Uint8Array<ArrayBuffer> {
  const detector = checkModel(saved.detector)
  const contract = checkFeatureContract(saved.contract)
  const onePacketRule = saved.onePacketRule === null ? null : checkOnePacketRule(saved.onePacketRule)
  checkAgreement(contract, onePacketRule, detector)
  const learned =
    saved.learned === undefined ? undefined : checkLearned(saved.learned, learningModel(detector))
  const groups = saved.groups === undefined ? undefined : checkGroups(saved.groups)
  const values = metadataValues({
    detector,
    contract,
    threshold: checkThreshold(saved.threshold),
    onePacketRule,
    provenance: checkProvenance(saved.provenance, (learned?.frozen.detector ?? detector).parameters),
    ...(groups === undefined ? {} : { groups }),
    ...(learned === undefined ? {} : { learned }),
  })
  const metadata = new Map<string, string>([
    ['checksum', '0'.repeat(CHECKSUM_DIGITS)],
    ['formatVersion', FORMAT_VERSION],
    ['kind', detector.kind],
  ])
  for (const [key, value] of Object.entries(values)) metadata.set(key, JSON.stringify(value))
  const tensors = new Map<string, Tensor>(
    Object.entries({
      ...DETECTORS[detector.kind].encode(detector).tensors,
      ...encodeScaler(detector.scaler),
      ...(groups === undefined ? {} : encodeGroups(groups).tensors),
      ...(learned === undefined ? {} : encodeLearned(learned).tensors),
    }),
  )
  const bytes = encodeSafetensors({ tensors, metadata })
  const checksum = modelFileChecksum(bytes)
  for (let i = 0; i < CHECKSUM_DIGITS; i++) bytes[CHECKSUM_OFFSET + i] = checksum.charCodeAt(i)
  return bytes
}
