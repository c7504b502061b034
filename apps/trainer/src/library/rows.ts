/** What a caller of the library may give as rows, as the one shape that detectors take. */
import { ArgumentError, asMatrix, type Matrix, type MatrixLike, matrixOf } from '@oddflow/core'

/**
 * Feature rows: an array of rows, a Matrix record, a Matrix of ml-matrix, or all numbers in one typed array, row after
 * row.
 */
export type Rows = readonly ArrayLike<number>[] | Matrix | MatrixLike | Float64Array | Float32Array

const EXPECTED =
  'rows such as [[1, 2], [3, 4]], a Matrix, a typed array with its number of columns, or flows of readFlows'

/**
 * Copies what is no Matrix record yet. Throws ArgumentError that names the argument `rows`.
 * @param columns of a typed array, which has none itself
 */
export function matrixFrom(rows: unknown, columns: number | undefined): Matrix {
  if (rows instanceof Float64Array || rows instanceof Float32Array) return matrixOfNumbers(rows, columns)
  if (Array.isArray(rows)) return matrixOfRows(rows)
  if (isObject(rows) && 'get' in rows && 'columns' in rows) return asMatrix(rows as unknown as MatrixLike)
  if (isObject(rows) && 'data' in rows && 'rows' in rows && 'cols' in rows) {
    if (!(rows.data instanceof Float64Array)) {
      throw new ArgumentError(`rows.data: expected a Float64Array, found ${describe(rows.data)}`, 'rows')
    }
    return asMatrix(rows as unknown as Matrix)
  }
  throw new ArgumentError(`rows: expected ${EXPECTED}, found ${describe(rows)}`, 'rows')
}

function matrixOfNumbers(numbers: Float64Array | Float32Array, columns: number | undefined): Matrix {
  const found = `found a ${describe(numbers)}`
  if (columns === undefined) {
    throw new ArgumentError(`columns: expected the number of columns of the typed array, ${found}`, 'columns')
  }
  if (!Number.isSafeInteger(columns) || columns < 1) {
    throw new ArgumentError(
      `columns: expected a whole number of 1 or more, found ${describe(columns)}`,
      'columns',
    )
  }
  if (numbers.length % columns !== 0) {
    throw new ArgumentError(`rows: expected a multiple of ${columns} numbers, ${found}`, 'rows')
  }
  return matrixOf(numbers.length / columns, columns, Float64Array.from(numbers))
}

function matrixOfRows(rows: readonly unknown[]): Matrix {
  const [first] = rows
  if (rows.length > 0 && !isRow(first)) {
    throw new ArgumentError(`rows: expected ${EXPECTED}, found an array of ${describe(first)}`, 'rows')
  }
  const cols = (first as ArrayLike<number> | undefined)?.length ?? 0
  const data = new Float64Array(rows.length * cols)
  for (const [i, row] of rows.entries()) {
    if (!isRow(row) || row.length !== cols) {
      const found = isRow(row) ? String(row.length) : describe(row)
      throw new ArgumentError(`rows[${i}]: expected ${cols} numbers as in rows[0], found ${found}`, 'rows')
    }
    for (let j = 0; j < cols; j++) {
      const value: unknown = row[j]
      if (typeof value !== 'number') {
        throw new ArgumentError(`rows[${i}][${j}]: expected a number, found ${describe(value)}`, 'rows')
      }
      data[i * cols + j] = value
    }
  }
  return matrixOf(rows.length, cols, data)
}

function isRow(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || value instanceof Float64Array || value instanceof Float32Array
}

/** Throws ArgumentError for options that are no object, or for one that has no meaning here. */
export function checkOptionNames(options: unknown, known: readonly string[]): void {
  if (!isObject(options)) {
    throw new ArgumentError(`options: expected an object, found ${describe(options)}`, 'options')
  }
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown !== undefined) {
    throw new ArgumentError(`${unknown}: no such option; expected some of ${known.join(', ')}`, unknown)
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** A value that was found where another was expected, in a few words. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object' || value === null) return String(value)
  const name: unknown = value.constructor?.name
  const length = 'length' in value && typeof value.length === 'number' ? ` of ${value.length}` : ''
  return typeof name !== 'string' || name === '' || name === 'Object' ? 'an object' : `${name}${length}`
}
