/** hbos: histograms of single columns. */

import { createMatrix, DataError, log, MAXIMUM_DIMENSION, type Matrix } from '@oddflow/core'
import type { DetectorDefinition, FitContext } from '../detector.js'
import type { CWriter } from '../export-c/c-text.js'
import { fitStandalone, standalone } from '../families/standalone.js'
import { type Fields, failField, fieldsAt, matrixAt, sizeUpTo, wholeAt } from '../fields.js'
import type { ModelFrame } from '../model.js'
import { encodeFields, type ModelFileParts, type ModelFileReader } from '../model-file/layout.js'
import { type ValuesOf, whole } from '../options.js'
import type { CommonParameters } from '../parameters.js'

/**
 * Column histograms, the density of HBOS (Goldstein and Dengel, "Histogram-based outlier score", KI 2012).
 *
 * A column has `bins` bins of equal width between its 1 % and 99 % order statistics, of at least a minimum width, and
 * an open bin on each side, so a few extreme rows do not widen the bins. The *view* of a row is Σ over columns of
 * −log((count + 1/2) / (n + 1/2)) of its bins, stored in whole 1/2048 nats, so sums are exact in any order.
 *
 * Shapes: T tables of D columns.
 */

export interface ColumnHistograms {
  /** Between the two open ones. */
  readonly bins: number
  /** n of each table, length T. */
  readonly rows: Uint32Array
  /** T × D: the 1 % and 99 % order statistics. */
  readonly low: Matrix
  readonly high: Matrix
  /** T × D × (bins + 2) in units of 1/2048 nat. */
  readonly surprises: Uint16Array
}

const MAXIMUM_TABLES = 1000
const MAXIMUM_BINS = 1000
export const UNITS_PER_NAT = 2048
/** What an empty bin counts. */
export const PSEUDO_COUNT = 0.5

/**
 * Tables that share rows: a table covers some of `parts`, and `tables` lists their numbers. Each part's columns are
 * sorted once, and order statistics and bin counts are searched there. A column's range may overflow (see
 * `takeTables`). An empty table has no effect.
 */
export function fitHistograms(
  rows: Matrix,
  parts: readonly Uint32Array[],
  tables: readonly (readonly number[])[],
  bins: number,
  leastWidth: number,
): ColumnHistograms {
  const { cols, data } = rows
  const low = createMatrix(tables.length, cols)
  const high = createMatrix(tables.length, cols)
  const surprises = new Uint16Array(tables.length * cols * (bins + 2))
  const column = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0))
  let end = 0
  const sorted = parts.map(({ length }) => {
    end += length
    return column.subarray(end - length, end)
  })
  const tableParts = tables.map((table) =>
    table.map((part) => sorted[part]!).filter(({ length }) => length > 0),
  )
  const sizes = Uint32Array.from(tableParts, (own) => own.reduce((sum, { length }) => sum + length, 0))
  const counts = new Float64Array(bins + 2)
  for (let j = 0; j < cols; j++) {
    parts.forEach((numbers, part) => {
      const values = sorted[part]!
      // + 0: −0 and 0 are one number
      for (let i = 0; i < numbers.length; i++) values[i] = data[numbers[i]! * cols + j]! + 0
      values.sort()
    })
    tableParts.forEach((own, t) => {
      const n = sizes[t]!
      if (n === 0) return
      const tail = Math.floor((n - 1) / 100)
      const from = selectAmong(own, tail)
      const to = selectAmong(own, n - 1 - tail)
      low.data[t * cols + j] = from
      high.data[t * cols + j] = to
      counts.fill(0)
      const width = Math.max((to - from) / bins, leastWidth)
      for (const values of own) addCounts(values, from, to, width, bins, counts)
      writeSurprises(counts, n, surprises, (t * cols + j) * (bins + 2))
    })
  }
  return { bins, rows: sizes, low, high, surprises }
}

/** The tables from `first` up to `end`. Throws DataError for a column whose range overflows. */
export function takeTables(
  { bins, rows, low, high, surprises }: ColumnHistograms,
  first: number,
  end: number,
): ColumnHistograms {
  const { cols } = low
  for (let at = first * cols; at < end * cols; at++) failRange(low.data[at]!, high.data[at]!, at % cols)
  const take = ({ data }: Matrix): Matrix => ({
    rows: end - first,
    cols,
    data: data.slice(first * cols, end * cols),
  })
  const tableBins = cols * (bins + 2)
  return {
    bins,
    rows: rows.slice(first, end),
    low: take(low),
    high: take(high),
    surprises: surprises.slice(first * tableBins, end * tableBins),
  }
}

