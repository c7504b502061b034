/** What the conformance checks share: small rows, a fit of milliseconds, and options that lead through all of the code. */
import { createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import {
  checkParameters,
  createScoreWorkspace,
  DETECTORS,
  type DetectorModel,
  type DetectorName,
  type DetectorOptions,
  fitDetector,
  scoreSamples,
} from '../../src/index.js'

/** Named checks: each gets the name of a detector and throws when the detector fails it. */
export type ConformanceChecks = Readonly<Record<string, (detector: DetectorName) => void>>

export const COLUMNS = 6

/** Those of the options that the detector takes. */
export const applicable = (detector: DetectorName, options: DetectorOptions): DetectorOptions =>
  Object.fromEntries(Object.entries(options).filter(([name]) => takes(detector, name)))

export const takes = (detector: DetectorName, option: string) =>
  (DETECTORS[detector].options as readonly string[]).includes(option)

export const train = (
  detector: DetectorName,
  rows: Matrix,
  options: DetectorOptions = {},
  seed = 5,
): DetectorModel => {
  const given = applicable(detector, { m: Math.max(1, Math.min(30, rows.rows)), trees: 10, ...options })
  return fitDetector(rows, checkParameters({ ...given, detector }), createRng(seed))
}

export const score = (model: DetectorModel, rows: Matrix) =>
  scoreSamples(model, rows, new Float64Array(rows.rows), createScoreWorkspace(model))

export const part = (rows: Matrix, first: number, count: number) =>
  matrixOf(count, rows.cols, rows.data.slice(first * rows.cols, (first + count) * rows.cols))

/** All numbers of a model, in one order, as bytes. */
export const bytes = (model: DetectorModel) =>
  JSON.stringify(model, (_, v) => (v instanceof Float64Array ? [...v] : v))

export const mean = (values: Float64Array) => values.reduce((a, b) => a + b, 0) / values.length

/** Options that lead through different code in every detector. */
export const VARIANTS: readonly DetectorOptions[] = [
  {},
  { scaler: 'standard' },
  { supportGuard: false },
  { scaler: 'standard', supportGuard: false },
  { scaler: 'log' },
  { scaler: 'log-standard' },
  { scaler: 'quantile' },
  { precision: 'f32' },
  { precision: 'f32', scaler: 'standard', supportGuard: false },
  { landmarks: 'farthest-first', scaler: 'standard' },
]

/** Without those that say nothing new of a detector that has one precision, or no landmarks. */
export const variantsFor = (detector: DetectorName): readonly DetectorOptions[] =>
  VARIANTS.filter(
    ({ precision, landmarks }) =>
      (precision === undefined || takes(detector, 'precision')) &&
      (landmarks === undefined || takes(detector, 'landmarks')),
  )

export function modelOrDataError(learn: () => DetectorModel): DetectorModel | null {
  try {
    return learn()
  } catch (error) {
    if (error instanceof DataError) return null
    throw error
  }
}
