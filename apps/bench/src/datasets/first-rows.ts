/** The first so many training rows: what a sweep over n, or a stated n, trains on. */
import { DataError, type Matrix, matrixOf } from '@oddflow/core'

/** `count` null: all of them. Throws DataError that begins with `name` where there are fewer. */
export function firstRows(rows: Matrix, count: number | null, name: string): Matrix {
  if (count === null || count === rows.rows) return rows
  if (count > rows.rows) throw new DataError(`${name}: expected ${count} training rows, found ${rows.rows}`)
  return matrixOf(count, rows.cols, rows.data.slice(0, count * rows.cols))
}
