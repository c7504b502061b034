/** Members of an ensemble: how each is fitted, evaluated, checked, and stored in a model file. */
import {
  ArgumentError,
  createMatrix,
  DataError,
  FormatError,
  type Matrix,
  type Rng,
  sampleWithoutReplacement,
  takeRows,
} from '@oddflow/core'
import type { Folds, SurpriseCurve, SurpriseWeights } from '../calibration/held-out.js'
import type { DetectorDefinition, DetectorFit, MemberName, ModelFact } from '../detector.js'
import type { EnsembleParameters } from '../detectors/ensemble.js'
import {
  type ColumnHistograms,
  checkHistograms,
  createHistogramViews,
  decodeHistograms,
  encodeHistograms,
  fitHistograms,
  histogramNumbers,
  histogramView,
  joinHistograms,
  takeTables,
} from '../detectors/hbos.js'
import { createLandmarkSquares, nearestDistance, SQUARES_TILE_ROWS } from '../detectors/nearest.js'
import { farthestFirstRows } from '../embedding/landmarks.js'
import { type Fields, failField, fieldsAt, matrixAt, numbersAt, sizeUpTo } from '../fields.js'
import { checkedTrainingRows, fitChecked, NOTHING_SHARED } from '../fit-rows.js'
import {
  type ModelFileParts,
  type ModelFileReader,
  matrixTensor,
  vectorTensor,
} from '../model-file/layout.js'
import { OptionReader } from '../options.js'
import { checkModelBy } from '../table-checks.js'
import {
  checkMagnitude,
  type DetectorMember,
  type EnsembleMember,
  type HbosMember,
  LARGEST_STANDARDISED,
  type MemberModel,
  type NearestMember,
} from './ensemble-part.js'

/** Added to the distance of a row whose service has no landmark. */
export const FOREIGN_DISTANCE = 2
/** Bins of the histograms of all rows. */
const LEAST_BINS = 20
/** So that a model stays small. */
const MOST_BINS = 64
/** Bins of a service's own histograms, and the least number of rows for them. */
const OWN_BINS = 8
const LEAST_OWN_ROWS = 8
/** Only the most frequent services, so that a model stays small. */
const MOST_OWN_TABLES = 20
/** Of a bin, in standard deviations. */
export const LEAST_BIN_WIDTH = 0.1

/** A share of the landmarks is random: farthest-first ones alone describe ordinary rows poorly. */
const RANDOM_LANDMARK_SHARE = 1 / 16
/** Of m landmarks those that are not. */
export const farthestLandmarks = (m: number): number => m - Math.floor(m * RANDOM_LANDMARK_SHARE)

const WHOLE: SurpriseWeights = { body: 1, tail: 1 }
/** Distances between ordinary rows say little and would outweigh the histograms there. */
const NEAREST_WEIGHTS: SurpriseWeights = { body: 0.5, tail: 1 }
/** Weight of each of the two views of hbos, which are similar. */
const HALF_WEIGHTS: SurpriseWeights = { body: 0.5, tail: 0.4 }

/** Weights of the surprises of a member's views, one for each. Their number depends on whether rows have services. */
export function viewWeights(name: MemberName, hasServices: boolean): readonly SurpriseWeights[] {
  if (name === 'nearest') return [NEAREST_WEIGHTS]
  return name === 'hbos' && hasServices ? [HALF_WEIGHTS, HALF_WEIGHTS] : [WHOLE]
}

/** Rows to fit members on. */
export interface MemberTraining {
  /** All rows, standardised, n × D. */
  readonly rows: Matrix
  readonly categories: RowCategories | null
}

/** The categories of rows, numbered by their frequency. */
interface RowCategories {
  /** The number of each row's category, length n. */
  readonly of: Uint32Array
  /** The category of each number, the most frequent first. */
  readonly names: Float64Array
}