export function failRange(from: number, to: number, column: number): void {
  if (Number.isFinite(to - from)) return
  throw new DataError(
    `column ${column}: its numbers are too large to count in bins; divide them first`,
    'rows',
  )
}

/** The number at `place` if several non-empty ascending arrays were merged. */
function selectAmong(sorted: readonly Float64Array[], place: number): number {
  if (sorted.length === 1) return sorted[0]![place]!
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (const values of sorted) {
    low = Math.min(low, values[0]!)
    high = Math.max(high, values[values.length - 1]!)
  }
  while (low < high) {
    // halves, because the sum may overflow
    const middle = low / 2 + high / 2
    const pivot = middle > low && middle < high ? middle : low
    let count = 0
    let below = Number.NEGATIVE_INFINITY
    let above = Number.POSITIVE_INFINITY
    for (const values of sorted) {
      const end = countBelow(values, pivot, true)
      count += end
      if (end > 0) below = Math.max(below, values[end - 1]!)
      if (end < values.length) above = Math.min(above, values[end]!)
    }
    if (count > place) high = below
    else low = above
  }
  return low
}

/** Adds to each bin the count of ascending values inside it. */
function addCounts(
  values: Float64Array,
  low: number,
  high: number,
  width: number,
  bins: number,
  counts: Float64Array,
): void {
  for (let bin = 0, start = 0; start < values.length; bin++) {
    let first = start
    let last = values.length
    while (first < last) {
      const middle = (first + last) >>> 1
      if (binOf(values[middle]!, low, high, width, bins) > bin) last = middle
      else first = middle + 1
    }
    counts[bin]! += first - start
    start = first
  }
}

/** In units, of n rows. */
const emptyBinSurprise = (n: number): number =>
  Math.round(log((n + PSEUDO_COUNT) / PSEUDO_COUNT) * UNITS_PER_NAT)

/** Of the counts of one column, n in all. */
export function writeSurprises(counts: Float64Array, n: number, surprises: Uint16Array, start: number): void {
  for (let b = 0; b < counts.length; b++) {
    // estimated counts may exceed n slightly
    const surprise = Math.max(0, log((n + PSEUDO_COUNT) / (counts[b]! + PSEUDO_COUNT)))
    surprises[start + b] = Math.round(surprise * UNITS_PER_NAT)
  }
}

export function binOf(x: number, low: number, high: number, width: number, bins: number): number {
  if (x < low) return 0
  // a constant column has bins without width: different values are outside
  const bin = width > 0 ? Math.floor((x - low) / width) : x > low ? bins : 0
  if (x <= high) return 1 + Math.min(bin, bins - 1)
  return 1 + Math.min(bin, bins)
}

/** How many of ascending values are smaller, or smaller or equal. */
export function countBelow(sorted: Float64Array, x: number, orAt: boolean): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]! < x || (orAt && sorted[middle] === x)) low = middle + 1
    else high = middle
  }
  return low
}

// ---- views

/** What scoring looks at. */
interface HistogramViews {
  readonly histograms: ColumnHistograms
  /** T × D. */
  readonly widths: Float64Array
}

export function createHistogramViews(histograms: ColumnHistograms, leastWidth: number): HistogramViews {
  const { low, high, bins } = histograms
  return {
    histograms,
    widths: low.data.map((from, at) => Math.max((high.data[at]! - from) / bins, leastWidth)),
  }
}

/** How unusual the row at `start` is to a table. */
export function histogramView(
  { histograms, widths }: HistogramViews,
  table: number,
  data: Float64Array,
  start: number,
): number {
  const { low, high, bins, surprises } = histograms
  const { cols } = low
  let sum = 0
  for (let j = 0, at = table * cols; j < cols; j++, at++) {
    sum +=
      surprises[at * (bins + 2) + binOf(data[start + j]!, low.data[at]!, high.data[at]!, widths[at]!, bins)]!
  }
  return sum / UNITS_PER_NAT
}

