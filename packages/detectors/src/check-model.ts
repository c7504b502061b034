/**
 * checkModel: is this value, wherever it came from, a model that a scorer can trust?
 *
 * Deep: shapes against each other, every number finite, and what each family asks of its own parts. Scoring
 * trusts what passed here and checks nothing again.
 */
import { MAXIMUM_DIMENSION } from '@oddflow/core'
import { checkStoredParameters } from './check-parameters.js'
import type { ModelHead } from './detector.js'
import { failField, fieldsAt, sizeUpTo, wholeAt } from './fields.js'
import type { DetectorModel, FitReport } from './model.js'
import { DETECTORS } from './registry.js'
import { checkScalerModel, scaledWidth } from './scaler.js'

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

function checkFitReport(value: unknown): FitReport {
  const r = fieldsAt(value, 'fitReport')
  const { notes, dimension } = r
  if (!Array.isArray(notes) || notes.length > 100 || !notes.every((n) => typeof n === 'string')) {
    failField('fitReport.notes', 'at most 100 sentences', notes)
  }
  if (typeof dimension !== 'number' || !Number.isSafeInteger(dimension)) {
    failField('fitReport.dimension', 'a whole number', dimension)
  }
  sizeUpTo(dimension as number, MAXIMUM_DIMENSION, 'fitReport.dimension')
  return {
    trainingRows: wholeAt(r.trainingRows, 'fitReport.trainingRows'),
    dimension: dimension as number,
    notes: [...(notes as string[])],
  }
}
