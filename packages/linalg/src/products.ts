/**
 * Products of row-major matrices: one leaf kernel for projecting rows, one plain product for cold paths.
 */
import { ArgumentError, createMatrix, type Matrix } from '@oddflow/core'

/**
 * out[outStart + r] = Σ_t a[r, t] · v[vStart + t] for each of `rows` rows of `a` (row-major, `cols` wide).
 * t ascending, one accumulator a row, four rows in flight.
 */
export function matrixTimesVector(
  a: Float64Array,
  rows: number,
  cols: number,
  v: Float64Array,
  vStart: number,
  out: Float64Array,
  outStart: number,
): void {
  let r = 0
  for (; r + 4 <= rows; r += 4) {
    let i0 = r * cols
    let i1 = i0 + cols
    let i2 = i1 + cols
    let i3 = i2 + cols
    let s0 = 0
    let s1 = 0
    let s2 = 0
    let s3 = 0
    const end = vStart + cols
    for (let t = vStart; t < end; t++) {
      const x = v[t]!
      s0 += a[i0++]! * x
      s1 += a[i1++]! * x
      s2 += a[i2++]! * x
      s3 += a[i3++]! * x
    }
    out[outStart + r] = s0
    out[outStart + r + 1] = s1
    out[outStart + r + 2] = s2
    out[outStart + r + 3] = s3
  }
  for (; r < rows; r++) {
    const start = r * cols
    let sum = 0
    for (let t = 0; t < cols; t++) sum += a[start + t]! * v[vStart + t]!
    out[outStart + r] = sum
  }
}

/** A·B. Throws ArgumentError when the shapes do not fit. */
export function multiply(a: Matrix, b: Matrix): Matrix {
  if (a.cols !== b.rows) throw new ArgumentError(`b: expected ${a.cols} rows, found ${b.rows}`, 'b')
  const out = createMatrix(a.rows, b.cols)
  for (let i = 0; i < a.rows; i++) {
    for (let t = 0; t < a.cols; t++) {
      const x = a.data[i * a.cols + t]!
      for (let j = 0; j < b.cols; j++) out.data[i * b.cols + j]! += x * b.data[t * b.cols + j]!
    }
  }
  return out
}