/** out[j] = nats by which column j of the row at `start` is more unusual than the column's fullest bin. */
export function histogramShares(
  { histograms, widths }: HistogramViews,
  table: number,
  data: Float64Array,
  start: number,
  out: Float64Array,
): void {
  const { low, high, bins, surprises } = histograms
  const { cols } = low
  for (let j = 0, at = table * cols; j < cols; j++, at++) {
    const first = at * (bins + 2)
    const bin = binOf(data[start + j]!, low.data[at]!, high.data[at]!, widths[at]!, bins)
    out[j] = (surprises[first + bin]! - surprises[fullestBin(histograms, at)]!) / UNITS_PER_NAT
  }
}

/** The middles of each column's fullest bins; the edge for an open bin. */
export function modalRow({ histograms, widths }: HistogramViews, table: number): Float64Array {
  const { low, high, bins } = histograms
  return Float64Array.from({ length: low.cols }, (_, j) => {
    const at = table * low.cols + j
    const bin = fullestBin(histograms, at) - at * (bins + 2)
    if (bin === 0) return low.data[at]!
    return Math.min(high.data[at]!, low.data[at]! + (bin - 0.5) * widths[at]!)
  })
}

/** Of the column `at` of all tables' columns. */
function fullestBin({ bins, surprises }: ColumnHistograms, at: number): number {
  const first = at * (bins + 2)
  let fullest = first
  for (let b = first; b < first + bins + 2; b++) if (surprises[b]! < surprises[fullest]!) fullest = b
  return fullest
}

/** Numbers that a scorer needs; four table entries count as one. */
export function histogramNumbers({ low, high, surprises }: ColumnHistograms): number {
  return low.data.length + high.data.length + surprises.length / 4
}

const HISTOGRAM_FIELDS = { rows: 'uint32', low: 'matrix', high: 'matrix' } as const

export function encodeHistograms(
  { bins, rows, low, high, surprises }: ColumnHistograms,
  prefix: string,
): ModelFileParts['tensors'] {
  return {
    ...encodeFields({ high, low, rows }, HISTOGRAM_FIELDS, prefix),
    [`${prefix}surprises`]: { dtype: 'U16', shape: [rows.length, low.cols, bins + 2], data: surprises },
  }
}

/** Unchecked. */
export function decodeHistograms(file: ModelFileReader, prefix: string): Fields {
  const { shape, data } = file.uint16Cube(`${prefix}surprises`)
  return {
    bins: shape[2]! - 2,
    ...file.fields(HISTOGRAM_FIELDS, prefix),
    surprises: data,
  }
}

/** For this number of bins, null for any. Throws ArgumentError with the path of the fault; arrays are not copied. */
export function checkHistograms(value: unknown, expectedBins: number | null, path: string): ColumnHistograms {
  const h = fieldsAt(value, path)
  const bins = wholeAt(h.bins, `${path}.bins`)
  if (bins !== (expectedBins ?? bins)) failField(`${path}.bins`, `${expectedBins}`, bins)
  sizeUpTo(bins, MAXIMUM_BINS, `${path}.bins`)
  const { rows, surprises } = h
  if (!(rows instanceof Uint32Array)) return failField(`${path}.rows`, 'a Uint32Array', rows)
  if (!(rows.length >= 1 && rows.length <= MAXIMUM_TABLES && rows.every((n) => n >= 1))) {
    failField(`${path}.rows`, `from 1 to ${MAXIMUM_TABLES} numbers of 1 and more`, rows.length)
  }
  const low = matrixAt(h.low, `${path}.low`)
  const { cols } = low
  sizeUpTo(cols, MAXIMUM_DIMENSION, `${path}.low.cols`)
  const high = matrixAt(h.high, `${path}.high`)
  for (const [name, { rows: height, cols: width }] of Object.entries({ low, high })) {
    if (height !== rows.length || width !== cols) {
      failField(`${path}.${name}`, `${rows.length} × ${cols} numbers`, `${height} × ${width}`)
    }
  }
  low.data.forEach((from, at) => {
    const range = high.data[at]! - from
    if (!(range >= 0 && range < Number.POSITIVE_INFINITY)) {
      failField(`${path}.high`, 'numbers no lower than low', high.data[at])
    }
  })
  if (!(surprises instanceof Uint16Array)) return failField(`${path}.surprises`, 'a Uint16Array', surprises)
  const expected = rows.length * cols * (bins + 2)
  if (surprises.length !== expected) failField(`${path}.surprises`, `${expected} numbers`, surprises.length)
  const mostOf = Array.from(rows, emptyBinSurprise)
  surprises.forEach((surprise, at) => {
    const most = mostOf[Math.floor(at / (cols * (bins + 2)))]!
    if (surprise > most) failField(`${path}.surprises`, `up to ${most}, an empty bin's`, surprise)
  })
  return { bins, rows, low, high, surprises }
}

