/** The member nearest of an ensemble: distances to landmarks of the row's service. */
import { createMatrix, type Matrix, type Rng, sampleWithoutReplacement, takeRows } from '@oddflow/core'
import { squaredDistances } from '@oddflow/linalg'
import type { SurpriseWeights } from '../calibration/held-out.js'
import { createLandmarkSquares, nearestDistance, SQUARES_TILE_ROWS } from '../detectors/nearest.js'
import { farthestFirstRows } from '../embedding/landmarks.js'
import { type CWriter, double } from '../export-c/c-text.js'
import { failField, matrixAt, numbersAt, sizeUpTo } from '../fields.js'
import { encodeFields } from '../model-file/layout.js'
import {
  checkAscending,
  checkMagnitude,
  countCategories,
  indexOf,
  LARGEST_STANDARDISED,
  type MemberKind,
  type MemberTraining,
  type NearestMember,
  runsOf,
  type View,
  type ViewExplainer,
} from './ensemble-part.js'

/** Added to the distance of a row whose service has no landmark. */
const FOREIGN_DISTANCE = 2

/** A share of the landmarks is random: farthest-first ones alone describe ordinary rows poorly. */
const RANDOM_LANDMARK_SHARE = 1 / 16
/** Of m landmarks those that are not. */
export const farthestLandmarks = (m: number): number => m - Math.floor(m * RANDOM_LANDMARK_SHARE)

/** Distances between ordinary rows say little and would outweigh the histograms there. */
const WEIGHTS: SurpriseWeights = { body: 0.5, tail: 1 }

const FIELDS = { categories: 'vector', landmarks: 'matrix' } as const

export const nearestMember: MemberKind<NearestMember> = {
  viewWeights: () => [WEIGHTS],
  createViews: (member, _hasServices, simd) => [createNearestView(member, simd)],
  encode: (member, prefix) => ({ metadata: {}, tensors: encodeFields(member, FIELDS, prefix) }),
  decode: (_metadata, file) => ({ name: 'nearest', ...file.fields(FIELDS, '') }),
  check(value, { m }, { cols, hasServices }, path) {
    const landmarks = matrixAt(value.landmarks, `${path}.landmarks`)
    sizeUpTo(landmarks.rows, m!, `${path}.landmarks.rows`)
    if (landmarks.cols !== cols) failField(`${path}.landmarks`, `${cols} columns`, landmarks.cols)
    checkMagnitude(landmarks.data, LARGEST_STANDARDISED, `${path}.landmarks`)
    const categories = numbersAt(value.categories, `${path}.categories`)
    const expected = hasServices ? landmarks.rows : 0
    if (categories.length !== expected) {
      const what = hasServices ? `${expected}, one per landmark` : 'none, since no column is a category'
      failField(`${path}.categories`, what, categories.length)
    }
    checkAscending(categories, `${path}.categories`, false)
    return { name: 'nearest', landmarks, categories }
  },
  spaceNumbers: ({ landmarks, categories }) => landmarks.data.length + categories.length,
  facts({ landmarks, categories }) {
    const services = runsOf(categories).names.length
    const of = services === 0 ? '' : ` of ${services} services`
    return [{ label: 'nearest', value: `${landmarks.rows} landmarks${of}` }]
  },
}

// ---- fit

export function fitNearest(
  { rows, categories }: MemberTraining,
  among: Uint32Array,
  m: number,
  rng: Rng,
): NearestMember {
  const groups = categories === null ? {} : { groups: { of: categories.of, count: categories.names.length } }
  const count = farthestLandmarks(m)
  const farthest = farthestFirstRows(rows, count, { among, ...groups })
  // fewer than asked for are all rows that differ
  const found = farthest.length < count ? farthest : withRandomRows(farthest, among, m - count, rng)
  if (categories === null) {
    return { name: 'nearest', landmarks: takeRows(rows, found), categories: new Float64Array(0) }
  }
  const nameOf = (row: number): number => categories.names[categories.of[row]!]!
  // a stable sort: within a service the order stays
  const ordered = [...found].sort((a, b) => nameOf(a) - nameOf(b))
  return {
    name: 'nearest',
    landmarks: takeRows(rows, ordered),
    categories: Float64Array.from(ordered, nameOf),
  }
}

/** The rows, filled up with others of `among`, `count` at most. */
function withRandomRows(rows: Uint32Array, among: Uint32Array, count: number, rng: Rng): Uint32Array {
  const taken = new Set(rows)
  const rest = among.filter((row) => !taken.has(row))
  const drawn = sampleWithoutReplacement(rest.length, Math.min(count, rest.length), rng)
  return Uint32Array.from([...rows, ...Array.from(drawn, (i) => rest[i]!)])
}

