/**
 * SavedModel: a detector together with what it takes to use it: the contract its rows were made under, the
 * threshold and the verdict on one-packet flows; and where it came from.
 *
 * Provenance holds only what the same run repeats exactly. Times, hosts and paths stay out, so that the same
 * seed and data give the same file on every machine.
 */
import { type FeatureContract, FormatError, type OnePacketRule } from '@oddflow/core'
import type { GroupCalibration } from '../groups.js'
import type { DetectorModel } from '../model.js'
import type { LearnedState } from '../online/learned-state.js'
import type { CheckedParameters } from '../parameters.js'
import type { Threshold } from '../threshold.js'
import { checkParameterSelection, type ParameterSelection } from './parameter-selection.js'

export interface Provenance {
  /** Version of OddFlow that trained the model. */
  readonly oddflowVersion: string
  /** Seed of the Rng that the fit was given. */
  readonly seed: number
  /** SHA-256, in 64 lower-case hexadecimal digits, of all rows as row-major little-endian float64. */
  readonly dataSha256: string
  /** How many rows that was: those of the fit and those of the calibration. */
  readonly rows: number
  /** How the parameters were chosen; absent where they were given. */
  readonly selection?: ParameterSelection
  /** Updates of an ensemble since it was trained; absent where there was none. `rows` above counts their rows as well. */
  readonly updates?: EnsembleUpdates
}

export interface EnsembleUpdates {
  /** How many there were, at least 1. */
  readonly count: number
  /** Rows that they were given, odd ones too. */
  readonly rows: number
  readonly last: {
    readonly rows: number
    /** Of these, rows unlike all others, which it did not learn. */
    readonly oddRows: number
    /** Of these, rows that were novel to the model before. */
    readonly novelBefore: number
    /** As `dataSha256` above, of these. */
    readonly dataSha256: string
  }
}

export interface SavedModel {
  readonly detector: DetectorModel
  readonly contract: FeatureContract
  readonly threshold: Threshold
  /** null where rows did not come from flows, or where no rule was learnt. */
  readonly onePacketRule: OnePacketRule | null
  readonly provenance: Provenance
  /** What groups of flows are judged by; absent where held-out scores were not to be had. */
  readonly groups?: GroupCalibration
  /** What a model that learns on keeps; absent from one that does not. */
  readonly learned?: LearnedState
}

/** Of a model with these parameters. Throws FormatError naming the field. */
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
