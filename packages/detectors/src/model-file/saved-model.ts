/**
 * SavedModel: a detector with everything needed to use it: the feature contract of its rows, the threshold, the rule
 * for one-packet flows, and its provenance.
 *
 * Provenance holds only what the same run repeats exactly, without times, hosts and paths, so the same seed and data
 * give the same file on every machine.
 */
import {
  categoryColumn,
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
import { checkModel, detectorOptionsOf } from '../checks.js'
import {
  type Fields,
  failField,
  fieldsAt,
  finiteAt,
  literalAt,
  refuseOtherFields,
  wholeAt,
} from '../fields.js'
import type { DetectorModel } from '../model.js'
import type { GridOption } from '../options.js'
import type { CheckedParameters } from '../parameters.js'
import { DETECTORS } from '../registry.js'
import { encodeScaler } from '../scaler.js'
import {
  CHECKSUM_DIGITS,
  CHECKSUM_OFFSET,
  FORMAT,
  FORMAT_VERSION,
  LEARNED_KEY,
  LEARNED_PREFIX,
  type MetadataKey,
  modelFileChecksum,
  SCALER_KEY,
} from './layout.js'

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

/** Checks it for a model with these parameters. Throws ArgumentError naming the field. */
function checkParameterSelection(
  value: unknown,
  parameters: CheckedParameters,
  isUpdated: boolean,
): ParameterSelection {
  const at = 'provenance.selection'
  const s = fieldsAt(value, at)
  refuseOtherFields(s, at, SELECTION_FIELDS)
  const criterion = literalAt(s.criterion, `${at}.criterion`, 'validation-auc')
  const grid = checkGrid(fieldsAt(s.grid, `${at}.grid`), parameters, isUpdated, `${at}.grid`)
  const product = Object.values(grid).reduce((count, values) => count * values.length, 1)
  if (s.candidates !== product) {
    failField(`${at}.candidates`, `${product}, as many as the grid has`, s.candidates)
  }
  const auc = finiteAt(s.auc, `${at}.auc`)
  if (!(auc >= 0 && auc <= 1)) failField(`${at}.auc`, 'a number from 0 to 1', auc)
  return {
    criterion,
    grid,
    candidates: product,
    failed: wholeAt(s.failed, `${at}.failed`, 0, product - 1),
    auc,
    normalRows: wholeAt(s.normalRows, `${at}.normalRows`, 1),
    novelRows: wholeAt(s.novelRows, `${at}.novelRows`, 1),
    dataSha256: hashAt(s.dataSha256, `${at}.dataSha256`),
  }
}

const SELECTION_FIELDS = [
  'criterion',
  'grid',
  'candidates',
  'failed',
  'auc',
  'normalRows',
  'novelRows',
  'dataSha256',
]

function checkGrid(
  grid: Fields,
  parameters: CheckedParameters,
  isUpdated: boolean,
  at: string,
): Record<string, GridValue[]> {
  const { options } = DETECTORS[parameters.detector]
  const chosen = detectorOptionsOf(parameters) as Fields
  const checked: [string, GridValue[]][] = []
  for (const [name, values] of Object.entries(grid)) {
    if (!(options as readonly string[]).includes(name)) {
      failField(at, `options of ${parameters.detector} alone`, name)
    }
    const field = `${at}.${name}`
    if (!Array.isArray(values) || values.length < 1 || values.length > MAXIMUM_VALUES) {
      return failField(field, `a list of 1 to ${MAXIMUM_VALUES} values`, values)
    }
    if (!values.every(isGridValue) || new Set(values).size < values.length) {
      return failField(field, 'different numbers, texts or truth values', values)
    }
    // an update may raise m, d and k beyond the searched values
    if (!isUpdated && !values.includes(chosen[name] as GridValue)) {
      failField(field, 'a list that has the value of the parameters', values)
    }
    checked.push([name, [...values]])
  }
  if (checked.length === 0) failField(at, 'at least one option', 'none')
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
  /** What the updates of @oddflow/online keep beside the model; absent without updates. */
  readonly learned?: LearnedPart
}

/**
 * State of updates as it is in a model file. Scoring does not use it, and only @oddflow/online knows and checks what it
 * means.
 */
export interface LearnedPart {
  /** Values that JSON can hold. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** By their names in the file, which start with `learned.`. */
  readonly tensors: Readonly<Record<string, Tensor>>
}

/**
 * Checks it for a model with these parameters, or, if `isUpdated`, for one whose sizes updates may have raised since.
 * Throws ArgumentError naming the field.
 */
export function checkProvenance(
  value: unknown,
  parameters: CheckedParameters,
  isUpdated: boolean,
): Provenance {
  const p = fieldsAt(value, 'provenance')
  const { oddflowVersion, selection, updates } = p
  refuseOtherFields(p, 'provenance', ['oddflowVersion', 'seed', 'dataSha256', 'rows', 'selection', 'updates'])
  if (typeof oddflowVersion !== 'string' || !/^[0-9A-Za-z.+-]{1,64}$/.test(oddflowVersion)) {
    return failField('provenance.oddflowVersion', 'a version', oddflowVersion)
  }
  const base = {
    oddflowVersion,
    seed: wholeAt(p.seed, 'provenance.seed'),
    dataSha256: hashAt(p.dataSha256, 'provenance.dataSha256'),
    rows: wholeAt(p.rows, 'provenance.rows', 1),
  }
  return {
    ...base,
    ...(selection === undefined
      ? {}
      : { selection: checkParameterSelection(selection, parameters, isUpdated) }),
    ...(updates === undefined ? {} : { updates: checkUpdates(updates, parameters, base.rows) }),
  }
}

function checkUpdates(value: unknown, { detector }: CheckedParameters, rows: number): EnsembleUpdates {
  const at = 'provenance.updates'
  if (detector !== 'ensemble') failField(at, 'none, since the model is no ensemble', value)
  const given = fieldsAt(value, at)
  const last = fieldsAt(given.last, `${at}.last`)
  const count = wholeAt(given.count, `${at}.count`, 1)
  // each update had at least one row
  const all = wholeAt(given.rows, `${at}.rows`, count, rows - 1)
  const lastRows = wholeAt(last.rows, `${at}.last.rows`, 1, all - (count - 1))
  return {
    count,
    rows: all,
    last: {
      rows: lastRows,
      oddRows: wholeAt(last.oddRows, `${at}.last.oddRows`, 0, lastRows),
      novelBefore: wholeAt(last.novelBefore, `${at}.last.novelBefore`, 0, lastRows),
      dataSha256: hashAt(last.dataSha256, `${at}.last.dataSha256`),
    },
  }
}

function hashAt(value: unknown, field: string): string {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)
    ? value
    : failField(field, '64 lower-case hexadecimal digits', value)
}

