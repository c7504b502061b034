/**
 * RowSample: every k-th row of a stream of unknown length, at most `limit` of them: when it is full, every
 * other row is dropped and k doubles. For pictures, which need a fair sample and no more.
 */
import { type Matrix, matrixOf } from '@oddflow/core'

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
    const data = new Float64Array(this.#rows.length * this.#width)
    this.#rows.forEach((row, i) => {
      data.set(row, i * this.#width)
    })
    return matrixOf(this.#rows.length, this.#width, data)
  }
}
