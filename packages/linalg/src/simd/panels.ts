/**
 * Panels: rows laid side by side for the distance kernels, four rows of float64 or eight of float32 at a time.
 *
 * Element (panel · dimension + t) · lanes + lane is column t of row panel · lanes + lane; lanes without a row are
 * 0, and whoever reads results leaves them out.
 */

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
