/** nearest: the distance to the nearest of m landmarks, cheaper than every method of the paper. */

import { MAXIMUM_DIMENSION, type Matrix, type Rng, takeRows } from '@oddflow/core'
import { createDistanceColumns, type DistanceColumns, squaredDistancesOfRows } from '@oddflow/linalg'
import type { DetectorDefinition, FitContext } from '../detector.js'
import { chooseLandmarks, FAR_SCALE, landmarkNotes } from '../embedding/landmarks.js'
import type { CWriter } from '../export-c/c-text.js'
import { type Fitted, fitStandalone, standalone } from '../families/standalone.js'
import { fieldsAt, literalAt, matrixAt, sizeUpTo, wholeAt } from '../fields.js'
import type { ModelFrame } from '../model.js'
import type { CommonParameters, LandmarkChoice } from '../parameters.js'

/** Most rows whose distances to all landmarks are computed at a time. */
export const SQUARES_TILE_ROWS = 8

/** Squared distances of a few rows at a time to all landmarks. */
export function createLandmarkSquares({ rows: m, cols, data }: Matrix, simd: boolean): DistanceColumns {
  const shape = { columns: m, dimension: cols, rows: SQUARES_TILE_ROWS, width: m }
  return createDistanceColumns(data, shape, {
    simd,
    typed(rows, start, count, vectorsStart, width, out) {
      squaredDistancesOfRows(rows, start, count, data, vectorsStart, width, cols, out, 0, width)
    },
  })
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
  readonly squares: DistanceColumns
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
    squares.compute(data, i * cols, count, 0, landmarks.rows)
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
  { values, offset, stride }: DistanceColumns,
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
  kind: 'nearest-landmark',
  tensors: { landmarks: 'matrix' },
  createWorkspace: createNearestLandmarkWorkspace,
  score: scoreNearestLandmark,
  check(value, { m }, field) {
    const part = checkNearestLandmarkModel(value, field)
    sizeUpTo(part.landmarks.rows, m, `${field}.landmarks.rows`)
    return part
  },
  dimensionOf: ({ landmarks }) => landmarks.cols,
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
