/**
 * Scalers: transform rows before distances are computed.
 *
 * - `none` is the paper.
 * - `standard` is (x − mean) / population standard deviation. A column without spread keeps scale 1, so a change
 *   counts.
 * - `log` is sign(x)·log(1 + |x|), because interarrival times and sizes span decades; `log-standard` is `standard`
 *   after it.
 * - `quantile` is the share of training rows below, as in scikit-learn's QuantileTransformer, but beyond the training
 *   rows it continues linearly, which a novelty detector must see.
 *
 * A scaler is its type, its definition and its lines in `SCALERS` and, if it can be exported, `C_SCALERS`. All drop a
 * category column, whose numbers are names.
 */

import { ArgumentError, createMatrix, DataError, exp, log, type Matrix, type Tensor } from '@oddflow/core'
import type { FitContext } from './detector.js'
import type { CWriter } from './export-c/c-text.js'
import { type Fields, failField, fieldsAt, numbersAt, wholeAt } from './fields.js'
import { type ModelFileReader, vectorTensor } from './model-file/layout.js'

/** What every scaler may have. */
export interface ScaledColumns {
  /**
   * The column whose numbers are names (core's `categoryColumn`). Scaled rows lack it, so no distance and no density
   * uses it. Absent: none.
   */
  readonly categoryColumn?: number
}

/** Rows are used as they come. */
export interface NoScaler extends ScaledColumns {
  readonly kind: 'none'
}

/** (x − mean) / scale, column by column; a column without spread has scale 1. */
export interface StandardScaler extends ScaledColumns {
  readonly kind: 'standard'
  /** Length D; all lengths here exclude the category column. */
  readonly mean: Float64Array
  /** Length D, positive: population standard deviations. */
  readonly scale: Float64Array
}

/** sign(x) · log(1 + |x|). */
export interface LogScaler extends ScaledColumns {
  readonly kind: 'log'
}

/** `log`, then as `standard`. */
export interface LogStandardScaler extends ScaledColumns {
  readonly kind: 'log-standard'
  /** Length D, of the logarithms. */
  readonly mean: Float64Array
  /** Length D, positive. */
  readonly scale: Float64Array
}

/**
 * Per column, the share of training rows below: linear between knots, and beyond the outermost as (x − knot) / (last
 * knot − first knot). Column j has the knots from starts[j] to starts[j + 1].
 */
export interface QuantileScaler extends ScaledColumns {
  readonly kind: 'quantile'
  /** Length D + 1, ascending from 0. */
  readonly starts: Uint32Array
  /** Strictly ascending within a column. */
  readonly knots: Float64Array
  /** In [0, 1], strictly ascending within a column. */
  readonly positions: Float64Array
}

interface ScalerDefinition<Model extends ScaledColumns> {
  /** Throws DataError if a column's numbers are too large for a mean, a deviation or a range. */
  fit(rows: Matrix): Model
  /**
   * Writes `count` scaled rows of `source`, from its element `start` on, to `out`, which may be `source` if `start` is
   * 0.
   */
  apply(
    scaler: Model,
    source: Float64Array,
    start: number,
    count: number,
    cols: number,
    out: Float64Array,
  ): void
  /** The number that scales to `y`, up to rounding. */
  invert(scaler: Model, column: number, y: number): number
  encode(scaler: Model): Readonly<Record<string, Tensor>>
  /** What a file has of it, unchecked. */
  decode(file: ModelFileReader): Fields
  /**
   * Checks a value that may be a scaler for `dimension` columns; returns it with the known fields only. Throws
   * ArgumentError with the path of the fault.
   */
  check(value: Fields, dimension: number): Model
}

// the scalers, one by one

const none: ScalerDefinition<NoScaler> = {
  fit: () => ({ kind: 'none' }),
  apply(_, source, start, count, cols, out) {
    for (let i = 0; i < count * cols; i++) out[i] = source[start + i]!
  },
  invert: (_, __, y) => y,
  encode: () => ({}),
  decode: () => ({}),
  check: () => ({ kind: 'none' }),
}

const logarithm: ScalerDefinition<LogScaler> = {
  fit: () => ({ kind: 'log' }),
  apply(_, source, start, count, cols, out) {
    for (let i = 0; i < count * cols; i++) out[i] = signedLog(source[start + i]!)
  },
  invert: (_, __, y) => signedExp(y),
  encode: () => ({}),
  decode: () => ({}),
  check: () => ({ kind: 'log' }),
}