/** Rows have their own units, so bins may be as narrow as the column; a constant column has none. */
const LEAST_WIDTH = 0

/** An ensemble with the member hbos has them too. */
export const HBOS_OPTIONS = {
  bins: whole(1, 1000, 20, {
    group: 'Other detectors',
    help: 'bins of the histogram of a column',
    shownDefault: '20; for ensemble 2 × rows^(1/3), from 20 to 64',
  }),
}

/** Checked parameters of histograms. */
export interface HbosParameters extends CommonParameters<'hbos'>, ValuesOf<typeof HBOS_OPTIONS> {}

/** Fitted histograms of each column. */
export interface HbosModel extends ModelFrame<HbosParameters> {
  /** One table. */
  readonly histograms: ColumnHistograms
}

export function fitHbos(rows: Matrix, parameters: HbosParameters, context: FitContext): HbosModel {
  const { frame, part } = fitStandalone(rows, parameters, context, (scaled, { bins }) => {
    const all = Uint32Array.from({ length: scaled.rows }, (_, i) => i)
    return { model: takeTables(fitHistograms(scaled, [all], [[0]], bins, LEAST_WIDTH), 0, 1), notes: [] }
  })
  return { ...frame, histograms: part }
}

export const hbos: DetectorDefinition<HbosParameters, HbosModel, typeof HBOS_OPTIONS> = standalone({
  name: 'hbos',
  summary: 'histograms of the columns (HBOS)',
  own: HBOS_OPTIONS,
  field: 'histograms',
  createWorkspace: (part: ColumnHistograms) => createHistogramViews(part, LEAST_WIDTH),
  score(part, rows, out, views) {
    for (let i = 0; i < rows.rows; i++) out[i] = 0 - histogramView(views, 0, rows.data, i * part.low.cols)
    return out
  },
  check(value, { bins }, field) {
    const part = checkHistograms(value, bins, field)
    if (part.rows.length !== 1) failField(`${field}.rows`, 'one table', part.rows.length)
    return part
  },
  dimensionOf: ({ low }) => low.cols,
  encode: (part) => encodeHistograms(part, 'histograms.'),
  decode: (file) => decodeHistograms(file, 'histograms.'),
  spaceNumbers: (part) => Math.ceil(histogramNumbers(part)),
  facts: ({ bins }) => [
    { label: 'histograms', value: `${bins} bins a column, and an open one on each side` },
  ],
  figures: ({ bins }) => ({ bins }),
  examples(part) {
    const data = modalRow(createHistogramViews(part, LEAST_WIDTH), 0)
    return { rows: 1, cols: data.length, data }
  },
})

// ---- C

/** Writes a function of a row and a table; returns its name. */
export function writeHistograms(
  c: CWriter,
  tables: ColumnHistograms,
  leastWidth: number,
  prefix: string,
): string {
  c.need('histograms')
  const low = c.table(`${prefix}low`, 'double', tables.low.data)
  const high = c.table(`${prefix}high`, 'double', tables.high.data)
  const widths = c.table(`${prefix}widths`, 'double', createHistogramViews(tables, leastWidth).widths)
  const surprises = c.table(`${prefix}surprises`, 'uint16_t', tables.surprises)
  const { cols } = tables.low
  const bins = tables.bins + 2
  const name = `$${prefix}view`
  c.code(`static inline double ${name}(const double *x, int table) {
  const int at = table * ${cols};
  return $histograms(x, ${low} + at, ${high} + at, ${widths} + at, ${surprises} + (size_t)at * ${bins}, ${cols}, ${tables.bins});
}
`)
  return name
}

export function writeHbos(c: CWriter, { histograms }: HbosModel, prefix: string): void {
  const view = writeHistograms(c, histograms, LEAST_WIDTH, prefix)
  c.scoreScaled(prefix, `0.0 - ${view}(x, 0)`)
}
