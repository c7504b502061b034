/** Every k-th row of a stream of unknown length, at most `limit`: when it is full, every other row goes and k doubles. */
import { createMatrix, type Matrix } from '@oddflow/core'

export class RowSample {
  readonly #width: number
  readonly #limit: number
  #rows: Float64Array[] = []
  #step = 1
  #seen = 0

  constructor(width: number, limit: number) {
    this.#width = width
    this.#limit = limit
  }

  /** Copies the row when it is one of those kept. */
  add(row: Float64Array): void {
    if (this.#seen++ % this.#step !== 0) return
    if (this.#rows.length === this.#limit) {
      this.#rows = this.#rows.filter((_, i) => i % 2 === 0)
      this.#step *= 2
      if ((this.#seen - 1) % this.#step !== 0) return
    }
    this.#rows.push(row.slice())
  }

  matrix(): Matrix {
    return rowMatrix(this.#rows, this.#width)
  }
}

/** Rows of one width, one after another. */
export function rowMatrix(rows: readonly Float64Array[], width: number): Matrix {
  const matrix = createMatrix(rows.length, width)
  rows.forEach((row, i) => {
    matrix.data.set(row, i * width)
  })
  return matrix
}
