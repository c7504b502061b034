/** Rows that teach little: a finite model, or an error that says what to do. */
import { ArgumentError, createRng, DataError, type Matrix, matrixOf } from '@oddflow/core'
import { expect } from 'vitest'
import {
  checkModel,
  checkParameters,
  type DetectorOptions,
  fitDetector,
  modelEmbedding,
} from '../../src/index.js'
import { clusteredRows } from '../rows.js'
import {
  applicable,
  COLUMNS,
  type ConformanceChecks,
  modelOrDataError,
  score,
  takes,
  train,
  variantsFor,
} from './fixtures.js'
export const DEGENERATE_ROWS_CHECKS: ConformanceChecks = {
  'the largest finite numbers score without NaN': (detector) => {
    for (const options of variantsFor(detector)) {
      const model = train(detector, clusteredRows(60, COLUMNS), options)
      const rows = matrixOf(2, COLUMNS, new Float64Array(2 * COLUMNS).fill(Number.MAX_VALUE))
      rows.data.fill(-Number.MAX_VALUE, 0, 3)
      for (const s of score(model, rows)) expect(Number.isFinite(s)).toBe(true)
    }
  },

  'degenerate training rows give a finite model or a DataError that says what to do': (detector) => {
    const fill = (n: number, f: (row: number, column: number) => number) =>
      matrixOf(
        n,
        COLUMNS,
        Float64Array.from({ length: n * COLUMNS }, (_, at) => f(Math.floor(at / COLUMNS), at % COLUMNS)),
      )
    const normal = clusteredRows(60, COLUMNS)
    for (const variant of variantsFor(detector)) {
      const learn = (rows: Matrix, options: DetectorOptions = {}) =>
        train(detector, rows, { ...variant, ...options })
      expect(() => learn(fill(50, () => 3))).toThrow(DataError)
      expect(() => learn(fill(50, () => 3))).toThrow(/all training rows are equal/)
      expect(() => learn(fill(0, () => 0))).toThrow(/at least 2/)
      expect(() => learn(fill(1, () => 0))).toThrow(/at least 2/)
      const mostlyEqual = fill(50, (i) => (i < 45 ? 1 : i))
      if (takes(detector, 'bandwidthQuantile')) {
        expect(() => learn(mostlyEqual)).toThrow(/raise bandwidthQuantile above 0\.809/)
      }
      const defined = {
        'two rows': fill(2, (i, j) => i * j),
        'three rows': fill(3, (i, j) => i * j),
        'mostly equal rows and a high quantile': mostlyEqual,
        'two different rows, many times': fill(50, (i) => i % 2),
        'two different rows, unevenly': fill(50, (i) => (i < 20 ? 0 : 1)),
        'a constant column': fill(60, (i, j) => (j === 2 ? 5 : normal.data[i * COLUMNS + j]!)),
        'all columns but one constant': fill(60, (i, j) => (j === 2 ? i : 4)),
        'rows on a line': fill(60, (i, j) => i * (j + 1)),
        'one row far away': fill(60, (i, j) => (i === 0 ? 1e12 : normal.data[i * COLUMNS + j]!)),
      }
      for (const [name, rows] of Object.entries(defined)) {
        const model = modelOrDataError(() =>
          learn(rows, { bandwidthQuantile: 0.95, k: Math.min(3, rows.rows) }),
        )
        if (model === null) {
          // a full covariance over the rows themselves is singular where they lie on a line
          expect(detector, name).toBe('gmm')
          continue
        }
        expect(checkModel(model), name).toEqual(model)
        for (const s of score(model, rows)) expect(Number.isFinite(s), name).toBe(true)
      }
    }
  },

  'a size that is stated is held to, by name': (detector) => {
    const rows = clusteredRows(40, COLUMNS)
    const sizes: [options: DetectorOptions, most: number][] = [
      [{ m: 41 }, 40],
      [{ d: 41 }, 40],
      [{ m: 20, d: 21 }, 20],
      [{ k: 41 }, 40],
    ]
    for (const [options, most] of sizes) {
      const [field = '', found] = Object.entries(options).find(([, size]) => size === most + 1) ?? []
      if (!takes(detector, field)) continue
      const learn = () => fitDetector(rows, checkParameters({ ...options, detector }), createRng(5))
      expect(learn, field).toThrow(ArgumentError)
      expect(learn).toThrow(expect.objectContaining({ field }))
      expect(learn).toThrow(new RegExp(`^${field}: expected at most ${most}, .*, found ${found}$`))
      const fits = { ...options, [field]: most, detector }
      expect(fitDetector(rows, checkParameters(fits), createRng(5)).kind).toBe(detector)
    }
  },

  'a default that there are too few rows for is lowered, and the model says so': (detector) => {
    const options = applicable(detector, { bandwidthQuantile: 1 })
    const model = fitDetector(
      clusteredRows(4, COLUMNS),
      checkParameters({ ...options, detector }),
      createRng(5),
    )
    const notes = model.fitReport.notes.join()
    if (takes(detector, 'm')) expect(notes).toMatch(/m lowered from (100|128) to the 4/)
    if (takes(detector, 'k')) expect(notes).toMatch(/k lowered from 10 to [1-4]/)
    if (takes(detector, 'subsampleRows')) expect(notes).toMatch(/subsampleRows lowered from 256 to the 4/)
    if (!takes(detector, 'd')) return
    expect(modelEmbedding(model)?.dimensions).toBeLessThanOrEqual(4)
    expect(notes).toMatch(/d lowered from 5 to [1-4]/)
  },

  'a model keeps nothing of what was stated, and its parameters may be fitted to fewer rows': (detector) => {
    const sizes = { m: 30, d: 6, k: 30, neighbours: 30, subsampleRows: 30, components: 4 }
    const options = { ...applicable(detector, sizes), detector }
    const model = fitDetector(clusteredRows(40, COLUMNS), checkParameters(options), createRng(5))
    expect(model.parameters).not.toHaveProperty('stated')
    const few = fitDetector(clusteredRows(8, COLUMNS), model.parameters, createRng(5))
    expect(few.parameters).toEqual(model.parameters)
    expect(checkModel(few)).toEqual(few)
  },
}