const standard: ScalerDefinition<StandardScaler> = {
  fit: (rows) => ({ kind: 'standard', ...fitMoments(rows) }),
  apply({ mean, scale }, source, start, count, cols, out) {
    for (let i = 0, at = 0; i < count; i++) {
      for (let j = 0; j < cols; j++, at++) out[at] = (source[start + at]! - mean[j]!) / scale[j]!
    }
  },
  invert: ({ mean, scale }, column, y) => y * scale[column]! + mean[column]!,
  encode: encodeMoments,
  decode: decodeMoments,
  check: (value, dimension) => ({ kind: 'standard', ...checkMoments(value, dimension) }),
}

const logStandard: ScalerDefinition<LogStandardScaler> = {
  fit: (rows) => ({ kind: 'log-standard', ...fitMoments(scaleRows({ kind: 'log' }, rows)) }),
  apply({ mean, scale }, source, start, count, cols, out) {
    for (let i = 0, at = 0; i < count; i++) {
      for (let j = 0; j < cols; j++, at++) out[at] = (signedLog(source[start + at]!) - mean[j]!) / scale[j]!
    }
  },
  invert: ({ mean, scale }, column, y) => signedExp(y * scale[column]! + mean[column]!),
  encode: encodeMoments,
  decode: decodeMoments,
  check: (value, dimension) => ({ kind: 'log-standard', ...checkMoments(value, dimension) }),
}

const quantile: ScalerDefinition<QuantileScaler> = {
  fit: fitQuantiles,
  apply(scaler, source, start, count, cols, out) {
    for (let i = 0, at = 0; i < count; i++) {
      for (let j = 0; j < cols; j++, at++) out[at] = quantileOf(scaler, j, source[start + at]!)
    }
  },
  invert: numberAt,
  encode: ({ starts, knots, positions }) => ({
    'scaler.knots': vectorTensor(knots),
    'scaler.positions': vectorTensor(positions),
    'scaler.starts': { dtype: 'U32', shape: [starts.length], data: starts },
  }),
  decode: (file) => ({
    starts: file.uint32('scaler.starts'),
    knots: file.vector('scaler.knots'),
    positions: file.vector('scaler.positions'),
  }),
  check: checkQuantiles,
}

const SCALERS = { none, standard, log: logarithm, 'log-standard': logStandard, quantile }

/** The name of a scaler: what a detector does to rows first. */
export type ScalerName = keyof typeof SCALERS

/** The names of all scalers. */
export const SCALER_NAMES = Object.keys(SCALERS) as [ScalerName, ...ScalerName[]]

type ModelIn<Definition> = Definition extends ScalerDefinition<infer Model> ? Model : never

/** A fitted scaler; `kind` says which. */
export type ScalerModel = ModelIn<(typeof SCALERS)[ScalerName]>

// a model is only passed to the definition of its own name
function scalerNamed(name: ScalerName): ScalerDefinition<ScalerModel> {
  return SCALERS[name] as unknown as ScalerDefinition<ScalerModel>
}

// the interface for callers, without the category column

/**
 * Fits all columns except the category column. Throws DataError if a column's numbers are too large for a mean, a
 * deviation or a range.
 */
export function fitScaler(rows: Matrix, kind: ScalerName, categoryColumn: number | null = null): ScalerModel {
  const definition = scalerNamed(kind)
  if (categoryColumn === null) return definition.fit(rows)
  return { ...definition.fit(scaleRows({ kind: 'none', categoryColumn }, rows)), categoryColumn }
}

/** A scaler of that name fitted to the rows, and the scaled rows. */
export function fitScaledRows(
  rows: Matrix,
  kind: ScalerName,
  { shared, categoryColumn }: Pick<FitContext, 'shared' | 'categoryColumn'>,
): { readonly scaler: ScalerModel; readonly scaled: Matrix } {
  return shared.once('scaled rows', [rows, kind, categoryColumn], () => {
    const scaler = fitScaler(rows, kind, categoryColumn)
    return { scaler, scaled: scaleRows(scaler, rows) }
  })
}

