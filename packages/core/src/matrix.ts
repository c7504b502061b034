/**
 * A dense, row-major block of float64 as plain data, the one shape in which numbers travel between packages.
 * `asMatrix` copies a matrix of ml-matrix, so that users can pass one to any public function.
 */
import { ArgumentError } from './errors.js'

/** A dense matrix: element (i, j) is `data[i * cols + j]`. */
export interface Matrix {
  readonly rows: number
  readonly cols: number
  /** Row-major, length rows * cols. */
  readonly data: Float64Array
}

/** The part of an ml-matrix `Matrix` (AbstractMatrix) that is needed to copy one. */
export interface MatrixLike {
  readonly rows: number
  readonly columns: number
  get(row: number, column: number): number
}

/** A matrix of zeros. Throws ArgumentError when a size is not a whole number ≥ 0. */
export function createMatrix(rows: number, cols: number): Matrix {
  checkSize('rows', rows)
  checkSize('cols', cols)
  return { rows, cols, data: new Float64Array(rows * cols) }
}

/** Wraps `data` without copying it. Throws ArgumentError when its length is not rows * cols. */
export function matrixOf(rows: number, cols: number, data: Float64Array): Matrix {
  checkShape(rows, cols, data)
  return { rows, cols, data }
}

function checkShape(rows: number, cols: number, data: Float64Array): void {
  checkSize('rows', rows)
  checkSize('cols', cols)
  if (data.length !== rows * cols) {
    throw new ArgumentError(`data: expected ${rows} × ${cols} = ${rows * cols} numbers, found ${data.length}`)
  }
}

/** Copies rows of equal length. No rows give a 0 × 0 matrix. */
export function matrixFromRows(rows: readonly ArrayLike<number>[]): Matrix {
  const cols = rows.length === 0 ? 0 : rows[0]!.length
  const out = createMatrix(rows.length, cols)
  rows.forEach((row, i) => {
    if (row.length !== cols) {
      throw new ArgumentError(`row ${i}: expected ${cols} numbers as in row 0, found ${row.length}`)
    }
    out.data.set(row as ArrayLike<number>, i * cols)
  })
  return out
}

/** Returns a Matrix as it is, and copies an ml-matrix one. */
export function asMatrix(input: Matrix | MatrixLike): Matrix {
  if (input !== null && typeof input === 'object') {
    if ('data' in input && input.data instanceof Float64Array && 'cols' in input) {
      checkShape(input.rows, input.cols, input.data)
      return input
    }
    if ('get' in input && typeof input.get === 'function' && 'columns' in input) {
      const out = createMatrix(input.rows, input.columns)
      for (let i = 0; i < out.rows; i++) {
        for (let j = 0; j < out.cols; j++) out.data[i * out.cols + j] = input.get(i, j)
      }
      return out
    }
  }
  throw new ArgumentError('matrix: expected { rows, cols, data: Float64Array } or an ml-matrix Matrix')
}

/** Copies the rows whose numbers stand in `indices`, in that order. */
export function takeRows(matrix: Matrix, indices: ArrayLike<number>): Matrix {
  const { cols, data } = matrix
  const out = createMatrix(indices.length, cols)
  for (let i = 0; i < indices.length; i++) {
    const row = indices[i]!
    if (!Number.isInteger(row) || row < 0 || row >= matrix.rows) {
      throw new ArgumentError(`indices[${i}]: expected a row number below ${matrix.rows}, found ${row}`)
    }
    out.data.set(data.subarray(row * cols, (row + 1) * cols), i * cols)
  }
  return out
}

/** Stacks matrices of equal width. */
export function concatRows(parts: readonly Matrix[]): Matrix {
  const cols = parts.length === 0 ? 0 : parts[0]!.cols
  let rows = 0
  parts.forEach((part, i) => {
    if (part.cols !== cols) {
      throw new ArgumentError(`matrix ${i}: expected ${cols} columns as in matrix 0, found ${part.cols}`)
    }
    rows += part.rows
  })
  const out = createMatrix(rows, cols)
  let at = 0
  for (const part of parts) {
    out.data.set(part.data, at)
    at += part.data.length
  }
  return out
}

/** Throws ArgumentError that names the first value that is not finite. */
export function checkFinite(matrix: Matrix, name = 'matrix'): void {
  const { data, cols } = matrix
  if (areFinite(data)) return
  for (let i = 0; i < data.length; i++) {
    if (!Number.isFinite(data[i]!)) {
      throw new ArgumentError(
        `${name}: row ${Math.floor(i / cols)}, column ${i % cols}: expected a finite number, found ${data[i]}`,
      )
    }
  }
}

/** 0 times a number is 0, and NaN where it is not finite; four sums, so that additions need not wait. */
function areFinite(data: Float64Array): boolean {
  const { length } = data
  let a = 0
  let b = 0
  let c = 0
  let d = 0
  let i = 0
  for (; i + 4 <= length; i += 4) {
    a += data[i]! * 0
    b += data[i + 1]! * 0
    c += data[i + 2]! * 0
    d += data[i + 3]! * 0
  }
  for (; i < length; i++) a += data[i]! * 0
  return a + b + c + d === 0
}

function checkSize(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new ArgumentError(`${name}: expected a whole number of 0 or more, found ${value}`)
  }
}
