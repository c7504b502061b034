/** The thresholds of a run, opened from the settings: the model's own, or those of an alert budget. */
import { fileError, inFile, type ModelFile } from '@oddflow/program'
import { createAlertBudget, readKeptCalibration, writeKeptCalibration } from '../budget/alert-budget.js'
import { readCalibrationFile } from '../budget/calibration-file.js'
import { modelThresholds, ownThresholds, type Thresholds } from '../budget/thresholds.js'
import type { Settings } from '../settings.js'
import type { OpeningEnvironment } from './environment.js'

/** The model's own threshold, or an alert budget's. Models that are made here are made for the budget. */
export async function openThresholds(
  { budget, localNetworks, state, models }: Settings,
  { files, log, faults }: OpeningEnvironment,
  base: ModelFile | null,
): Promise<Thresholds> {
  if (base === null || models !== null) return ownThresholds
  const { saved } = base
  const model = base.sha256.slice(0, 16)
  if (budget === null) return modelThresholds(saved)
  const common = { settings: budget, model, saved, localNetworks, log }
  if (budget.calibration !== null) {
    const given = readCalibrationFile(budget.calibration, model)
    try {
      return createAlertBudget({ ...common, given, kept: null, save: null })
    } catch (error) {
      throw inFile(budget.calibration, error)
    }
  }
  if (state === null) return createAlertBudget({ ...common, given: null, kept: null, save: null })
  const kept = await readKeptCalibration(files, state, model, faults).catch((error: unknown) => {
    throw fileError('read', state, error)
  })
  let isTroubled = false
  return createAlertBudget({
    ...common,
    given: null,
    kept,
    async save(calibration) {
      try {
        await files.makeFolder(state)
        await writeKeptCalibration(files, state, calibration)
        isTroubled = false
      } catch (error) {
        if (!isTroubled) log.warn(`${fileError('write', state, error).message}; the calibration is not kept`)
        isTroubled = true
      }
    },
  })
}