/** The JSON metadata of a saved model as values, for writing and for comparison with a file. */
type MetadataValues = Readonly<Record<Exclude<MetadataKey, 'formatVersion' | 'kind'>, unknown>> &
  Readonly<Record<string, unknown>>

/** By metadata key, the detector's own family last. Every part is checked already. */
export function metadataValues(saved: SavedModel): MetadataValues {
  const { kind, parameters, fitReport, scaler } = saved.detector
  return {
    featureContract: saved.contract,
    fitReport,
    onePacketRule: saved.onePacketRule,
    parameters,
    provenance: saved.provenance,
    threshold: saved.threshold,
    ...(scaler.categoryColumn === undefined
      ? {}
      : { [SCALER_KEY]: { categoryColumn: scaler.categoryColumn } }),
    ...DETECTORS[kind].encode(saved.detector).metadata,
    ...(saved.groups === undefined ? {} : encodeGroups(saved.groups).metadata),
    ...(saved.learned === undefined ? {} : { [LEARNED_KEY]: saved.learned.metadata }),
  }
}

/**
 * The parts of a saved model are checked one by one; this checks that they agree. Throws FormatError if contract,
 * one-packet rule and detector do not fit together.
 */
export function checkAgreement(
  contract: FeatureContract,
  onePacketRule: OnePacketRule | null,
  { fitReport, scaler }: DetectorModel,
): void {
  const fail = (field: string, message: string): never => {
    throw new FormatError(FORMAT, `${field}: ${message}`, { field })
  }
  if (contract.dimension !== fitReport.dimension) {
    fail(
      'featureContract.dimension',
      `expected ${fitReport.dimension} as the detector has, found ${contract.dimension}`,
    )
  }
  if (contract.scaler !== scaler.kind) {
    fail('featureContract.scaler', `expected ${scaler.kind} as the detector has, found ${contract.scaler}`)
  }
  const names = categoryColumn(contract)
  // older files, from before this column existed, used its numbers as numbers
  if (
    scaler.categoryColumn !== undefined &&
    contract.featureSet !== 'rows' &&
    scaler.categoryColumn !== names
  ) {
    fail(
      'scaler.categoryColumn',
      `expected ${names ?? 'none'} as the contract has, found ${scaler.categoryColumn}`,
    )
  }
  if (onePacketRule !== null && contract.featureSet === 'rows') {
    fail('onePacketRule', 'expected null, since bare rows know no packets')
  }
  if (onePacketRule !== null && contract.featureSet === 'flow-summary') {
    fail('onePacketRule', 'expected null, since flows of one packet have rows')
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
  const { learned } = saved
  if (learned !== undefined) checkLearnedNames(learned)
  const groups = saved.groups === undefined ? undefined : checkGroups(saved.groups)
  const values = metadataValues({
    detector,
    contract,
    threshold: checkThreshold(saved.threshold),
    onePacketRule,
    provenance: checkProvenance(saved.provenance, detector.parameters, learned !== undefined),
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
      ...learned?.tensors,
    }),
  )
  const bytes = encodeSafetensors({ tensors, metadata })
  const checksum = modelFileChecksum(bytes)
  for (let i = 0; i < CHECKSUM_DIGITS; i++) bytes[CHECKSUM_OFFSET + i] = checksum.charCodeAt(i)
  return bytes
}

/** Other names would replace the model's own parts. */
function checkLearnedNames({ metadata, tensors }: LearnedPart): void {
  fieldsAt(metadata, LEARNED_KEY)
  for (const name of Object.keys(tensors)) {
    if (!name.startsWith(LEARNED_PREFIX))
      failField(LEARNED_KEY, `names that start with ${LEARNED_PREFIX}`, name)
  }
}
