/**
 * checkModel: is this value, wherever it came from, a model that a scorer can trust?
 *
 * Deep: shapes against each other, every number finite, and what each family asks of its own parts. Scoring
 * trusts what passed here and checks nothing again.
 */
import type { DetectorModel } from './model.js'
import { checkModelBy } from './model-checks.js'
import { DETECTORS } from './registry.js'

/**
 * Returns the value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError or
 * FormatError whose `field` is the path of what is wrong, for example `mixture.weights`.
 */
export function checkModel(value: unknown): DetectorModel {
  return checkModelBy((name) => DETECTORS[name], value)
}