/** The category of each row, from a column of unscaled rows. */
export function countCategories({ rows: n, cols, data }: Matrix, column: number): RowCategories {
  const counts = new Map<number, number>()
  for (let i = 0; i < n; i++) {
    const name = data[i * cols + column]! + 0
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const names = Float64Array.from([...counts].sort(([a, x], [b, y]) => y - x || a - b).map(([name]) => name))
  const numbers = new Map(Array.from(names, (name, number) => [name, number]))
  return { names, of: Uint32Array.from({ length: n }, (_, i) => numbers.get(data[i * cols + column]!)!) }
}

/** Numbers of the rows to fit: all except those of a fold, or all (null), without odd rows. */
interface FitRows {
  readonly fold: number | null
  readonly numbers: Uint32Array
}

/** Random members draw from `rng`. */
export type MemberFit = (rows: FitRows, rng: Rng) => MemberModel

/** The detectors that can be members of an ensemble. */
export type MemberDetectors = Readonly<Record<MemberName, DetectorDefinition>>
/** Their fits. */
export type MemberFits = Readonly<Record<MemberName, DetectorFit>>

/** Fits a member to the `kept` training rows without each fold, and to all of them. */
export function createMemberFit(
  detectors: MemberDetectors,
  fits: MemberFits,
  name: MemberName,
  training: MemberTraining,
  folds: Folds,
  kept: Uint32Array,
  { m, bins }: EnsembleParameters,
): MemberFit {
  if (name === 'nearest') return ({ numbers }, rng) => fitNearest(training, numbers, m!, rng)
  if (name === 'hbos') return createHbosFit(training, folds, kept, bins ?? defaultBins(kept.length))
  const definition = detectors[name]
  const takesLandmarks = m !== null && definition.options.includes('m')
  // lowered, not refused, if a fold has fewer rows
  const parameters = definition.checkParameters(new OptionReader(takesLandmarks ? { m } : {}))
  return ({ numbers }, rng) => {
    const rows = checkedTrainingRows(takeRows(training.rows, numbers), false, null)
    const { model } = fitChecked(fits[name], rows, parameters, {}, rng, NOTHING_SHARED)
    return { name, model } as MemberModel
  }
}

function fitNearest(
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

/** The Rice rule, 2 n^(1/3). Fewer than 20 find less, however few the rows are. */
function defaultBins(rows: number): number {
  const cube = (bins: number): number => bins * bins * bins
  let bins = LEAST_BINS
  while (bins < MOST_BINS && cube(bins + 1) <= 8 * rows) bins++
  return bins
}

/** The tables of all folds are made together, because they share nearly all rows. */
function createHbosFit(
  { rows, categories }: MemberTraining,
  { of: foldOf, count: folds }: Folds,
  kept: Uint32Array,
  bins: number,
): MemberFit {
  // without each fold, and without none
  const withouts = Array.from({ length: folds + 1 }, (_, fold) => fold)
  const foldsWithout = withouts.map((without) =>
    Array.from({ length: folds }, (_, fold) => fold).filter((fold) => fold !== without),
  )
  const partsOf = (numbers: Uint32Array): Uint32Array[] =>
    Array.from({ length: folds }, (_, fold) => numbers.filter((row) => foldOf[row] === fold))
  const ofAll = fitHistograms(rows, partsOf(kept), foldsWithout, bins, LEAST_BIN_WIDTH)
  const allRows = (without: number): ColumnHistograms => takeTables(ofAll, without, without + 1)
  if (categories === null) {
    return ({ fold }) => ({ name: 'hbos', histograms: allRows(fold ?? folds), own: null })
  }

  const { of, names } = categories
  const sizes = withouts.map(() => new Uint32Array(names.length))
  for (const row of kept) {
    withouts.forEach((without) => {
      if (foldOf[row] !== without) sizes[without]![of[row]!]!++
    })
  }
  const chosen = sizes.map((ofSize) =>
    [...names.keys()]
      .filter((category) => ofSize[category]! >= LEAST_OWN_ROWS)
      .sort((a, b) => ofSize[b]! - ofSize[a]! || a - b)
      .slice(0, MOST_OWN_TABLES)
      .sort((a, b) => names[a]! - names[b]!),
  )
  const union = [...new Set(chosen.flat())]
  const parts = union.flatMap((category) => partsOf(kept.filter((row) => of[row] === category)))
  const placeOf = new Map(union.map((category, place) => [category, place]))
  const tables = chosen.flatMap((ofFold, without) =>
    ofFold.map((category) => foldsWithout[without]!.map((fold) => placeOf.get(category)! * folds + fold)),
  )
  const ofServices = fitHistograms(rows, parts, tables, OWN_BINS, LEAST_BIN_WIDTH)
  return ({ fold }) => {
    const without = fold ?? folds
    const histograms = allRows(without)
    const own = chosen[without]!
    if (own.length === 0) return { name: 'hbos', histograms, own: null }
    const first = chosen.slice(0, without).reduce((sum, { length }) => sum + length, 0)
    return {
      name: 'hbos',
      histograms,
      own: {
        categories: Float64Array.from(own, (category) => names[category]!),
        histograms: takeTables(ofServices, first, first + own.length),
      },
    }
  }
}

// ---- more rows

/** A member with these weighted rows added. Throws ArgumentError for a detector that cannot add rows. */
export function joinMember(
  member: MemberModel,
  training: MemberTraining,
  numbers: Uint32Array,
  weight: number,
  { m }: EnsembleParameters,
  rng: Rng,
): MemberModel {
  if (member.name === 'nearest') return joinNearest(member, training, numbers, m!, rng)
  if (member.name === 'hbos') return joinHbos(member, training, numbers, weight)
  throw new ArgumentError(`members: an ensemble with ${member.name} cannot learn on`, 'members')
}

function joinNearest(
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

function joinHbos(
  { histograms, own }: HbosMember,
  { rows, categories }: MemberTraining,
  numbers: Uint32Array,
  weight: number,
): HbosMember {
  const all = joinHistograms(
    rows,
    [{ old: { histograms, table: 0 }, rows: numbers }],
    weight,
    histograms.bins,
    LEAST_BIN_WIDTH,
  )
  if (categories === null) return { name: 'hbos', histograms: all, own: null }
  const rowsOf = new Map<number, number[]>()
  for (const row of numbers) {
    const name = categories.names[categories.of[row]!]!
    const rowsOfName = rowsOf.get(name) ?? []
    rowsOf.set(name, rowsOfName)
    rowsOfName.push(row)
  }
  const known = own?.categories ?? new Float64Array(0)
  const tables = [...new Set([...known, ...rowsOf.keys()])]
    .map((name) => {
      const at = indexOf(known, name)
      const given = Uint32Array.from(rowsOf.get(name) ?? [])
      const before = at < 0 ? 0 : own!.histograms.rows[at]!
      return {
        name,
        count: before + weight * given.length,
        isOwn: at >= 0 || given.length >= LEAST_OWN_ROWS,
        table: { old: at < 0 ? null : { histograms: own!.histograms, table: at }, rows: given },
      }
    })
    .filter(({ isOwn }) => isOwn)
    .sort((a, b) => b.count - a.count || a.name - b.name)
    .slice(0, MOST_OWN_TABLES)
    .sort((a, b) => a.name - b.name)
  if (tables.length === 0) return { name: 'hbos', histograms: all, own: null }
  return {
    name: 'hbos',
    histograms: all,
    own: {
      categories: Float64Array.from(tables, ({ name }) => name),
      histograms: joinHistograms(
        rows,
        tables.map(({ table }) => table),
        weight,
        OWN_BINS,
        LEAST_BIN_WIDTH,
      ),
    },
  }
}

// ---- views

/**
 * out[i] = how unusual row i of `rows` is, larger = more. Rows are standardized; categories[i] is the service of row i,
 * if rows have services. Allocates nothing, and gives a row the same bits in any batch.
 */
type View = (rows: Matrix, categories: Float64Array, out: Float64Array) => void

/** A view with its curve and the weights of its surprises. */
interface WeightedView {
  readonly view: View
  readonly surprise: SurpriseCurve
  readonly weights: SurpriseWeights
}

export function createWeightedViews(
  detectors: MemberDetectors,
  member: EnsembleMember,
  hasServices: boolean,
  simd: boolean,
): readonly WeightedView[] {
  const weights = viewWeights(member.name, hasServices)
  return createViews(detectors, member, hasServices, simd).map((view, k) => ({
    view,
    surprise: member.surprises[k]!,
    weights: weights[k]!,
  }))
}

/** As many as `viewWeights` says. */
export function createViews(
  detectors: MemberDetectors,
  member: MemberModel,
  hasServices: boolean,
  simd: boolean,
): readonly View[] {
  if (member.name === 'nearest') return [createNearestView(member, simd)]
  if (member.name === 'hbos') {
    const ofAll = createHbosView({ ...member, own: null })
    return hasServices ? [createHbosView(member), ofAll] : [ofAll]
  }
  const { model } = member
  const scorer = detectors[member.name].createScorer(model, { simd })
  return [
    (rows, _, out) => {
      scorer.score(rows, out)
      for (let i = 0; i < rows.rows; i++) out[i] = 0 - out[i]!
    },
  ]
}

function createNearestView({ landmarks, categories }: NearestMember, simd: boolean): View {
  const { rows: m, cols } = landmarks
  const squares = createLandmarkSquares(landmarks, simd)
  const { names: services, starts } = runsOf(categories)
  return (rows, names, out) => {
    for (let i = 0; i < rows.rows; i++) {
      const r = i % SQUARES_TILE_ROWS
      if (r === 0) squares.compute(rows.data, i * cols, Math.min(SQUARES_TILE_ROWS, rows.rows - i))
      const run = indexOf(services, names[i]!)
      const first = run < 0 ? 0 : starts[run]!
      const end = run < 0 ? m : starts[run + 1]!
      const distance = nearestDistance(landmarks, first, end, squares, r, rows.data, i * cols)
      const isForeign = run < 0 && services.length > 0
      out[i] = isForeign ? Math.min(distance + FOREIGN_DISTANCE, Number.MAX_VALUE) : distance
    }
  }
}

function createHbosView({ histograms, own }: HbosMember): View {
  const all = createHistogramViews(histograms, LEAST_BIN_WIDTH)
  const services = own === null ? null : createHistogramViews(own.histograms, LEAST_BIN_WIDTH)
  const { cols } = histograms.low
  return (rows, names, out) => {
    for (let i = 0; i < rows.rows; i++) {
      const table = own === null ? -1 : indexOf(own.categories, names[i]!)
      out[i] =
        services === null || table < 0
          ? histogramView(all, 0, rows.data, i * cols)
          : histogramView(services, table, rows.data, i * cols)
    }
  }
}

/** Index of a number in ascending `sorted`; −1 if absent. */
export function indexOf(sorted: Float64Array, value: number): number {
  let low = 0
  let high = sorted.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const found = sorted[middle]!
    if (found === value) return middle
    if (found < value) low = middle + 1
    else high = middle - 1
  }
  return -1
}

/** The different numbers of an ascending list, with the start of each, and the end. */
export function runsOf(sorted: Float64Array): { readonly names: Float64Array; readonly starts: Uint32Array } {
  const starts: number[] = []
  for (let i = 0; i < sorted.length; i++) if (i === 0 || sorted[i] !== sorted[i - 1]) starts.push(i)
  return {
    names: Float64Array.from(starts, (start) => sorted[start]!),
    starts: Uint32Array.from([...starts, sorted.length]),
  }
}

const TILE_ROWS = 32

/** Views rows of any numbers: out[numbers[i]]. */
export function viewRows(
  view: View,
  { rows, categories }: MemberTraining,
  numbers: Uint32Array,
  out: Float64Array,
): void {
  const { cols } = rows
  const tile = createMatrix(TILE_ROWS, cols)
  const names = new Float64Array(TILE_ROWS)
  const values = new Float64Array(TILE_ROWS)
  for (let first = 0; first < numbers.length; first += TILE_ROWS) {
    const count = Math.min(TILE_ROWS, numbers.length - first)
    for (let r = 0; r < count; r++) {
      const row = numbers[first + r]!
      for (let j = 0; j < cols; j++) tile.data[r * cols + j] = rows.data[row * cols + j]!
      if (categories !== null) names[r] = categories.names[categories.of[row]!]!
    }
    view(
      count === TILE_ROWS ? tile : { rows: count, cols, data: tile.data.subarray(0, count * cols) },
      names,
      values,
    )
    for (let r = 0; r < count; r++) out[numbers[first + r]!] = values[r]!
  }
}

// ---- model file, check, figures

/** Metadata of one member besides its surprise curve, and its tensors by names after `prefix`. */
export function encodeMember(
  detectors: MemberDetectors,
  member: MemberModel,
  prefix: string,
): ModelFileParts {
  switch (member.name) {
    case 'nearest':
      return {
        metadata: {},
        tensors: {
          [`${prefix}categories`]: vectorTensor(member.categories),
          [`${prefix}landmarks`]: matrixTensor(member.landmarks),
        },
      }
    case 'hbos':
      return {
        metadata: {},
        tensors: {
          ...encodeHistograms(member.histograms, `${prefix}histograms.`),
          ...(member.own === null
            ? {}
            : {
                [`${prefix}own.categories`]: vectorTensor(member.own.categories),
                ...encodeHistograms(member.own.histograms, `${prefix}own.histograms.`),
              }),
        },
      }
    default: {
      const { parameters, fitReport } = member.model
      const inside = detectors[member.name].encode(member.model)
      const tensors = Object.entries(inside.tensors).map(([name, tensor]) => [
        `${prefix}model.${name}`,
        tensor,
      ])
      return {
        metadata: { model: { parameters, fitReport, ...inside.metadata } },
        tensors: Object.fromEntries(tensors) as ModelFileParts['tensors'],
      }
    }
  }
}

/** Unchecked, from the member's metadata and tensors; `file` reads names after the member's prefix. */
export function decodeMember(
  detectors: MemberDetectors,
  name: MemberName,
  metadata: Fields,
  file: ModelFileReader,
  path: string,
): Fields {
  switch (name) {
    case 'nearest':
      return { name, categories: file.vector('categories'), landmarks: file.matrix('landmarks') }
    case 'hbos':
      return {
        name,
        histograms: decodeHistograms(file, 'histograms.'),
        own: file.has('own.categories')
          ? {
              categories: file.vector('own.categories'),
              histograms: decodeHistograms(file, 'own.histograms.'),
            }
          : null,
      }
    default: {
      const head = fieldsAt(metadata.model, `${path}.model`)
      const parameters = fieldsAt(head.parameters, `${path}.model.parameters`)
      const scaler = { kind: 'none' }
      const inside = within(`${path}.model`, () =>
        detectors[name].decode(file.within('model.', head), parameters),
      )
      return { name, model: { kind: name, parameters, scaler, ...inside, fitReport: head.fitReport } }
    }
  }
}

/** Throws ArgumentError or FormatError with the path of the fault. */
export function checkMember(
  detectors: MemberDetectors,
  value: Fields,
  name: MemberName,
  { m, bins }: EnsembleParameters,
  { cols, hasServices }: { readonly cols: number; readonly hasServices: boolean },
  path: string,
): MemberModel {
  if (value.name !== name) failField(`${path}.name`, name, value.name)
  switch (name) {
    case 'nearest': {
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
      return { name, landmarks, categories }
    }
    case 'hbos': {
      const histograms = checkHistograms(value.histograms, bins, `${path}.histograms`)
      checkTables(histograms, 1, cols, `${path}.histograms`)
      if (value.own === null) return { name, histograms, own: null }
      if (!hasServices) failField(`${path}.own.categories`, 'none, since no column is a category', value.own)
      const own = fieldsAt(value.own, `${path}.own`)
      const categories = numbersAt(own.categories, `${path}.own.categories`)
      sizeUpTo(categories.length, MOST_OWN_TABLES, `${path}.own.categories`)
      checkAscending(categories, `${path}.own.categories`, true)
      const tables = checkHistograms(own.histograms, OWN_BINS, `${path}.own.histograms`)
      checkTables(tables, categories.length, cols, `${path}.own.histograms`)
      return { name, histograms, own: { categories, histograms: tables } }
    }
    default:
      return { name, model: checkDetectorMember(detectors, value.model, name, cols, `${path}.model`) }
  }
}

function checkDetectorMember(
  detectors: MemberDetectors,
  value: unknown,
  name: DetectorMember['name'],
  cols: number,
  path: string,
): DetectorMember['model'] {
  const model = within(path, () => checkModelBy(detectors, fieldsAt(value, path)))
  if (model.kind !== name) failField(`${path}.kind`, name, model.kind)
  if (model.scaler.kind !== 'none') failField(`${path}.scaler`, 'none', model.scaler.kind)
  if (model.fitReport.dimension !== cols || model.scaler.categoryColumn !== undefined) {
    failField(`${path}.fitReport.dimension`, `${cols} columns`, model.fitReport.dimension)
  }
  return model
}

/** Errors name fields of the whole model. */
function within<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ArgumentError || error instanceof FormatError)) throw error
    const said = error.field ?? 'parameters'
    const field = said.startsWith(path) ? said : `${path}.${said}`
    throw new ArgumentError(`${field}: ${error.detail}`, field)
  }
}

