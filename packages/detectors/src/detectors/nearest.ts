/** nearest: the distance to the nearest of m landmarks, cheaper than every method of the paper. */

import { MAXIMUM_DIMENSION, type Matrix, type Rng, takeRows } from '@oddflow/core'
import {
  MemoryLayout,
  PANEL_LANES_F64,
  packPanels,
  packRows,
  panelCount,
  type SimdKernels,
  type SimdProgram,
  simdKernels,
  squaredDistancesOfRows,
} from '@oddflow/linalg'
import type { DetectorDefinition, FitContext } from '../detector.js'
import { chooseLandmarks, FAR_SCALE, landmarkNotes } from '../embedding/landmarks.js'
import type { CWriter } from '../export-c/c-text.js'
import { type Fitted, fitStandalone, standalone } from '../families/standalone.js'
import { fieldsAt, literalAt, matrixAt, sizeUpTo, wholeAt } from '../fields.js'
import type { ModelFrame } from '../model.js'
import { matrixTensor } from '../model-file/layout.js'
import type { CommonParameters, LandmarkChoice } from '../parameters.js'

/**
 * LandmarkSquares: squared distances of a few rows at a time to all landmarks.
 *
 * With SIMD kernels, the landmarks are laid out once and the squares stay in kernel memory: `values` is a view that is
 * valid until the next use of any kernel. Without SIMD it is a typed array with the same bits.
 */

/** Most rows of one call. */
export const SQUARES_TILE_ROWS = 8

