/**
 * Panels: rows laid side by side for the distance kernels, four rows of float64 or eight of float32 at a time; and
 * the rows that are measured against them, four at a time.
 *
 * Element (panel · dimension + t) · lanes + lane is column t of row panel · lanes + lane; lanes without a row are
 * 0, and whoever reads results leaves them out.
 */

import { LARGEST_FLOAT32, toFloat32, toFloat32Into } from '../precision.js'

export const PANEL_LANES_F64 = 4
export const PANEL_LANES_F32 = 8

export function panelCount(rows: number, lanes: number): number {
  return Math.ceil(rows / lanes)
}

/** Lays out `count` rows of `source` (row-major, `dimension` wide, from element `start` on) at `out[outStart]`. */
export function packPanels(
  source: Float64Array,
  start: number,
  count: number,
  dimension: number,
  lanes: number,
  out: Float64Array | Float32Array,
  outStart: number,
): void {
  const panels = panelCount(count, lanes)
  out.fill(0, outStart, outStart + panels * lanes * dimension)
  let from = start
  for (let row = 0; row < count; row++) {
    const lane = row % lanes
    let to = outStart + (row - lane) * dimension + lane
    for (let t = 0; t < dimension; t++, to += lanes) out[to] = source[from++]!
  }
}

/** Rows of X that the distance kernels take at a time. */
export const ROW_GROUP = 4

/**
 * Lays out `count` rows of `source` (row-major, `dimension` wide, from element `start` on) at `out[outStart]` as the
 * distance kernels take X: groups of ROW_GROUP rows column after column, what is left row after row.
 */
export function packRows(
  source: Float64Array,
  start: number,
  count: number,
  dimension: number,
  out: Float64Array,
  outStart: number,
): void {
  let from = start
  let to = outStart
  for (let left = count; left >= ROW_GROUP; left -= ROW_GROUP) {
    const second = from + dimension
    const third = second + dimension
    const fourth = third + dimension
    for (let t = 0; t < dimension; t++, to += ROW_GROUP) {
      out[to] = source[from + t]!
      out[to + 1] = source[second + t]!
      out[to + 2] = source[third + t]!
      out[to + 3] = source[fourth + t]!
    }
    from = fourth + dimension
  }
  const end = outStart + count * dimension
  while (to < end) out[to++] = source[from++]!
}

/** As `packRows`, each number as `toFloat32` has it. */
export function packRowsFloat32(
  source: Float64Array,
  start: number,
  count: number,
  dimension: number,
  out: Float32Array,
  outStart: number,
): void {
  let from = start
  let to = outStart
  for (let left = count; left >= ROW_GROUP; left -= ROW_GROUP) {
    const second = from + dimension
    const third = second + dimension
    const fourth = third + dimension
    for (let t = 0; t < dimension; t++, to += ROW_GROUP) {
      const a = source[from + t]!
      const b = source[second + t]!
      const c = source[third + t]!
      const d = source[fourth + t]!
      out[to] = Math.abs(a) <= LARGEST_FLOAT32 ? a : toFloat32(a)
      out[to + 1] = Math.abs(b) <= LARGEST_FLOAT32 ? b : toFloat32(b)
      out[to + 2] = Math.abs(c) <= LARGEST_FLOAT32 ? c : toFloat32(c)
      out[to + 3] = Math.abs(d) <= LARGEST_FLOAT32 ? d : toFloat32(d)
    }
    from = fourth + dimension
  }
  toFloat32Into(source, from, count * dimension - (to - outStart), out, to)
}