/** A scaled copy of all rows; the rows themselves if nothing changes. */
export function scaleRows(scaler: ScalerModel, rows: Matrix): Matrix {
  if (scaler.kind === 'none' && scaler.categoryColumn === undefined) return rows
  const out = createMatrix(rows.rows, scaledWidth(scaler, rows.cols))
  scaleInto(scaler, rows.data, 0, rows.rows, rows.cols, out.data)
  return out
}

/** Columns of scaled rows, if the originals have `cols`. */
export function scaledWidth({ categoryColumn }: ScalerModel, cols: number): number {
  return categoryColumn === undefined ? cols : cols - 1
}

/** Writes `count` scaled rows of `source`, `cols` wide from its element `start` on, to `out` at 0, `scaledWidth` wide. */
export function scaleInto(
  scaler: ScalerModel,
  source: Float64Array,
  start: number,
  count: number,
  cols: number,
  out: Float64Array,
): void {
  const { categoryColumn } = scaler
  if (categoryColumn === undefined) {
    scalerNamed(scaler.kind).apply(scaler, source, start, count, cols, out)
    return
  }
  let at = 0
  for (let i = 0; i < count; i++) {
    const row = start + i * cols
    for (let j = 0; j < categoryColumn; j++) out[at++] = source[row + j]!
    for (let j = categoryColumn + 1; j < cols; j++) out[at++] = source[row + j]!
  }
  if (scaler.kind !== 'none') scalerNamed(scaler.kind).apply(scaler, out, 0, count, cols - 1, out)
}

/** Writes the unscaled `scaled[start … start + cols)` to `out` at 0. Leaves the category column in `out` unchanged. */
export function unscaleRow(
  scaler: ScalerModel,
  scaled: Float64Array,
  start: number,
  cols: number,
  out: Float64Array,
): void {
  const { categoryColumn = cols } = scaler
  const { invert } = scalerNamed(scaler.kind)
  for (let j = 0; j < cols; j++) {
    // a forged model may hold a number that was never measured
    const value = invert(scaler, j, scaled[start + j]!)
    out[j < categoryColumn ? j : j + 1] = Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
  }
}

/** Columns of one number alone. */
export function constantColumns(rows: Matrix, categoryColumn: number | null): number {
  let constant = 0
  for (let j = 0; j < rows.cols; j++) {
    if (j === categoryColumn) continue
    let i = 1
    while (i < rows.rows && rows.data[i * rows.cols + j] === rows.data[j]) i++
    if (i >= rows.rows) constant++
  }
  return constant
}

/** Scalers in a model file: the kind is in the feature contract, the numbers in tensors. */
export function encodeScaler(scaler: ScalerModel): Readonly<Record<string, Tensor>> {
  return scalerNamed(scaler.kind).encode(scaler)
}

/** Of the name in a contract. */
export function decodeScaler(file: ModelFileReader, kind: string): Fields {
  if (!(SCALER_NAMES as readonly string[]).includes(kind)) {
    return failField('featureContract.scaler', `one of ${SCALER_NAMES.join(', ')}`, kind)
  }
  return { kind, ...scalerNamed(kind as ScalerName).decode(file) }
}

/** For rows of `dimension` columns, including the category column. */
export function checkScalerModel(value: unknown, dimension: number, kind: ScalerName): ScalerModel {
  const s = fieldsAt(value, 'scaler')
  if (s.kind !== kind) failField('scaler.kind', kind, s.kind)
  const { categoryColumn } = s
  if (categoryColumn === undefined) return scalerNamed(kind).check(s, dimension)
  if (dimension < 2 || !(wholeAt(categoryColumn, 'scaler.categoryColumn') < dimension)) {
    return failField('scaler.categoryColumn', `one of several columns, here ${dimension}`, categoryColumn)
  }
  return {
    ...scalerNamed(kind).check(s, dimension - 1),
    categoryColumn: wholeAt(categoryColumn, 'scaler.categoryColumn'),
  }
}

// means and deviations

function fitMoments({ rows: n, cols, data }: Matrix): Moments {
  const mean = new Float64Array(cols)
  const scale = new Float64Array(cols)
  for (let i = 0, at = 0; i < n; i++) for (let j = 0; j < cols; j++) mean[j]! += data[at++]!
  for (let j = 0; j < cols; j++) mean[j] = mean[j]! / n
  for (let i = 0, at = 0; i < n; i++) {
    for (let j = 0; j < cols; j++) {
      const difference = data[at++]! - mean[j]!
      scale[j]! += difference * difference
    }
  }
  for (let j = 0; j < cols; j++) {
    const deviation = Math.sqrt(scale[j]! / n)
    if (!Number.isFinite(deviation)) throw tooLarge(j)
    // rounding gives a constant column a deviation of a few units in the last place of its mean
    scale[j] = deviation > Math.abs(mean[j]!) * 1e-14 ? deviation : 1
  }
  return { mean, scale }
}

