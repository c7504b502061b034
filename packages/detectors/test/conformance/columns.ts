/** Columns of one number, and the column of names. */
import { ArgumentError, createRng, type Matrix, matrixOf } from '@oddflow/core'
import { expect } from 'vitest'
import {
  checkModel,
  checkParameters,
  createExplainer,
  type DetectorOptions,
  type FitOptions,
  fitDetector,
  modelEmbedding,
} from '../../src/index.js'
import { clusteredRows } from '../rows.js'
import { applicable, COLUMNS, type ConformanceChecks, score, variantsFor } from './fixtures.js'

const CONSTANT = 2
const CATEGORY = 3

function withColumn(rows: Matrix, column: number, value: (row: number) => number): Matrix {
  const data = rows.data.slice()
  for (let i = 0; i < rows.rows; i++) data[i * rows.cols + column] = value(i)
  return matrixOf(rows.rows, rows.cols, data)
}

/** With one more column, of names. */
function withNames(rows: Matrix, name: (row: number) => number): Matrix {
  const cols = rows.cols + 1
  const data = new Float64Array(rows.rows * cols)
  for (let i = 0; i < rows.rows; i++) {
    for (let j = 0; j < cols; j++) {
      const from = j < CATEGORY ? j : j - 1
      data[i * cols + j] = j === CATEGORY ? name(i) : rows.data[i * rows.cols + from]!
    }
  }
  return matrixOf(rows.rows, cols, data)
}

export const COLUMNS_CHECKS: ConformanceChecks = {
  'a value that differs in a constant column counts': (detector) => {
    const rows = withColumn(clusteredRows(120, COLUMNS), CONSTANT, () => 5)
    const normal = withColumn(clusteredRows(30, COLUMNS, 9), CONSTANT, () => 5)
    for (const options of variantsFor(detector)) {
      const given = { ...applicable(detector, { m: 30, trees: 50, ...options }), detector }
      const model = fitDetector(rows, checkParameters(given), createRng(5))
      const usual = score(model, normal)
      for (const value of [4, 6, 500]) {
        const changed = score(
          model,
          withColumn(normal, CONSTANT, () => value),
        )
        // an isolation tree splits between values that it was grown on, and there is but one
        if (detector === 'iforest') expect(changed).toEqual(usual)
        for (let i = 0; i < 30 && detector !== 'iforest'; i++) {
          const what = `${JSON.stringify(options)}, ${value}, row ${i}`
          expect(changed[i], what).not.toBe(usual[i])
          // an embedding may carry a row that differs a little to where it is denser; without a guard, a far one too
          const isSure = value === 500 ? options.supportGuard !== false : modelEmbedding(model) === null
          if (isSure) expect(changed[i], what).toBeLessThan(usual[i]!)
        }
      }
    }
  },

  'a column of names enters no distance and no density': (detector) => {
    const rows = clusteredRows(120, COLUMNS)
    const normal = clusteredRows(30, COLUMNS, 9)
    const learn = (of: Matrix, options: DetectorOptions, fit: FitOptions = {}) => {
      const given = { ...applicable(detector, { m: 30, trees: 10, ...options }), detector }
      return fitDetector(of, checkParameters(given), createRng(5), fit)
    }
    for (const options of variantsFor(detector)) {
      const named = learn(
        withNames(rows, (i) => (i % 3) * 1e6),
        options,
        { categoryColumn: CATEGORY },
      )
      expect(checkModel(named)).toEqual(named)
      expect(named.fitReport.dimension).toBe(COLUMNS + 1)
      const known = score(
        named,
        withNames(normal, (i) => (i % 3) * 1e6),
      )
      const unknown = score(
        named,
        withNames(normal, () => 77),
      )
      if (detector === 'ensemble') {
        // a service that nobody used is further from all, and whatever its number it is one
        for (let i = 0; i < 30; i++) expect(unknown[i]!).toBeLessThan(known[i]!)
        expect(
          score(
            named,
            withNames(normal, () => -5e9),
          ),
        ).toEqual(unknown)
      } else {
        expect(known).toEqual(score(learn(rows, options), normal))
        expect(unknown).toEqual(known)
      }
      const row = withNames(normal, () => 77).data.slice(0, COLUMNS + 1)
      row[0] = -300
      const explained = createExplainer(named)?.explain(
        row,
        score(named, matrixOf(1, COLUMNS + 1, row))[0]!,
        Number.POSITIVE_INFINITY,
      )
      for (const { column, value } of explained?.features ?? []) {
        expect(column).not.toBe(CATEGORY)
        expect(value).toBe(row[column])
      }
    }
    for (const categoryColumn of [-1, 0.5, COLUMNS, Number.NaN]) {
      expect(() => learn(rows, {}, { categoryColumn })).toThrow(ArgumentError)
    }
    expect(() => learn(matrixOf(3, 1, Float64Array.of(1, 2, 3)), {}, { categoryColumn: 0 })).toThrow(
      /categoryColumn: expected one of several columns/,
    )
    const equal = withNames(matrixOf(9, COLUMNS, new Float64Array(9 * COLUMNS)), (i) => i)
    expect(() => learn(equal, {}, { categoryColumn: CATEGORY })).toThrow(/all training rows are equal/)
  },
}
