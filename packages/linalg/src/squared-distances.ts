import { ArgumentError, createMatrix, type Matrix } from '@oddflow/core'

/**
 * Products of row-major matrices: one leaf kernel for projecting rows, one plain product for cold paths.
 */

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

/**
 * Squared Euclidean distances between rows, by direct differences: Σ_t (x_t − y_t)², t ascending, one accumulator a
 * pair, never ‖x‖² + ‖y‖² − 2x·y, which loses small distances to cancellation. A distance has the same bits whichever
 * kernel made it and wherever its rows stand. The arrays are row-major blocks, the starts offsets of first elements.
 */

/** Rows of X that `squaredDistancesOfFour` takes. */
export const DISTANCE_TILE_ROWS = 4

/** out[outStart + j] = ‖x − y_j‖² for j < count, y_j the row at yStart + j · dimension. */
export function squaredDistances(
  x: Float64Array,
  xStart: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  out: Float64Array,
  outStart: number,
): void {
  const xEnd = xStart + dimension
  let j = 0
  let a = yStart
  for (; j + 4 <= count; j += 4) {
    let b = a + dimension
    let c = b + dimension
    let e = c + dimension
    const next = e + dimension
    let s0 = 0
    let s1 = 0
    let s2 = 0
    let s3 = 0
    for (let t = xStart; t < xEnd; t++) {
      const v = x[t]!
      const d0 = v - y[a++]!
      const d1 = v - y[b++]!
      const d2 = v - y[c++]!
      const d3 = v - y[e++]!
      s0 += d0 * d0
      s1 += d1 * d1
      s2 += d2 * d2
      s3 += d3 * d3
    }
    const o = outStart + j
    out[o] = s0
    out[o + 1] = s1
    out[o + 2] = s2
    out[o + 3] = s3
    a = next
  }
  for (; j < count; j++) {
    out[outStart + j] = squaredDistance(x, xStart, y, a, dimension)
    a += dimension
  }
}

/**
 * As `squaredDistances` for four rows of X that follow each other from xStart on; the distances of row r
 * stand at out[outStart + r · outStride + j].
 */
export function squaredDistancesOfFour(
  x: Float64Array,
  xStart: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  out: Float64Array,
  outStart: number,
  outStride: number,
): void {
  const x1 = xStart + dimension
  const x2 = x1 + dimension
  const x3 = x2 + dimension
  const o1 = outStart + outStride
  const o2 = o1 + outStride
  const o3 = o2 + outStride
  let j = 0
  let a = yStart
  for (; j + 2 <= count; j += 2) {
    let b = a + dimension
    const next = b + dimension
    let s0 = 0
    let s1 = 0
    let s2 = 0
    let s3 = 0
    let r0 = 0
    let r1 = 0
    let r2 = 0
    let r3 = 0
    for (let t = 0; t < dimension; t++) {
      const u = y[a++]!
      const w = y[b++]!
      let v = x[xStart + t]!
      let d = v - u
      s0 += d * d
      d = v - w
      r0 += d * d
      v = x[x1 + t]!
      d = v - u
      s1 += d * d
      d = v - w
      r1 += d * d
      v = x[x2 + t]!
      d = v - u
      s2 += d * d
      d = v - w
      r2 += d * d
      v = x[x3 + t]!
      d = v - u
      s3 += d * d
      d = v - w
      r3 += d * d
    }
    out[outStart + j] = s0
    out[outStart + j + 1] = r0
    out[o1 + j] = s1
    out[o1 + j + 1] = r1
    out[o2 + j] = s2
    out[o2 + j + 1] = r2
    out[o3 + j] = s3
    out[o3 + j + 1] = r3
    a = next
  }
  if (j < count) {
    out[outStart + j] = squaredDistance(x, xStart, y, a, dimension)
    out[o1 + j] = squaredDistance(x, x1, y, a, dimension)
    out[o2 + j] = squaredDistance(x, x2, y, a, dimension)
    out[o3 + j] = squaredDistance(x, x3, y, a, dimension)
  }
}

/** As `squaredDistancesOfFour` for `xCount` rows of X: four at a time, the rest one by one; the bits are the same. */
export function squaredDistancesOfRows(
  x: Float64Array,
  xStart: number,
  xCount: number,
  y: Float64Array,
  yStart: number,
  count: number,
  dimension: number,
  out: Float64Array,
  outStart: number,
  outStride: number,
): void {
  let i = 0
  for (; i + DISTANCE_TILE_ROWS <= xCount; i += DISTANCE_TILE_ROWS) {
    const at = outStart + i * outStride
    squaredDistancesOfFour(x, xStart + i * dimension, y, yStart, count, dimension, out, at, outStride)
  }
  for (; i < xCount; i++) {
    squaredDistances(x, xStart + i * dimension, y, yStart, count, dimension, out, outStart + i * outStride)
  }
}

/** ‖x − y‖² of two rows. */
export function squaredDistance(
  x: Float64Array,
  xStart: number,
  y: Float64Array,
  yStart: number,
  dimension: number,
): number {
  let sum = 0
  for (let t = 0; t < dimension; t++) {
    const difference = x[xStart + t]! - y[yStart + t]!
    sum += difference * difference
  }
  return sum
}
