/**
 * checkParameters: turns options into complete parameters in range, or throws an ArgumentError that names the option.
 *
 * A model file stores checked parameters; `checkStoredParameters` turns them back into options and checks them the same
 * way, so there is one set of rules.
 */
import type { DetectorName } from './detector.js'
import type { DEFAULT_DETECTOR, DetectorOptions, GivenOptions } from './options.js'
import { checkGivenBy, checkStoredBy } from './parameter-checks.js'
import { type CheckedParameters, type ParametersOf, withExplicitSizes } from './parameters.js'
import { DETECTORS } from './registry.js'

/**
 * Throws ArgumentError with `field` set to the invalid option. An undefined option counts as not given. A fit uses
 * given sizes exactly, and throws where it would lower a default.
 */
export function checkParameters<Name extends DetectorName = typeof DEFAULT_DETECTOR>(
  options: DetectorOptions & { readonly detector?: Name } = {},
): ParametersOf<Name> {
  const given = options as GivenOptions
  return withExplicitSizes(
    checkGivenBy((name) => DETECTORS[name], given),
    given,
  ) as ParametersOf<Name>
}

/**
 * Checks parameters from a file, which must have every field and no other. Throws ArgumentError naming an option or
 * `parameters.…`.
 */
export function checkStoredParameters(value: unknown): CheckedParameters {
  return checkStoredBy((name) => DETECTORS[name], value)
}