type Moments = Pick<StandardScaler, 'mean' | 'scale'>

function encodeMoments({ mean, scale }: Moments): Readonly<Record<string, Tensor>> {
  return { 'scaler.mean': vectorTensor(mean), 'scaler.scale': vectorTensor(scale) }
}

function decodeMoments(file: ModelFileReader): Fields {
  return { mean: file.vector('scaler.mean'), scale: file.vector('scaler.scale') }
}

function checkMoments(value: Fields, dimension: number): Moments {
  const mean = numbersAt(value.mean, 'scaler.mean')
  const scale = numbersAt(value.scale, 'scaler.scale')
  if (mean.length !== dimension) failField('scaler.mean', `${dimension} numbers`, mean.length)
  if (scale.length !== dimension) failField('scaler.scale', `${dimension} numbers`, scale.length)
  for (const v of scale) if (!(v > 0)) failField('scaler.scale', 'positive numbers', v)
  return { mean, scale }
}

// logarithms

/** sign(x)·log(1 + |x|), accurate for small x (W. Kahan's correction). */
function signedLog(x: number): number {
  const size = Math.abs(x)
  const u = 1 + size
  const value = u === 1 ? size : log(u) * (size / (u - 1))
  return x < 0 ? -value : value
}

/** sign(y)·(exp|y| − 1). */
function signedExp(y: number): number {
  const size = exp(Math.abs(y)) - 1
  return y < 0 ? -size : size
}

// quantiles

/** Steps between the knots of a column. */
const QUANTILE_STEPS = 100

function fitQuantiles({ rows: n, cols, data }: Matrix): QuantileScaler {
  const starts = new Uint32Array(cols + 1)
  const knots: number[] = []
  const positions: number[] = []
  const column = new Float64Array(n)
  for (let j = 0; j < cols; j++) {
    for (let i = 0; i < n; i++) column[i] = data[i * cols + j]!
    column.sort()
    if (!Number.isFinite(column[n - 1]! - column[0]!)) throw tooLarge(j)
    let used = 0
    for (let t = 0; t <= QUANTILE_STEPS; t++) {
      const rank = Math.round((t * (n - 1)) / QUANTILE_STEPS)
      if (rank < used) continue
      const value = column[rank]!
      let first = rank
      while (first > used && column[first - 1] === value) first--
      used = rank + 1
      while (used < n && column[used] === value) used++
      // −0 and 0 are one number
      knots.push(value + 0)
      positions.push((first + used - 1) / 2 / (n - 1))
    }
    starts[j + 1] = knots.length
  }
  return {
    kind: 'quantile',
    starts,
    knots: Float64Array.from(knots),
    positions: Float64Array.from(positions),
  }
}

function quantileOf({ starts, knots, positions }: QuantileScaler, column: number, x: number): number {
  const first = starts[column]!
  const last = starts[column + 1]! - 1
  const range = last > first ? knots[last]! - knots[first]! : 1
  if (!(x > knots[first]!)) return positions[first]! + (x - knots[first]!) / range
  if (!(x < knots[last]!)) return positions[last]! + (x - knots[last]!) / range
  // knots[low] ≤ x < knots[high]
  let low = first
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (knots[middle]! <= x) low = middle
    else high = middle
  }
  const from = positions[low]!
  return from + (positions[high]! - from) * ((x - knots[low]!) / (knots[high]! - knots[low]!))
}

function numberAt({ starts, knots, positions }: QuantileScaler, column: number, y: number): number {
  const first = starts[column]!
  const last = starts[column + 1]! - 1
  const range = last > first ? knots[last]! - knots[first]! : 1
  if (!(y > positions[first]!)) return knots[first]! + (y - positions[first]!) * range
  if (!(y < positions[last]!)) return knots[last]! + (y - positions[last]!) * range
  let low = first
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (positions[middle]! <= y) low = middle
    else high = middle
  }
  const share = (y - positions[low]!) / (positions[high]! - positions[low]!)
  return knots[low]! + (knots[high]! - knots[low]!) * share
}

