/**
 * Checks at the edge: options become complete parameters in range, and values from a file become stored parameters or a
 * model. Each check returns the known fields only, or throws an error that names the faulty one.
 *
 * A model file stores checked parameters; `checkStoredParameters` turns them back into options and checks them the same
 * way, so there is one set of rules. The check of a model is deep: shapes, finite numbers, and each detector's own
 * rules. Scorers rely on it and check nothing again.
 */
import type { DetectorName } from './detector.js'
import type { DetectorModel } from './model.js'
import type { DEFAULT_DETECTOR, DetectorOptions, GivenOptions } from './options.js'
import {
  type CheckedParameters,
  type ParametersOf,
  storedParameters,
  withExplicitSizes,
} from './parameters.js'
import { DETECTORS, OPTIONS } from './registry.js'
import { checkGivenBy, checkModelBy, checkStoredBy, STAGES } from './table-checks.js'

/**
 * Throws ArgumentError with `field` set to the invalid option. An undefined option counts as not given. A fit uses
 * given sizes exactly, and throws where it would lower a default.
 */
export function checkParameters<Name extends DetectorName = typeof DEFAULT_DETECTOR>(
  options: DetectorOptions & { readonly detector?: Name } = {},
): ParametersOf<Name> {
  const given = options as GivenOptions
  return withExplicitSizes(checkGivenBy(DETECTORS, given), given) as ParametersOf<Name>
}

/**
 * Checks parameters from a file, which must have every field and no other. Throws ArgumentError whose `field` is the
 * path of the fault, for example `parameters.start.beta`.
 */
export function checkStoredParameters(value: unknown): CheckedParameters {
  return checkStoredBy(DETECTORS, value)
}

/**
 * The options that `checkParameters` turns into these parameters, with defaults written out, without null ones and
 * without constants.
 */
export function detectorOptionsOf(parameters: CheckedParameters): DetectorOptions {
  const options: Record<string, unknown> = {}
  for (const [key, entry] of Object.entries(storedParameters(parameters))) {
    const given = STAGES.includes(key) ? (entry as Record<string, unknown>) : { [key]: entry }
    for (const [name, value] of Object.entries(given)) {
      if (name === 'detector' || Object.hasOwn(OPTIONS, name)) options[name] = value ?? undefined
    }
  }
  return options
}

/**
 * Returns the value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError or
 * FormatError whose `field` is the path of the fault, for example `mixture.weights`.
 */
export function checkModel(value: unknown): DetectorModel {
  return checkModelBy(DETECTORS, value)
}
