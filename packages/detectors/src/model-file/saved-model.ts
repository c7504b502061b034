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
  const { oddflowVersion, seed, dataSha256, rows, selection, ...rest } = value as Record<string, unknown>
  for (const field of Object.keys(rest)) fail(field, 'no such field')
  if (typeof oddflowVersion !== 'string' || !/^[0-9A-Za-z.+-]{1,64}$/.test(oddflowVersion)) {
    return fail('oddflowVersion', 'a version')
  }
  if (typeof seed !== 'number' || !Number.isSafeInteger(seed) || seed < 0) {
    return fail('seed', 'a whole number of 0 or more')
  }
  if (typeof dataSha256 !== 'string' || !/^[0-9a-f]{64}$/.test(dataSha256)) {
    return fail('dataSha256', '64 lower-case hexadecimal digits')
  }
  if (typeof rows !== 'number' || !Number.isSafeInteger(rows) || rows < 1) {
    return fail('rows', 'a whole number of 1 or more')
  }
  const base = { oddflowVersion, seed, dataSha256, rows }
  return selection === undefined
    ? base
    : { ...base, selection: checkParameterSelection(selection, parameters) }
}