function checkQuantiles(s: Fields, dimension: number): QuantileScaler {
  const { starts } = s
  if (!(starts instanceof Uint32Array)) return failField('scaler.starts', 'a Uint32Array', starts)
  const knots = numbersAt(s.knots, 'scaler.knots')
  const positions = numbersAt(s.positions, 'scaler.positions')
  if (starts.length !== dimension + 1) failField('scaler.starts', `${dimension + 1} numbers`, starts.length)
  if (positions.length !== knots.length) {
    failField('scaler.positions', `${knots.length} numbers, one per knot`, positions.length)
  }
  if (starts[0] !== 0) failField('scaler.starts', '0 first', starts[0])
  if (starts[dimension] !== knots.length) {
    failField('scaler.starts', `${knots.length}, the number of knots, last`, starts[dimension])
  }
  for (let j = 0; j < dimension; j++) {
    const first = starts[j]!
    const end = starts[j + 1]!
    if (!(end > first && end - first <= QUANTILE_STEPS + 1 && end <= knots.length)) {
      failField('scaler.starts', `from 1 to ${QUANTILE_STEPS + 1} knots a column`, end - first)
    }
    for (let i = first; i < end; i++) {
      if (!(positions[i]! >= 0 && positions[i]! <= 1)) {
        failField('scaler.positions', 'numbers from 0 to 1', positions[i])
      }
      if (i === first) continue
      if (!(knots[i]! > knots[i - 1]!)) failField('scaler.knots', 'ascending numbers', knots[i])
      if (!(positions[i]! > positions[i - 1]!)) {
        failField('scaler.positions', 'ascending numbers', positions[i])
      }
    }
    if (!Number.isFinite(knots[end - 1]! - knots[first]!)) {
      failField('scaler.knots', 'a finite range', knots[end - 1])
    }
  }
  return { kind: 'quantile', starts, knots, positions }
}

function tooLarge(column: number): DataError {
  return new DataError(`column ${column}: its numbers are too large to scale; divide them first`, 'rows')
}

// C

/** C text of the scaled number of column j, whose number is the text `x`. */
type WriteScaler<Model> = (c: CWriter, scaler: Model, x: string) => string

/** A scaler without it cannot be exported. */
const C_SCALERS: {
  readonly [Name in ScalerName]?: WriteScaler<Extract<ScalerModel, { readonly kind: Name }>>
} = {
  none: (_c, _scaler, x) => x,
  standard: standardisedText,
  log: (c, _scaler, x) => logText(c, x),
  'log-standard': (c, scaler, x) => standardisedText(c, scaler, logText(c, x)),
  quantile(c, scaler, x) {
    c.need('quantile')
    const starts = c.table('scaler_starts', 'int32_t', scaler.starts)
    const knots = c.table('scaler_knots', 'double', scaler.knots)
    const positions = c.table('scaler_positions', 'double', scaler.positions)
    const first = `${starts}[j]`
    return `$quantile(${x}, ${knots} + ${first}, ${positions} + ${first}, ${starts}[j + 1] - ${first})`
  },
}

function logText(c: CWriter, x: string): string {
  c.need('signed_log')
  return `$signed_log(${x})`
}

function standardisedText(c: CWriter, scaler: Moments, x: string): string {
  const mean = c.table('scaler_mean', 'double', scaler.mean)
  const scale = c.table('scaler_scale', 'double', scaler.scale)
  return `(${x} - ${mean}[j]) / ${scale}[j]`
}

export function writeScaler(c: CWriter, scaler: ScalerModel, width: number, keepsFinite: boolean): void {
  const { categoryColumn = width } = scaler
  const write = C_SCALERS[scaler.kind] as WriteScaler<ScalerModel> | undefined
  if (write === undefined) {
    throw new ArgumentError(`scaler: ${scaler.kind} cannot be exported to C; take another`, 'scaler')
  }
  let value = write(c, scaler, categoryColumn === width ? 'row[j]' : `row[j < ${categoryColumn} ? j : j + 1]`)
  if (keepsFinite && scaler.kind !== 'none') {
    c.need('finite')
    value = `$finite(${value}, DBL_MAX)`
  }
  c.code(`static inline void $scale(const double *row, double *x) {
  int j;
  for (j = 0; j < ${width}; j++) x[j] = ${value};
}
`)
}
