/**
 * The parts of an ensemble: the standardization of its columns, and its members, each a view with a surprise curve. And
 * what every kind of member is made with.
 *
 * Members nearest and hbos compare a row with training rows of its service (or another category column), where these
 * exist: farthest-first landmarks within a service, and histograms of services with enough rows in addition to those of
 * all rows. Other detectors are members without changes, over standardized rows, without services.
 */
import { createMatrix, DataError, type Matrix, type Rng } from '@oddflow/core'
import { selectValue } from '@oddflow/linalg'
import { quantileOf, type SurpriseCurve, type SurpriseWeights } from '../calibration/held-out.js'
import type { MemberName, ModelFact } from '../detector.js'
import type { EnsembleParameters } from '../detectors/ensemble.js'
import type { ColumnHistograms } from '../detectors/hbos.js'
import { type Fields, failField, numbersAt } from '../fields.js'
import type { DetectorModel } from '../model.js'
import type { ModelFileParts, ModelFileReader } from '../model-file/layout.js'

export interface EnsemblePart {
  /** Length D, of scaled rows: x becomes (x − center) / scale. */
  readonly centre: Float64Array
  /** Length D, positive. */
  readonly scale: Float64Array
  /** In the order of the parameters' names. */
  readonly members: readonly EnsembleMember[]
}

/** One curve for each view of a member (members.ts): two for hbos if rows have services, otherwise one. */
export type EnsembleMember = MemberModel & { readonly surprises: readonly SurpriseCurve[] }

/** What a member knows of its training rows, without its curves. */
export type MemberModel = NearestMember | HbosMember | DetectorMember

/**
 * The distance to the nearest landmark of the row's service. For a service without landmarks, the distance to any, plus
 * 2.
 */
export interface NearestMember {
  readonly name: 'nearest'
  /** m × D, those of a service together. */
  readonly landmarks: Matrix
  /** The service of each landmark, ascending; empty if rows have no services. */
  readonly categories: Float64Array
}

/** Two views if rows have services: of the service's own histograms (of all rows if it has none), and of all rows. */
export interface HbosMember {
  readonly name: 'hbos'
  /** One table, of all rows. */
  readonly histograms: ColumnHistograms
  /** null where no service has enough rows. */
  readonly own: {
    /** Services with tables of their own, ascending. */
    readonly categories: Float64Array
    readonly histograms: ColumnHistograms
  } | null
}

/** The negative score of a model of standardized rows. */
export interface DetectorMember {
  readonly name: Exclude<MemberName, 'nearest' | 'hbos'>
  readonly model: DetectorModel
}

/** For a plain column without spread: this share of the others' median scale. */
const CONSTANT_COLUMN_SHARE = 0.1

/** Bound of standardized numbers: squares of their differences, summed over all columns, stay finite. */
export const LARGEST_STANDARDISED = 1e150
/** Larger scales have no finite square, and larger centers leave no room for a landmark's distance. */
const LARGEST_SCALE = 1e154
const LARGEST_CENTRE = 1e308

/**
 * Mean and standard deviation of each column over the listed rows, with numbers clipped to their 1 % and 99 % order
 * statistics. Throws DataError for a column whose numbers are too large.
 */
export function fitStandardisation(
  { cols, data }: Matrix,
  numbers: Uint32Array,
  minimumScale: number | null,
): Pick<EnsemblePart, 'centre' | 'scale'> {
  const n = numbers.length
  const centre = new Float64Array(cols)
  const scale = new Float64Array(cols)
  const column = new Float64Array(n)
  const tail = Math.floor((n - 1) / 100)
  for (let j = 0; j < cols; j++) {
    for (let i = 0; i < n; i++) column[i] = data[numbers[i]! * cols + j]!
    const low = selectValue(column, 0, n - 1, tail)
    const high = selectValue(column, tail, n - 1, n - 1 - tail)
    const clipped = (i: number): number => Math.min(high, Math.max(low, data[numbers[i]! * cols + j]!))
    let sum = 0
    for (let i = 0; i < n; i++) sum += clipped(i)
    const mean = sum / n
    let squares = 0
    for (let i = 0; i < n; i++) {
      const difference = clipped(i) - mean
      squares += difference * difference
    }
    const largest = Math.max(Math.abs(low), Math.abs(high))
    if (!(largest <= LARGEST_CENTRE && squares < Number.POSITIVE_INFINITY)) {
      throw new DataError(`column ${j}: its numbers are too large to standardise; divide them first`, 'rows')
    }
    // rounding gives a constant column a deviation
    centre[j] = low === high ? low : mean
    scale[j] = low === high ? 0 : Math.sqrt(squares / n)
  }
  const positive = scale.filter((s) => s > 0).sort()
  const otherwise = positive.length === 0 ? 1 : CONSTANT_COLUMN_SHARE * quantileOf(positive, 0.5) || 1
  for (let j = 0; j < cols; j++) {
    scale[j] = minimumScale === null ? scale[j]! || otherwise : Math.max(scale[j]!, minimumScale)
  }
  return { centre, scale }
}

