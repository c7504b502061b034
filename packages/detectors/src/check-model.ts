/**
 * checkModel: checks that a value is a model that a scorer can use.
 *
 * The check is deep: shapes, finite numbers, and each family's own rules. Scorers rely on it and check nothing again.
 */
import type { DetectorModel } from './model.js'
import { checkModelBy } from './model-checks.js'
import { DETECTORS } from './registry.js'

/**
 * Returns the value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError or
 * FormatError whose `field` is the path of the fault, for example `mixture.weights`.
 */
export function checkModel(value: unknown): DetectorModel {
  return checkModelBy((name) => DETECTORS[name], value)
}