export function joinNearest(
  { landmarks, categories }: NearestMember,
  training: MemberTraining,
  numbers: Uint32Array,
  m: number,
  rng: Rng,
): NearestMember {
  const { cols } = landmarks
  const rows = createMatrix(landmarks.rows + numbers.length, cols)
  rows.data.set(landmarks.data)
  rows.data.set(takeRows(training.rows, numbers).data, landmarks.data.length)
  const all = Uint32Array.from({ length: rows.rows }, (_, i) => i)
  if (training.categories === null) return fitNearest({ rows, categories: null }, all, m, rng)
  const { of, names } = training.categories
  const column = createMatrix(rows.rows, 1)
  column.data.set(categories)
  numbers.forEach((row, i) => {
    column.data[landmarks.rows + i] = names[of[row]!]!
  })
  return fitNearest({ rows, categories: countCategories(column, 0) }, all, m, rng)
}

// ---- view

function createNearestView({ landmarks, categories }: NearestMember, simd: boolean): View {
  const { rows: m, cols } = landmarks
  const squares = createLandmarkSquares(landmarks, simd)
  const { names: services, starts } = runsOf(categories)
  return (rows, names, out) => {
    for (let i = 0; i < rows.rows; i++) {
      const r = i % SQUARES_TILE_ROWS
      if (r === 0) squares.compute(rows.data, i * cols, Math.min(SQUARES_TILE_ROWS, rows.rows - i), 0, m)
      const run = indexOf(services, names[i]!)
      const first = run < 0 ? 0 : starts[run]!
      const end = run < 0 ? m : starts[run + 1]!
      const distance = nearestDistance(landmarks, first, end, squares, r, rows.data, i * cols)
      const isForeign = run < 0 && services.length > 0
      out[i] = isForeign ? Math.min(distance + FOREIGN_DISTANCE, Number.MAX_VALUE) : distance
    }
  }
}

// ---- explanation

export function explainNearest(member: NearestMember): ViewExplainer {
  const { cols, data } = member.landmarks
  const runs = runsOf(member.categories)
  return {
    share(row, category, value, out) {
      const at = nearestLandmark(member, runs, row, category) * cols
      let squares = 0
      for (let j = 0; j < cols; j++) {
        const difference = row.data[j]! - data[at + j]!
        out[j] = Math.min(difference * difference, Number.MAX_VALUE)
        squares += out[j]!
      }
      // the view is the distance plus the addition for an unknown category; both share as their squares
      const distance = Math.sqrt(squares)
      const isUnknown = runs.names.length > 0 && indexOf(runs.names, category) < 0
      const added = isUnknown ? Math.max(0, value - distance) : 0
      out[cols] = Math.min(distance > 0 ? distance * added : added, Number.MAX_VALUE)
    },
    example(row, category) {
      const at = nearestLandmark(member, runs, row, category) * cols
      return data.slice(at, at + cols)
    },
  }
}

/** The first nearest landmark of a row, among those of its service if it has any. */
function nearestLandmark(
  { landmarks }: NearestMember,
  { names, starts }: ReturnType<typeof runsOf>,
  row: Matrix,
  category: number,
): number {
  const { rows: m, cols, data } = landmarks
  const run = indexOf(names, category)
  const first = run < 0 ? 0 : starts[run]!
  const end = run < 0 ? m : starts[run + 1]!
  const squares = new Float64Array(end - first)
  squaredDistances(row.data, 0, data, first * cols, end - first, cols, squares, 0)
  let nearest = 0
  for (let j = 1; j < squares.length; j++) if (squares[j]! < squares[nearest]!) nearest = j
  return first + nearest
}

// ---- C

/** The C texts of its views of the standardized row x. */
export function writeNearestMember(
  c: CWriter,
  { landmarks, categories }: NearestMember,
  width: number,
  hasServices: boolean,
): string[] {
  const prefix = 'nearest_'
  c.need('distance')
  const points = c.table(`${prefix}landmarks`, 'double', landmarks.data)
  const all = `$distance(x, ${points}, ${landmarks.rows}, ${width})`
  if (!hasServices) return [all]
  const { names, starts } = runsOf(categories)
  c.need('index_of')
  const services = c.table(`${prefix}services`, 'double', names)
  const firsts = c.table(`${prefix}service_starts`, 'int32_t', starts)
  c.code(`static inline double $${prefix}view(const double *x, double service) {
  const int run = $index_of(${services}, ${names.length}, service);
  double distance;
  if (run >= 0) {
    return $distance(x, ${points} + ${firsts}[run] * ${width}, ${firsts}[run + 1] - ${firsts}[run], ${width});
  }
  distance = ${all} + ${double(FOREIGN_DISTANCE)};
  return distance < DBL_MAX ? distance : DBL_MAX;
}
`)
  return [`$${prefix}view(x, service)`]
}
