/**
 * Distance to the nearest landmark: the baseline that every embedding has to beat.
 *
 * m rows are drawn from the training rows without replacement; the score of x is
 * −min_j ‖x − landmark_j‖, in the units of the (scaled) rows, 0 on a landmark and falling without bound. It
 * orders rows as the largest kernel value over the landmarks does for any bandwidth, without one to choose.
 * One-class nearest neighbours of Tax and Duin (1998), over a sample and without the ratio.
 *
 * Shapes: landmarks m × D; a score costs m·D subtractions, multiplications and additions and one root.
 * Repeated rows may be drawn and stay: removing them would change nothing but the space. Differences below
 * 1e-162 square to 0; where squares overflow, the distance is taken of scaled numbers, up to the largest.
 */
import {
  MAXIMUM_DIMENSION,
  type Matrix,
  type MatrixLike,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import { DISTANCE_TILE_ROWS, squaredDistances, squaredDistancesOfFour } from '@oddflow/linalg'
import { checkedScoringRows, checkedTrainingRows, checkWhole, type Fitted } from '../checked-rows.js'
import { fieldsOf, literalField, matrixField, wholeField } from '../model-fields.js'

export interface NearestLandmarkParameters {
  /** Landmarks, 1 … 1,000,000; the paper's detectors have 100. Lowered to the number of rows. */
  readonly m: number
}

export interface NearestLandmarkModel {
  readonly kind: 'nearest-landmark'
  /** m × D, training rows in the order drawn. */
  readonly landmarks: Matrix
}

/** Scratch for one model and one caller at a time. */
export interface NearestLandmarkWorkspace {
  readonly model: NearestLandmarkModel
  /** DISTANCE_TILE_ROWS × m squared distances. */
  readonly squares: Float64Array
}

const MAXIMUM_LANDMARKS = 1_000_000
/** 2^−540: numbers scaled by it have differences whose squares, over 65,535 columns, stay in range. */
const FAR_SCALE = 1 / 2 ** 540

/**
 * Draws landmarks from rows (n × D, n ≥ 2, not all equal), from the fork `landmarks` of `rng`. Throws
 * ArgumentError (`m`, `rows`) and DataError.
 */
export function fitNearestLandmark(
  rows: Matrix | MatrixLike,
  { m }: NearestLandmarkParameters,
  rng: Rng,
): Fitted<NearestLandmarkModel> {
  checkWhole('m', m, 1, MAXIMUM_LANDMARKS)
  const matrix = checkedTrainingRows(rows)
  const count = Math.min(m, matrix.rows)
  const landmarks = takeRows(matrix, sampleWithoutReplacement(matrix.rows, count, rng.fork('landmarks')))
  const notes = count < m ? [`m lowered from ${m} to the ${count} training rows`] : []
  return { model: { kind: 'nearest-landmark', landmarks }, notes }
}

export function createNearestLandmarkWorkspace(model: NearestLandmarkModel): NearestLandmarkWorkspace {
  return { model, squares: new Float64Array(DISTANCE_TILE_ROWS * model.landmarks.rows) }
}

/**
 * out[i] = −distance of row i to its nearest landmark, finite, at most 0; returns `out`. Throws ArgumentError
 * when a row is not finite or not D wide, `out` is too short or the workspace another model's.
 */
export function scoreNearestLandmark(
  model: NearestLandmarkModel,
  rows: Matrix | MatrixLike,
  out: Float64Array,
  workspace: NearestLandmarkWorkspace,
): Float64Array {
  const { rows: m, cols: dimension, data: landmarks } = model.landmarks
  const { rows: n, data } = checkedScoringRows(model, dimension, rows, out, workspace)
  const { squares } = workspace
  let i = 0
  for (; i + DISTANCE_TILE_ROWS <= n; i += DISTANCE_TILE_ROWS) {
    squaredDistancesOfFour(data, i * dimension, landmarks, 0, m, dimension, squares, 0, m)
    for (let r = 0; r < DISTANCE_TILE_ROWS; r++) {
      out[i + r] = scoreOf(model, data, (i + r) * dimension, squares, r * m)
    }
  }
  for (; i < n; i++) {
    squaredDistances(data, i * dimension, landmarks, 0, m, dimension, squares, 0)
    out[i] = scoreOf(model, data, i * dimension, squares, 0)
  }
  return out
}

function scoreOf(
  { landmarks }: NearestLandmarkModel,
  x: Float64Array,
  xStart: number,
  squares: Float64Array,
  start: number,
): number {
  // 0 − 0 is +0, where −0 would not survive JSON
  return 0 - smallestDistance(landmarks, 0, landmarks.rows, x, xStart, squares, start)
}

/** The distance of the row at `xStart` to the nearest of landmarks `first` … `end` − 1; `squares` is scratch for as many. */
export function nearestDistance(
  landmarks: Matrix,
  first: number,
  end: number,
  x: Float64Array,
  xStart: number,
  squares: Float64Array,
): number {
  const { cols, data } = landmarks
  squaredDistances(x, xStart, data, first * cols, end - first, cols, squares, 0)
  return smallestDistance(landmarks, first, end, x, xStart, squares, 0)
}

function smallestDistance(
  landmarks: Matrix,
  first: number,
  end: number,
  x: Float64Array,
  xStart: number,
  squares: Float64Array,
  start: number,
): number {
  const squaresEnd = start + end - first
  let smallest = squares[start]!
  for (let j = start + 1; j < squaresEnd; j++) if (squares[j]! < smallest) smallest = squares[j]!
  return smallest < Number.POSITIVE_INFINITY
    ? Math.sqrt(smallest)
    : farDistance(landmarks, first, end, x, xStart)
}

/** The distance to the nearest landmark where all squares overflow. */
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

/** The value as a model with exactly the known fields (arrays are not copied). Throws FormatError. */
export function checkNearestLandmarkModel(value: unknown, path = 'nearestLandmark'): NearestLandmarkModel {
  const fields = fieldsOf(value, path)
  const kind = literalField(fields.kind, `${path}.kind`, 'nearest-landmark')
  const landmarks = matrixField(fields.landmarks, `${path}.landmarks`)
  wholeField(landmarks.rows, `${path}.landmarks.rows`, 1, MAXIMUM_LANDMARKS)
  wholeField(landmarks.cols, `${path}.landmarks.cols`, 1, MAXIMUM_DIMENSION)
  return { kind, landmarks }
}