/** Throws ArgumentError with the field that `fitStandardisation` could not have made; arrays are not copied. */
export function checkStandardisation(part: Fields, cols: number): Pick<EnsemblePart, 'centre' | 'scale'> {
  const centre = numbersAt(part.centre, 'ensemble.centre')
  const scale = numbersAt(part.scale, 'ensemble.scale')
  if (centre.length !== cols) failField('ensemble.centre', `${cols} numbers`, centre.length)
  if (scale.length !== cols) failField('ensemble.scale', `${cols} numbers`, scale.length)
  checkMagnitude(centre, LARGEST_CENTRE, 'ensemble.centre')
  for (const v of scale) {
    if (!(v > 0 && v <= LARGEST_SCALE)) {
      failField('ensemble.scale', `numbers above 0, up to ${LARGEST_SCALE}`, v)
    }
  }
  return { centre, scale }
}

/** Throws ArgumentError with the field of a number larger than `largest` in size. */
export function checkMagnitude(numbers: Float64Array, largest: number, field: string): void {
  for (const v of numbers) {
    if (!(Math.abs(v) <= largest)) failField(field, `numbers from −${largest} to ${largest}`, v)
  }
}

/** Writes standardized rows to `out`, which may be `data`; numbers beyond LARGEST_STANDARDISED become that. */
export function standardise(
  { centre, scale }: Pick<EnsemblePart, 'centre' | 'scale'>,
  data: Float64Array,
  length: number,
  out: Float64Array,
): void {
  const cols = centre.length
  for (let at = 0; at < length; ) {
    for (let j = 0; j < cols; j++, at++) {
      const value = (data[at]! - centre[j]!) / scale[j]!
      out[at] = Math.max(-LARGEST_STANDARDISED, Math.min(LARGEST_STANDARDISED, value))
    }
  }
}

/** The inverse: original numbers of column after column from `start` on, D of them. */
export function unstandardise(
  { centre, scale }: Pick<EnsemblePart, 'centre' | 'scale'>,
  data: Float64Array,
  start: number,
): Float64Array {
  return centre.map((middle, j) => {
    const value = data[start + j]! * scale[j]! + middle
    return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
  })
}

// ---- what members are made with

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

/**
 * out[i] = how unusual row i of `rows` is, larger = more. Rows are standardized; categories[i] is the service of row i,
 * if rows have services. Allocates nothing, and gives a row the same bits in any batch.
 */
export type View = (rows: Matrix, categories: Float64Array, out: Float64Array) => void

/** What an ensemble does with one kind of member, besides its fit, which a program that only scores leaves out. */
export interface MemberKind<Member> {
  /** Weights of the surprises of its views, one for each. Their number depends on whether rows have services. */
  viewWeights(hasServices: boolean): readonly SurpriseWeights[]
  /** As many as `viewWeights` says. */
  createViews(member: Member, hasServices: boolean, simd: boolean): readonly View[]
  /** Metadata besides the surprise curves, and tensors by names after `prefix`. */
  encode(member: Member, prefix: string): ModelFileParts
  /** Unchecked, from the member's metadata and tensors; `file` reads names after the member's prefix. */
  decode(metadata: Fields, file: ModelFileReader, path: string): Fields
  /** Throws ArgumentError or FormatError with the path of the fault. */
  check(
    value: Fields,
    parameters: EnsembleParameters,
    shape: { readonly cols: number; readonly hasServices: boolean },
    path: string,
  ): Member
  spaceNumbers(member: Member): number
  facts(member: Member): ModelFact[]
}

/** Divides a member's view of rows among their columns. */
export interface ViewExplainer {
  /**
   * Writes shares of the view's surprise (0 or more, up to a common factor) for all columns, then the category. `value`
   * is the view of the row.
   */
  share(row: Matrix, category: number, value: number, out: Float64Array): void
  /** A normal row similar to this one, standardized; null for a detector without normal examples. */
  readonly example: ((row: Matrix, category: number, value: number) => Float64Array) | null
}

// ---- services and tiles

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

export function checkAscending(values: Float64Array, path: string, strictly: boolean): void {
  for (let i = 1; i < values.length; i++) {
    const rises = strictly ? values[i]! > values[i - 1]! : values[i]! >= values[i - 1]!
    if (!rises) failField(path, 'ascending numbers', values[i])
  }
}
