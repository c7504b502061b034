/** Checks of a model, for any table of detectors. */
import { MAXIMUM_DIMENSION } from '@oddflow/core'
import type { FindDetector, ModelHead } from './detector.js'
import { failField, fieldsAt, sizeUpTo, wholeAt } from './fields.js'
import type { DetectorModel, FitReport } from './model.js'
import { checkStoredBy } from './parameter-checks.js'
import { checkScalerModel, scaledWidth } from './scaler.js'

/** As `checkModel` says. */
export function checkModelBy(find: FindDetector, value: unknown): DetectorModel {
  const model = fieldsAt(value, 'model')
  const parameters = checkStoredBy(find, model.parameters)
  if (model.kind !== parameters.detector) failField('kind', parameters.detector, model.kind)
  const fitReport = checkFitReport(model.fitReport)
  const scaler = checkScalerModel(model.scaler, fitReport.dimension, parameters.scaler)
  const head: ModelHead = { fitReport, dimension: scaledWidth(scaler, fitReport.dimension), scaler }
  // parameters that passed have a definition
  return find(parameters.detector)!.checkModel(model, parameters, head)
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
