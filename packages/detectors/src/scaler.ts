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
 * A scaler is its type, its definition and its lines in `SCALERS` and `C_SCALERS`. All drop a category column, whose
 * numbers are names.
 */

import { createMatrix, DataError, exp, log, type Matrix, type Tensor } from '@oddflow/core'
import type { CWriter } from './export-c/c-text.js'
import { type Fields, failField, fieldsAt, numbersAt, wholeAt } from './fields.js'
import { encodeFields, type ModelFileReader, type TensorFields } from './model-file/layout.js'

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

/** `log`, then as `standard`: mean and scale are those of the logarithms. */
export interface LogStandardScaler extends Omit<StandardScaler, 'kind'> {
  readonly kind: 'log-standard'
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

/** What a fit finds: a scaler without its name. */
type Found<Model extends ScaledColumns> = Omit<Model, 'kind' | 'categoryColumn'>

interface ScalerDefinition<Model extends ScaledColumns> {
  /** Throws DataError if a column's numbers are too large for a mean, a deviation or a range. */
  fit(rows: Matrix): Found<Model>
  /**
   * Scales `count` rows of `source`, from its element `start` on, to `out`, which may be `source` if `start` is 0. Each
   * scaler has its own loop: a call for each number would take longer than the scaling.
   */
  apply(
    scaler: Found<Model>,
    source: Float64Array,
    start: number,
    count: number,
    cols: number,
    out: Float64Array,
  ): void
  /** The number that scales to `y`, up to rounding. */
  invert(scaler: Found<Model>, column: number, y: number): number
  /** What a model file has of it. */
  readonly tensors: TensorFields
  /**
   * Checks a value that may be a scaler for `dimension` columns; returns the known fields only. Throws ArgumentError with
   * the path of the fault.
   */
  check(value: Fields, dimension: number): Found<Model>
}

// the scalers, one by one

const none: ScalerDefinition<NoScaler> = {
  fit: () => ({}),
  // rows are copied as they come
  apply() {},
  invert: (_, __, y) => y,
  tensors: {},
  check: () => ({}),
}

const logarithm: ScalerDefinition<LogScaler> = {
  ...none,
  apply(_, source, start, count, cols, out) {
    for (let i = 0; i < count * cols; i++) out[i] = signedLog(source[start + i]!)
  },
  invert: (_, __, y) => signedExp(y),
}

const standard: ScalerDefinition<StandardScaler> = {
  fit: fitMoments,
  apply({ mean, scale }, source, start, count, cols, out) {
    for (let i = 0, at = 0; i < count; i++) {
      for (let j = 0; j < cols; j++, at++) out[at] = (source[start + at]! - mean[j]!) / scale[j]!
    }
  },
  invert: ({ mean, scale }, column, y) => y * scale[column]! + mean[column]!,
  tensors: { mean: 'vector', scale: 'vector' },
  check: checkMoments,
}

const logStandard: ScalerDefinition<LogStandardScaler> = {
  ...standard,
  fit: (rows) => fitMoments(scaleRows({ kind: 'log' }, rows)),
  apply({ mean, scale }, source, start, count, cols, out) {
    for (let i = 0, at = 0; i < count; i++) {
      for (let j = 0; j < cols; j++, at++) out[at] = (signedLog(source[start + at]!) - mean[j]!) / scale[j]!
    }
  },
  invert: ({ mean, scale }, column, y) => signedExp(y * scale[column]! + mean[column]!),
}

const quantile: ScalerDefinition<QuantileScaler> = {
  fit: fitQuantiles,
  apply(scaler, source, start, count, cols, out) {
    for (let i = 0, at = 0; i < count; i++) {
      for (let j = 0; j < cols; j++, at++) out[at] = quantileOf(scaler, j, source[start + at]!)
    }
  },
  invert: numberAt,
  tensors: { starts: 'uint32', knots: 'vector', positions: 'vector' },
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
  if (categoryColumn === null) return { kind, ...definition.fit(rows) } as ScalerModel
  const found = definition.fit(scaleRows({ kind: 'none', categoryColumn }, rows))
  return { kind, ...found, categoryColumn } as ScalerModel
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
  const { apply } = scalerNamed(scaler.kind)
  if (scaler.categoryColumn === undefined && scaler.kind !== 'none') {
    apply(scaler, source, start, count, cols, out)
    return
  }
  const { categoryColumn = cols } = scaler
  let at = 0
  for (let i = 0; i < count; i++) {
    const row = start + i * cols
    for (let j = 0; j < categoryColumn; j++) out[at++] = source[row + j]!
    for (let j = categoryColumn + 1; j < cols; j++) out[at++] = source[row + j]!
  }
  apply(scaler, out, 0, count, cols - 1, out)
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

/** Scalers in a model file: the kind is in the feature contract, the numbers in tensors. */
export function encodeScaler(scaler: ScalerModel): Readonly<Record<string, Tensor>> {
  return encodeFields(scaler, scalerNamed(scaler.kind).tensors, 'scaler.')
}

/** Of the name in a contract. */
export function decodeScaler(file: ModelFileReader, kind: string): Fields {
  if (!(SCALER_NAMES as readonly string[]).includes(kind)) {
    return failField('featureContract.scaler', `one of ${SCALER_NAMES.join(', ')}`, kind)
  }
  return { kind, ...file.fields(scalerNamed(kind as ScalerName).tensors, 'scaler.') }
}

/** For rows of `dimension` columns, including the category column. */
export function checkScalerModel(value: unknown, dimension: number, kind: ScalerName): ScalerModel {
  const s = fieldsAt(value, 'scaler')
  if (s.kind !== kind) failField('scaler.kind', kind, s.kind)
  const { categoryColumn } = s
  const { check } = scalerNamed(kind)
  if (categoryColumn === undefined) return { kind, ...check(s, dimension) } as ScalerModel
  if (dimension < 2 || !(wholeAt(categoryColumn, 'scaler.categoryColumn') < dimension)) {
    return failField('scaler.categoryColumn', `one of several columns, here ${dimension}`, categoryColumn)
  }
  return { kind, ...check(s, dimension - 1), categoryColumn } as ScalerModel
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

type Moments = Found<StandardScaler>

function checkMoments(value: Fields, dimension: number): Moments {
  const mean = numbersAt(value.mean, 'scaler.mean', dimension)
  const scale = numbersAt(value.scale, 'scaler.scale', dimension)
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

function fitQuantiles({ rows: n, cols, data }: Matrix): Quantiles {
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
  return { starts, knots: Float64Array.from(knots), positions: Float64Array.from(positions) }
}

type Quantiles = Found<QuantileScaler>

function quantileOf({ starts, knots, positions }: Quantiles, column: number, x: number): number {
  const first = starts[column]!
  const last = starts[column + 1]! - 1
  const range = last > first ? knots[last]! - knots[first]! : 1
  if (!(x > knots[first]!)) return positions[first]! + (x - knots[first]!) / range
  if (!(x < knots[last]!)) return positions[last]! + (x - knots[last]!) / range
  return between(knots, positions, first, last, x)
}

function numberAt({ starts, knots, positions }: Quantiles, column: number, y: number): number {
  const first = starts[column]!
  const last = starts[column + 1]! - 1
  const range = last > first ? knots[last]! - knots[first]! : 1
  if (!(y > positions[first]!)) return knots[first]! + (y - positions[first]!) * range
  if (!(y < positions[last]!)) return knots[last]! + (y - positions[last]!) * range
  return between(positions, knots, first, last, y)
}

/** Linear from the places of x to those of y, for from[first] < x < from[last]. */
function between(from: Float64Array, to: Float64Array, first: number, last: number, x: number): number {
  // from[low] ≤ x < from[high]
  let low = first
  let high = last
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (from[middle]! <= x) low = middle
    else high = middle
  }
  return to[low]! + (to[high]! - to[low]!) * ((x - from[low]!) / (from[high]! - from[low]!))
}

function checkQuantiles(s: Fields, dimension: number): Quantiles {
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
      for (const [name, values] of Object.entries({ knots, positions })) {
        if (i > first && !(values[i]! > values[i - 1]!))
          failField(`scaler.${name}`, 'ascending numbers', values[i])
      }
    }
    if (!Number.isFinite(knots[end - 1]! - knots[first]!)) {
      failField('scaler.knots', 'a finite range', knots[end - 1])
    }
  }
  return { starts, knots, positions }
}

function tooLarge(column: number): DataError {
  return new DataError(`column ${column}: its numbers are too large to scale; divide them first`, 'rows')
}

// C

/** C text of the scaled number of column j, whose number is the text `x`. */
const C_SCALERS: Readonly<
  Record<ScalerName, (c: CWriter, scaler: Moments & Quantiles, x: string) => string>
> = {
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
  let value = C_SCALERS[scaler.kind](
    c,
    scaler as never,
    categoryColumn === width ? 'row[j]' : `row[j < ${categoryColumn} ? j : j + 1]`,
  )
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
