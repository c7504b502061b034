/** Rows for tests: clusters of normal rows, made from a seed. */
import { createRng, type Matrix, matrixOf } from '@oddflow/core'

/** n rows in three clusters of different spread, `cols` wide. */
export function clusteredRows(n: number, cols: number, seed = 1): Matrix {
  const rng = createRng(seed)
  const data = new Float64Array(n * cols)
  for (let i = 0; i < n; i++) {
    const cluster = i % 3
    for (let j = 0; j < cols; j++) data[i * cols + j] = 10 * cluster + (cluster + 1) * 0.5 * rng.nextNormal()
  }
  return matrixOf(n, cols, data)
}

/** n rows far from all of `clusteredRows`, on the other side of nothing: between and beside the clusters. */
export function novelRows(n: number, cols: number, seed = 2): Matrix {
  const rng = createRng(seed)
  const data = Float64Array.from({ length: n * cols }, (_, at) => (at % 2 === 0 ? 14 : -3) + rng.nextNormal())
  return matrixOf(n, cols, data)
}