interface LandmarkSquares {
  /** ‖x_r − landmark_j‖² of the last call, at offset + r · stride + j. */
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
      squaredDistancesOfRows(rows, start, count, data, 0, m, cols, values, 0, m)
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

/**
 * Distance to the nearest of m landmarks, which are training rows (landmarks.ts): −min_j ‖x − landmark_j‖, the
 * one-class nearest neighbor method of Tax and Duin (1998) over a sample. It orders rows like the largest kernel value
 * over the landmarks. If squares overflow, the distance is computed from scaled numbers, up to the largest float64.
 */

export interface NearestLandmarkModel {
  readonly kind: 'nearest-landmark'
  /** m × D, training rows in the order chosen. */
  readonly landmarks: Matrix
}

/** Scratch for one model and one caller at a time. */
interface NearestLandmarkWorkspace {
  readonly squares: LandmarkSquares
}

const MAXIMUM_LANDMARKS = 1_000_000

/** Random landmarks come from the fork `landmarks` of `rng`. */
export function fitNearestLandmark(
  rows: Matrix,
  { m, landmarks: choice }: Pick<NearestParameters, 'm' | 'landmarks'>,
  rng: Rng,
): Fitted<NearestLandmarkModel> {
  const landmarks = takeRows(rows, chooseLandmarks(rows, m, choice, rng))
  const notes = landmarkNotes(m, landmarks.rows, rows.rows)
  return { model: { kind: 'nearest-landmark', landmarks }, notes }
}

/** Without `simd`: uses typed arrays even if SIMD kernels are available. Scores have the same bits. */
export function createNearestLandmarkWorkspace(
  model: NearestLandmarkModel,
  simd = true,
): NearestLandmarkWorkspace {
  return { squares: createLandmarkSquares(model.landmarks, simd) }
}

/** out[i] = −distance of row i to its nearest landmark, finite, at most 0; returns `out`. */
export function scoreNearestLandmark(
  { landmarks }: NearestLandmarkModel,
  { rows: n, cols, data }: Matrix,
  out: Float64Array,
  { squares }: NearestLandmarkWorkspace,
): Float64Array {
  for (let i = 0; i < n; i += SQUARES_TILE_ROWS) {
    const count = Math.min(SQUARES_TILE_ROWS, n - i)
    squares.compute(data, i * cols, count)
    for (let r = 0; r < count; r++) {
      // 0 − 0 is +0, where −0 would not survive JSON
      out[i + r] = 0 - nearestDistance(landmarks, 0, landmarks.rows, squares, r, data, (i + r) * cols)
    }
  }
  return out
}

/**
 * The distance to the nearest of landmarks `first` … `end` − 1 of the row at `xStart`, which was row `r` when `squares`
 * were computed.
 */
export function nearestDistance(
  landmarks: Matrix,
  first: number,
  end: number,
  { values, offset, stride }: LandmarkSquares,
  r: number,
  x: Float64Array,
  xStart: number,
): number {
  const start = offset + r * stride
  let smallest = values[start + first]!
  for (let at = start + first + 1; at < start + end; at++) if (values[at]! < smallest) smallest = values[at]!
  return smallest < Number.POSITIVE_INFINITY
    ? Math.sqrt(smallest)
    : farDistance(landmarks, first, end, x, xStart)
}

/** The distance to the nearest landmark if all squares overflow. */
function farDistance(
  { cols, data }: Matrix,
  first: number,
  end: number,
  x: Float64Array,
  xStart: number,
): number {
  let smallest = Number.POSITIVE_INFINITY
  for (let j = first; j < end; j++) {
    let sum = 0
    for (let t = 0; t < cols; t++) {
      const difference = x[xStart + t]! * FAR_SCALE - data[j * cols + t]! * FAR_SCALE
      sum += difference * difference
    }
    if (sum < smallest) smallest = sum
  }
  return Math.min(Math.sqrt(smallest) / FAR_SCALE, Number.MAX_VALUE)
}

/** The value as a model with exactly the known fields (arrays are not copied). Throws ArgumentError. */
export function checkNearestLandmarkModel(value: unknown, path = 'nearestLandmark'): NearestLandmarkModel {
  const fields = fieldsAt(value, path)
  const kind = literalAt(fields.kind, `${path}.kind`, 'nearest-landmark')
  const landmarks = matrixAt(fields.landmarks, `${path}.landmarks`)
  wholeAt(landmarks.rows, `${path}.landmarks.rows`, 1, MAXIMUM_LANDMARKS)
  wholeAt(landmarks.cols, `${path}.landmarks.cols`, 1, MAXIMUM_DIMENSION)
  return { kind, landmarks }
}

/** Checked parameters of the nearest-landmark detector. */
export interface NearestParameters extends CommonParameters<'nearest'> {
  readonly m: number
  readonly landmarks: LandmarkChoice
}

/** Fitted landmarks; a score is minus the distance to the nearest. */
export interface NearestModel extends ModelFrame<NearestParameters> {
  readonly nearestLandmark: NearestLandmarkModel
}

export function fitNearest(rows: Matrix, parameters: NearestParameters, context: FitContext): NearestModel {
  const { frame, part } = fitStandalone(rows, parameters, context, fitNearestLandmark)
  return { ...frame, nearestLandmark: part }
}

export const nearest: DetectorDefinition<NearestParameters, NearestModel> = standalone({
  name: 'nearest',
  summary: 'distance to the nearest of m landmarks',
  settings: ['m', 'landmarks'],
  field: 'nearestLandmark',
  hasMetadata: false,
  createWorkspace: createNearestLandmarkWorkspace,
  score: scoreNearestLandmark,
  check(value, { m }, field) {
    const part = checkNearestLandmarkModel(value, field)
    sizeUpTo(part.landmarks.rows, m, `${field}.landmarks.rows`)
    return part
  },
  dimensionOf: ({ landmarks }) => landmarks.cols,
  encode: ({ landmarks }) => ({
    metadata: {},
    tensors: { 'nearestLandmark.landmarks': matrixTensor(landmarks) },
  }),
  decode: (file) => ({ kind: 'nearest-landmark', landmarks: file.matrix('nearestLandmark.landmarks') }),
  spaceNumbers: ({ landmarks }) => landmarks.data.length,
  facts: ({ landmarks }) => [{ label: 'landmarks', value: `${landmarks.rows}` }],
  figures: ({ landmarks }) => ({ landmarks: landmarks.rows }),
  examples: ({ landmarks }) => landmarks,
})

// ---- C

export function writeNearest(c: CWriter, { nearestLandmark }: NearestModel, prefix: string): void {
  const { rows: m, cols, data } = nearestLandmark.landmarks
  c.need('distance')
  const points = c.table(`${prefix}landmarks`, 'double', data)
  c.scoreScaled(prefix, `0.0 - $distance(x, ${points}, ${m}, ${cols})`)
}
