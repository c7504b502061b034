import { describe, expect, it } from 'vitest'
import {
  ArgumentError,
  asMatrix,
  checkFinite,
  concatRows,
  createMatrix,
  matrixFromRows,
  matrixOf,
  takeRows,
} from '../src/index.js'

const rows = [
  [1, 2, 3],
  [4, 5, 6],
]
const m = matrixFromRows(rows)

describe('matrix', () => {
  it('is row-major', () => {
    expect(m).toEqual({ rows: 2, cols: 3, data: Float64Array.of(1, 2, 3, 4, 5, 6) })
    expect(createMatrix(2, 2).data).toEqual(new Float64Array(4))
    expect(matrixFromRows([])).toEqual({ rows: 0, cols: 0, data: new Float64Array(0) })
  })

  it('wraps without a copy and passes a Matrix through', () => {
    const data = new Float64Array(6)
    expect(matrixOf(2, 3, data).data).toBe(data)
    expect(asMatrix(m)).toBe(m)
  })

  it('copies an ml-matrix one, whose rows are separate arrays', () => {
    const like = { rows: 2, columns: 3, get: (i: number, j: number) => rows[i]![j]! }
    expect(asMatrix(like)).toEqual(m)
  })

  it('takes rows in the order asked, repeats included, and stacks', () => {
    expect(takeRows(m, [1, 0, 1]).data).toEqual(Float64Array.of(4, 5, 6, 1, 2, 3, 4, 5, 6))
    expect(concatRows([m, takeRows(m, [0])]).data).toEqual(Float64Array.of(1, 2, 3, 4, 5, 6, 1, 2, 3))
    expect(concatRows([])).toEqual({ rows: 0, cols: 0, data: new Float64Array(0) })
  })

  it.each<[string, () => unknown, RegExp]>([
    ['a short array', () => matrixOf(2, 2, new Float64Array(3)), /2 × 2 = 4 numbers, found 3/],
    ['a fractional size', () => createMatrix(1.5, 2), /rows/],
    ['a negative size', () => createMatrix(1, -2), /cols/],
    ['ragged rows', () => matrixFromRows([[1, 2], [3]]), /row 1/],
    ['a row out of range', () => takeRows(m, [2]), /indices\[0\]/],
    ['a fractional row', () => takeRows(m, [0.5]), /indices\[0\]/],
    ['stacks of two widths', () => concatRows([m, createMatrix(1, 2)]), /matrix 1/],
    ['a lying Matrix', () => asMatrix({ rows: 3, cols: 3, data: new Float64Array(1) }), /3 × 3/],
    ['no matrix', () => asMatrix(null as never), /expected/],
  ])('refuses %s', (_, call, message) => {
    expect(call).toThrow(ArgumentError)
    expect(call).toThrow(message)
  })

  it('names the first value that is not finite', () => {
    expect(() => checkFinite(m)).not.toThrow()
    const bad = matrixOf(2, 2, Float64Array.of(1, 2, Number.NaN, Number.POSITIVE_INFINITY))
    expect(() => checkFinite(bad, 'X')).toThrow('X: row 1, column 0')
  })
})