function checkTables(
  { low, high }: HbosMember['histograms'],
  tables: number,
  cols: number,
  path: string,
): void {
  if (low.rows !== tables || low.cols !== cols) {
    failField(path, `${tables} tables of ${cols} columns`, `${low.rows} of ${low.cols}`)
  }
  checkMagnitude(low.data, LARGEST_STANDARDISED, `${path}.low`)
  checkMagnitude(high.data, LARGEST_STANDARDISED, `${path}.high`)
}

function checkAscending(values: Float64Array, path: string, strictly: boolean): void {
  for (let i = 1; i < values.length; i++) {
    const rises = strictly ? values[i]! > values[i - 1]! : values[i]! >= values[i - 1]!
    if (!rises) failField(path, 'ascending numbers', values[i])
  }
}

export function memberNumbers(detectors: MemberDetectors, member: MemberModel): number {
  switch (member.name) {
    case 'nearest':
      return member.landmarks.data.length + member.categories.length
    case 'hbos':
      return (
        histogramNumbers(member.histograms) +
        (member.own === null ? 0 : histogramNumbers(member.own.histograms) + member.own.categories.length)
      )
    default:
      return detectors[member.name].spaceNumbers(member.model)
  }
}

export function memberFacts(detectors: MemberDetectors, member: MemberModel): ModelFact[] {
  switch (member.name) {
    case 'nearest': {
      const services = runsOf(member.categories).names.length
      const of = services === 0 ? '' : ` of ${services} services`
      return [{ label: 'nearest', value: `${member.landmarks.rows} landmarks${of}` }]
    }
    case 'hbos': {
      const own = member.own?.categories.length ?? 0
      const services = own === 0 ? '' : `; ${own} services have histograms of ${OWN_BINS} bins of their own`
      return [{ label: 'hbos', value: `${member.histograms.bins} bins a column${services}` }]
    }
    default:
      return detectors[member.name]
        .facts(member.model)
        .map(({ label, value }) => ({ label: `${member.name}: ${label}`, value }))
  }
}

/** Whether a fit failed for what the rows are. */
export function isDataError(error: unknown): error is DataError {
  return error instanceof DataError
}
