/**
 * Runs over the squared distances of all pairs of rows, each pair once: four rows against all that follow them, and
 * the six pairs among the four.
 *
 * On SIMD kernels all rows stand in panels of four, so what follows four rows is the panels after theirs; the last
 * one may have lanes without a row, which are left out. Both paths visit the same numbers in the same order.
 */
import type { Matrix } from '@oddflow/core'
import { MemoryLayout } from './simd/memory-layout.js'
import { PANEL_LANES_F64, packPanels, panelCount } from './simd/panels.js'
import { type SimdKernels, type SimdProgram, simdKernels } from './simd/simd-kernels.js'
import { DISTANCE_TILE_ROWS, squaredDistances, squaredDistancesOfFour } from './squared-distances.js'

/** values[start … start + count) are squared distances; the array is good during the call alone. */
export type PairVisitor = (values: Float64Array, start: number, count: number) => void

/** `visit` may not use the SIMD kernels. */
export function forEachPairRun(rows: Matrix, visit: PairVisitor, simd = true): void {
  const kernels = simd ? simdKernels() : null
  const { rows: n, cols, data } = rows
  const ofFour = (kernels === null ? null : createSimdRuns(kernels, rows)) ?? createTypedRuns(rows)
  const few = new Float64Array(DISTANCE_TILE_ROWS)
  let i = 0
  for (; i + DISTANCE_TILE_ROWS <= n; i += DISTANCE_TILE_ROWS) {
    const after = i + DISTANCE_TILE_ROWS
    ofFour(i, visit)
    for (let a = i; a + 1 < after; a++) visitRow(a, after - a - 1)
  }
  for (; i + 1 < n; i++) visitRow(i, n - i - 1)

  /** Row a against the `count` rows after it, fewer than four. */
  function visitRow(a: number, count: number): void {
    squaredDistances(data, a * cols, data, (a + 1) * cols, count, cols, few, 0)
    visit(few, 0, count)
  }
}

/** Visits rows i to i + 3 against all that follow. */
type RunsOfFour = (i: number, visit: PairVisitor) => void

function createTypedRuns({ rows: n, cols, data }: Matrix): RunsOfFour {
  const tile = new Float64Array(DISTANCE_TILE_ROWS * n)
  return (i, visit) => {
    const after = i + DISTANCE_TILE_ROWS
    const count = n - after
    squaredDistancesOfFour(data, i * cols, data, after * cols, count, cols, tile, 0, count)
    for (let r = 0; r < DISTANCE_TILE_ROWS; r++) visit(tile, r * count, count)
  }
}

/** null where the rows do not fit. */
function createSimdRuns(kernels: SimdKernels, { rows: n, cols, data }: Matrix): RunsOfFour | null {
  const panels = panelCount(n, PANEL_LANES_F64)
  const layout = new MemoryLayout()
  const panelsAt = layout.float64(panels * PANEL_LANES_F64 * cols)
  const outAt = layout.float64(DISTANCE_TILE_ROWS * PANEL_LANES_F64 * panels)
  const program: SimdProgram = {
    bytes: layout.bytes,
    load: ({ f64 }) => packPanels(data, 0, n, cols, PANEL_LANES_F64, f64, panelsAt / 8),
  }
  const memory = kernels.enter(program)
  if (memory === null) return null
  const { f64 } = memory
  return (i, visit) => {
    const after = i + DISTANCE_TILE_ROWS
    const first = after / PANEL_LANES_F64
    const stride = PANEL_LANES_F64 * (panels - first)
    // a panel of four rows is what the kernel takes for X, too
    const x = panelsAt + 8 * i * cols
    const y = panelsAt + 8 * after * cols
    kernels.run.squaredDistancesF64(x, DISTANCE_TILE_ROWS, y, panels - first, cols, outAt, stride)
    for (let r = 0; r < DISTANCE_TILE_ROWS; r++) visit(f64, outAt / 8 + r * stride, n - after)
  }
}
