/**
 * checkModel: is this value, wherever it came from, a model that a scorer can trust?
 *
 * Deep: shapes against each other, every number finite, and what each family asks of its own parts. Scoring
 * trusts what passed here and checks nothing again.
 */

import { checkStoredParameters } from './check-parameters.js'
import { checkFitReport, checkScalerModel, failField, fieldsAt } from './check-parts.js'
import type { ModelHead } from './detector-definition.js'
import type { DetectorModel } from './model.js'
import { DETECTORS } from './registry.js'
import { scaledWidth } from './scaler.js'

/**
 * Returns the value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError or
 * FormatError whose `field` is the path of what is wrong, for example `mixture.weights`.
 */
export function checkModel(value: unknown): DetectorModel {
  const model = fieldsAt(value, 'model')
  const parameters = checkStoredParameters(model.parameters)
  if (model.kind !== parameters.detector) failField('kind', parameters.detector, model.kind)
  const fitReport = checkFitReport(model.fitReport)
  const scaler = checkScalerModel(model.scaler, fitReport.dimension, parameters.scaler)
  const head: ModelHead = { fitReport, dimension: scaledWidth(scaler, fitReport.dimension), scaler }
  return DETECTORS[parameters.detector].checkModel(model, parameters, head)
}
