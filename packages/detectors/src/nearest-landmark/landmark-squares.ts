/**
 * LandmarkSquares: squared distances of a few rows at a time to all landmarks.
 *
 * On SIMD kernels the landmarks are laid out once and the squares are left where the kernels put them: `values` is a
 * view that is good until the next call of anything that uses kernels. Without SIMD it is a typed array; the bits are
 * the same.
 */
import type { Matrix } from '@oddflow/core'
import {
  DISTANCE_TILE_ROWS,
  MemoryLayout,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
  squaredDistances,
  squaredDistancesOfFour,
} from '@oddflow/linalg'

/** Most rows of one call. */
export const SQUARES_TILE_ROWS = 8

export interface LandmarkSquares {
  /** ‖x_r − landmark_j‖² of the last call at offset + r · stride + j. */
  values: Float64Array
  offset: number
  stride: number
  /** For `count` rows from element `start` of `rows` on, at most SQUARES_TILE_ROWS. */
  compute(rows: Float64Array, start: number, count: number): void
}

export function createLandmarkSquares(landmarks: Matrix, simd: boolean): LandmarkSquares {
  const kernels = simd ? simdKernels() : null
  return kernels === null ? createTypedSquares(landmarks) : createSimdSquares(kernels, landmarks)
}

function createTypedSquares({ rows: m, cols, data }: Matrix): LandmarkSquares {
  const values = new Float64Array(SQUARES_TILE_ROWS * m)
  return {
    values,
    offset: 0,
    stride: m,
    compute(rows, start, count) {
      let r = 0
      for (; r + DISTANCE_TILE_ROWS <= count; r += DISTANCE_TILE_ROWS) {
        squaredDistancesOfFour(rows, start + r * cols, data, 0, m, cols, values, r * m, m)
      }
      for (; r < count; r++) squaredDistances(rows, start + r * cols, data, 0, m, cols, values, r * m)
    },
  }
}

function createSimdSquares({ run, enter }: SimdKernels, landmarks: Matrix): LandmarkSquares {
  const { rows: m, cols, data } = landmarks
  const panels = panelCount(m, PANEL_LANES_F64)
  const stride = panels * PANEL_LANES_F64
  const layout = new MemoryLayout()
  const xAt = layout.float64(SQUARES_TILE_ROWS * cols)
  const valuesAt = layout.float64(SQUARES_TILE_ROWS * stride)
  const panelsAt = layout.float64(stride * cols)
  const program: SimdProgram = {
    bytes: layout.bytes,
    load({ f64 }) {
      packPanels(data, 0, m, cols, PANEL_LANES_F64, f64, panelsAt / 8)
    },
  }
  let fallback: LandmarkSquares | undefined
  return {
    values: new Float64Array(0),
    offset: valuesAt / 8,
    stride,
    compute(rows, start, count) {
      const memory = enter(program)
      if (memory === null) {
        fallback ??= createTypedSquares(landmarks)
        fallback.compute(rows, start, count)
        this.values = fallback.values
        this.offset = 0
        this.stride = fallback.stride
        return
      }
      packRows(rows, start, count, cols, memory.f64, xAt / 8)
      run.squaredDistancesF64(xAt, count, panelsAt, panels, cols, valuesAt, stride)
      this.values = memory.f64
      this.offset = valuesAt / 8
      this.stride = stride
    },
  }
}
