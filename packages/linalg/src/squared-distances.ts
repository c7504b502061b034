/**
 * Squared Euclidean distances from one row to many, by direct differences.
 *
 * Σ_t (x_t − y_t)², t ascending, one accumulator a pair: never ‖x‖² + ‖y‖² − 2x·y, which loses small
 * distances to cancellation and can fall below 0. Four rows of Y are taken at once so that four additions are
 * in flight; each pair still adds its terms in the same order, so a distance has the same bits wherever its
 * row stands, and d(x, y) = d(y, x).
 *
 * The arrays are row-major blocks, `xStart` and `yStart` offsets of first elements; nothing is allocated.
 */

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
    const xEnd = xStart + dimension
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
