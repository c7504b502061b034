/** Calibration files: what `oddflow-agent calibrate` writes and `run` reads. */
import { FormatError } from '@oddflow/core'
import { inFile, jsonLine, readFileBounded, writeFileWhole } from '@oddflow/program'
import { type Calibration, decodeCalibration, encodeCalibration } from './calibration.js'

/** A file of as many scores and devices as are kept is a tenth of it. */
const MAXIMUM_BYTES = 4 * 1_048_576

/** Throws FileError, or FormatError where it is none, or of another model than `model`. */
export function readCalibrationFile(path: string, model: string): Calibration {
  const bytes = readFileBounded(path, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true })
  try {
    const calibration = decodeCalibration(parseJson(bytes))
    if (calibration.model === model) return calibration
    throw new FormatError(
      'calibration',
      `model: expected ${model}, found ${calibration.model}: scores of another model mean nothing; calibrate this one`,
      { field: 'model' },
    )
  } catch (error) {
    throw inFile(path, error)
  }
}

/** Throws FileError. */
export function writeCalibrationFile(path: string, calibration: Calibration): void {
  writeFileWhole(path, `${jsonLine(encodeCalibration(calibration))}\n`)
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    throw new FormatError('calibration', 'expected JSON; give a file that oddflow-agent calibrate wrote')
  }
}
